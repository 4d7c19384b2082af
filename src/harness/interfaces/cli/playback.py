"""A recorded session on the screen: as it is, as it was with its timing, or as it is being written."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from harness.events import (
    Error,
    Event,
    ReasoningDelta,
    ReplInput,
    ReplOutput,
    ReplProgress,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
)
from harness.interfaces import formats
from harness.interfaces.cli.console import Console, can_erase, is_terminal, wants_color, width_of
from harness.interfaces.cli.output import STDOUT, OutputWriter
from harness.interfaces.cli.parser import completes
from harness.log.stores.files import FileStore
from harness.stage import ViewOptions, feed_all
from harness.views.formatting.escapes import neutralised

# What of a session's events is shown: how much (`--level`), without secrets, and without the names of home and user.


LEVELS = ("talk", "calls", "all")
_HOME, _USER = "/home/user", "user"
_SHORTEST_NAME = 3
"""A shorter name is part of too many words."""
_WORK = (ReasoningDelta, ReplInput, ReplOutput, ReplProgress, ToolInputDelta, ToolProgress)


def at_level(batches: Iterable[Sequence[Event]], level: str) -> Iterator[Sequence[Event]]:
    """`talk`: what was said; `calls`: also what was done, without inputs and outputs; `all`: everything."""
    for batch in batches:
        yield (
            batch
            if level == "all"
            else [kept for event in batch if (kept := _reduced(event, level)) is not None]
        )


def _reduced(event: Event, level: str) -> Event | None:
    if isinstance(event, _WORK):
        return None
    if isinstance(event, ToolStart):
        return None if level == "talk" else replace(event, input=None, raw=None)
    if isinstance(event, ToolEnd):
        has_output = event.output is not None
        output = "" if has_output else None
        return None if level == "talk" else replace(event, output=output, parts=None, result=None, raw=None)
    return event


def without_secrets(batches: Iterable[Sequence[Event]]) -> Iterator[Sequence[Event]]:
    """As a log is masked when it is recorded; what is masked already stays as it is."""
    from harness.log import codec
    from harness.log.redact.redactor import Redactor, secrets_in

    redactor = Redactor(secrets_in(os.environ))
    for batch in batches:
        for event in batch:
            line = codec.encode(event) + b"\n"
            masked = redactor.feed(line) + redactor.flush()
            yield (event if masked == line else codec.decode(masked.rstrip(b"\n")),)


def without_names(batches: Iterable[Sequence[Event]]) -> Iterator[Sequence[Event]]:
    """The path of the home and the name of the user are replaced wherever they stand."""
    from harness.log import codec

    changes = [(re.compile(re.escape(_quoted(os.path.expanduser("~")))), _HOME.encode())]
    name = _user_name()
    if len(name) >= _SHORTEST_NAME:
        changes.append(
            (re.compile(rb"(?<![A-Za-z0-9])%b(?![A-Za-z0-9])" % re.escape(_quoted(name))), _USER.encode())
        )
    for batch in batches:
        for event in batch:
            line = codec.encode(event)
            changed = line
            for pattern, other in changes:
                changed = pattern.sub(other, changed)
            yield (event if changed == line else codec.decode(changed),)


def _quoted(text: str) -> bytes:
    """As it stands in the line of an event."""
    import msgspec

    return msgspec.json.encode(text.encode("utf-8", "replace").decode())[1:-1]


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


_POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of everything that shows events."""
    completes(
        parser.add_argument(
            "-f", "--format", "--output", default="", metavar="FORMAT", help=formats.help_text()
        ),
        "formats",
    )
    parser.add_argument("-o", "--output-file", default="", metavar="FILE", help="also write it to this file")
    help_text = "in ndjson: also tokens and cost"
    parser.add_argument("--usage", action="store_true", help=help_text)
    help_text = "in pretty and activity: also the model's reasoning"
    parser.add_argument("--reasoning", action="store_true", help=help_text)
    help_text = "talk: only what was said; calls: also what was done; all (default): inputs and outputs too"
    parser.add_argument("--level", choices=LEVELS, default="all", metavar="LEVEL", help=help_text)
    help_text = "replace the path of your home and your user name, before you pass it on"
    parser.add_argument("--hide-names", action="store_true", help=help_text)


def show(
    batches: Iterable[Sequence[Event]],
    arguments: argparse.Namespace,
    console: Console,
    *,
    is_live: bool = False,
) -> None:
    """Raises ReaderGone when the reader is gone."""
    on_terminal = is_terminal(STDOUT)
    options = ViewOptions(
        usage=arguments.usage,
        reasoning=arguments.reasoning,
        human=on_terminal,
        color=wants_color(arguments.color, os.environ, is_terminal=on_terminal),
        width=width_of(STDOUT, os.environ),
        live=is_live and can_erase(STDOUT, os.environ),
    )
    name = formats.choose(arguments.format, is_terminal=on_terminal)
    view = formats.open_view(name, options)
    output = OutputWriter(console, arguments.output_file)
    batches = at_level(batches, arguments.level)
    if name in formats.TO_PASS_ON:
        batches = without_secrets(batches)
    if arguments.hide_names:
        batches = without_names(batches)
    try:
        for batch in batches:
            output.write_pieces(feed_all(view, batch))
            if name not in formats.SHOW_ERRORS_THEMSELVES:
                say_errors(batch, console)
        output.write_pieces(view.finish())
    finally:
        output.close()


def say_errors(batch: Sequence[Event], console: Console) -> None:
    """What went wrong, for the formats that have no place for it."""
    for event in batch:
        if isinstance(event, Error):
            console.say(f"error: {neutralised(event.message)}")


def stored(store: FileStore, log_id: str, cursor: int = 0) -> Iterator[Sequence[Event]]:
    """What is in the log now, from `cursor` on."""
    reader = store.reader(log_id, cursor)
    try:
        while batch := reader.read():
            yield batch
    finally:
        reader.close()


def followed(store: FileStore, log_id: str) -> Iterator[Sequence[Event]]:
    """What is in the log, then what another process writes into it, until that process is done."""
    reader = store.reader(log_id)
    try:
        while True:
            is_live = store.is_live(log_id)  # asked before reading: what came in between is then read below
            while batch := reader.read():
                yield batch
            if not is_live:
                return
            time.sleep(_POLL_S)
    finally:
        reader.close()


def timed(batches: Iterable[Sequence[Event]], speed: float) -> Iterator[Sequence[Event]]:
    """The same events, each as long after the first as it once was, divided by `speed`."""
    begun_s = time.monotonic()
    first_ms: int | None = None
    for batch in batches:
        for event in batch:
            if first_ms is None:
                first_ms = event.timestamp_ms
            due_s = begun_s + (event.timestamp_ms - first_ms) / 1000 / speed
            time.sleep(max(0.0, due_s - time.monotonic()))
            yield (event,)
