"""The logs that every format of others is tried on: all recordings, unusual and changed ones, and one with everything."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

import recorded_runs
import unusual_logs
from changed_logs import MUTATIONS, Log, changed
from harness.agents.registry import load
from harness.events import Event
from harness.log import codec
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.protocols.standards import acp
from harness.runs.pipeline import Pipeline

RECORDINGS = sorted((Path(__file__).parents[1] / "agents").glob("*/*/*/events.ndjson"))
AGENTS = sorted({path.parents[2].name for path in RECORDINGS})
TWO_WAY = sorted((Path(__file__).parents[1] / "recordings" / "two-way").glob("*/*/*.jsonl.gz"))
"""Both sides of conversations with real agents: questions and answers, several turns, interrupts, kills."""
HELD = {"claude": "claude", "codex-app-server": "codex", "pi-rpc": "pi"}
"""Recordings of agents that are held in a protocol of their own. The others are of ACP."""
GROUPS = [*AGENTS, "unusual", "changed", "live"]
FIRST_MS = 1_794_769_890_000
CHANGED = 160


@cache
def everything() -> tuple[Event, ...]:
    """A made-up log: a sub-agent that asks, programs, images, sounds, retracted text, skills, a run that was killed."""
    return tuple(_decoded(Path(__file__).with_name("made_up.ndjson")))


def _decoded(path: Path) -> Iterator[Event]:
    for line in path.read_bytes().split(b"\n"):
        if line:
            yield codec.decode(line)


def recording(path: Path) -> Log:
    """The golden events as a log has them."""
    return stamped(_decoded(path), "-".join(path.parts[-4:-1]))


def stamped(events: Iterable[Event], name: str) -> Log:
    return [
        replace(
            event,
            seq=number,
            timestamp_ms=FIRST_MS + 37 * number,
            run_id=f"{event.run_id or 'top'}@{name}",
        )
        for number, event in enumerate(events)
    ]


def live(path: Path) -> Log:
    """A recorded conversation as the log of one run."""
    name = HELD.get(path.parents[1].name)
    two_way = load(name).two_way if name else None
    pipeline = Pipeline(two_way.translator() if two_way is not None else acp.TRANSLATOR())
    events = [*pipeline.feed(RawStart(at_ms=1, agent=name or "acp"))]
    for line in filter(None, gzip.decompress(path.read_bytes()).split(b"\n")):
        entry = json.loads(line)
        if isinstance(entry.get("msg"), dict) and entry["dir"] in (("out",) if name else ("in", "out")):
            data = json.dumps(entry["msg"]).encode() + b"\n"
            events += pipeline.feed(RawOutput(at_ms=2, stream="stdout", data=data))
    events += pipeline.feed(RawExit(at_ms=3))
    return stamped(events, "-".join(path.parts[-3:]))


def logs(group: str) -> Iterator[tuple[str, Log]]:
    if group == "unusual":
        yield from unusual_logs.LOGS.items()
        yield "everything", list(everything())
    elif group == "live":
        for path in TWO_WAY:
            agent = path.parents[1].name
            if (agent in HELD or agent.startswith("acp")) and "same-script" not in path.name:
                yield str(path), live(path)
    elif group == "changed":
        cases = random.Random(30).sample(recorded_runs.CASES, CHANGED)
        for number, case in enumerate(cases):
            mutation = MUTATIONS[number % len(MUTATIONS)]
            yield f"{case} {mutation.__name__}", changed(case, mutation)
    else:
        for path in RECORDINGS:
            if path.parents[2].name == group:
                yield str(path), recording(path)


def on_each(test: Callable[[Log], None]) -> Callable[[str], None]:
    """Run a test on every log, one test for each group; it names the logs that fail."""
    return _on_groups(GROUPS, test)


def on_recordings(test: Callable[[Log], None]) -> Callable[[str], None]:
    """The same on those that real agents have made, in which nothing is missing."""
    return _on_groups(AGENTS, test)


def _on_groups(groups: Sequence[str], test: Callable[[Log], None]) -> Callable[[str], None]:
    @pytest.mark.parametrize("group", groups)
    def on_group(group: str) -> None:
        failures, count = [], 0
        for name, log in logs(group):
            count += 1
            try:
                test(log)
            except Exception as error:
                error.add_note(f"log: {name}")
                failures.append(error)
        if failures:
            raise ExceptionGroup(f"{len(failures)} of {count} logs", failures[:5])

    on_group.__doc__ = test.__doc__
    return on_group
