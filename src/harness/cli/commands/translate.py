"""Convert the output of an agent to any format, live: from a file or from standard input.

some-agent --json "…" | harness translate --agent NAME
harness translate --from agui stream.txt --format md
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from harness.cli import playback
from harness.cli.console import Console, number_of
from harness.cli.parser import completes
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.contracts.translator import Translator
    from harness.events import Event
    from harness.runs.pipeline import Pipeline

SUMMARY = "convert recorded output of an agent to any format"
STANDARDS = ("acp", "agui", "atif", "responses")
"""The files of `protocols/standards`."""
DOCUMENTS = frozenset(("atif", "responses"))
_STDIN = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_text = "the agent that wrote it"
    completes(add("-a", "--agent", default="", metavar="NAME", help=help_text), "agents")
    add(
        "--from",
        dest="standard",
        choices=STANDARDS,
        help="the standard that it is in, whoever wrote it: lines of JSON, server-sent events, or a document",
    )
    add("file", metavar="FILE", nargs="?", default="-", help="recorded standard output (default: -, stdin)")
    playback.add_arguments(parser)
    add("--check", action="store_true", help="show what became of each line; fail if one was lost")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.runs.pipeline import Pipeline

    name, translator = _translator(arguments)
    pipeline = Pipeline(translator)
    fd = _open(arguments.file)
    try:
        is_document = arguments.standard in DOCUMENTS
        batches = _events(pipeline, name, fd, is_document=is_document)
        playback.show(batches, arguments, console, is_live=True)
    finally:
        if fd != _STDIN:
            os.close(fd)
    if not arguments.check:
        return 0
    _report(pipeline.rules, console)
    for line in pipeline.lost:
        console.say(f"harness: lost line: {line[:200]!r}")
    return 1 if pipeline.lost else 0


def _translator(arguments: argparse.Namespace) -> tuple[str, Translator]:
    if bool(arguments.standard) == bool(arguments.agent):
        missing = "the following arguments are required: -a/--agent, or --from"
        raise UsageError("--from is instead of --agent" if arguments.agent else missing)
    if arguments.standard:
        return arguments.standard, import_module(
            f"harness.protocols.standards.{arguments.standard}"
        ).TRANSLATOR()
    from harness.agents.registry import load

    agent = load(arguments.agent)
    return agent.name, agent.translator()


def _events(pipeline: Pipeline, agent_name: str, fd: int, *, is_document: bool) -> Iterator[Sequence[Event]]:
    """Stamped as in any log, though nothing is stored."""
    from harness.cli.recorded_output import RecordedOutput
    from harness.log.hub import Hub
    from harness.log.raw import RawExit, RawOutput, RawStart
    from harness.log.stores.memory import MemoryStore

    recording = RecordedOutput(fd, agent_name, is_document=is_document)
    now_ms = recording.now_ms
    hub = Hub(MemoryStore(), recording.run_id, _Nowhere(), now_ms)
    source, follower = hub.source(recording.run_id), hub.follower()
    source.append(pipeline.feed(RawStart(at_ms=now_ms(), agent=agent_name)))
    for block in recording.blocks():
        source.append(pipeline.feed(RawOutput(at_ms=now_ms(), stream="stdout", data=block)))
        yield follower.poll()
    source.append(pipeline.feed(RawExit(at_ms=now_ms())))
    yield follower.poll()


class _Nowhere:
    """A log writer that keeps nothing."""

    next_seq = 0

    def append(self, events: Sequence[Event]) -> int:
        return len(events) * 500

    def close(self) -> None:
        return


def _open(path: str) -> int:
    if path == "-":
        return _STDIN
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UsageError(f"cannot read {path!r}: {reason}") from error


def _report(rules: Counter[str], console: Console) -> None:
    lines = number_of(sum(rules.values()), "line")
    console.say(f"{lines}:" if rules else lines)
    for rule, count in sorted(rules.items()):
        console.say(f"{count:>7}  {rule}")
