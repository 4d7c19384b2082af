"""Shows a recorded session: at once, with its original timing, or while it is being written."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from harness.cli.console import Console, can_erase, is_terminal, wants_color, width_of
from harness.cli.output import STDOUT, OutputWriter
from harness.cli.parser import completes
from harness.clients import formats
from harness.clients.sessions.export import LEVELS, at_level, without_names, without_secrets
from harness.errors import HarnessError
from harness.events import Error, Event
from harness.formatting.escapes import neutralised
from harness.log.stores.files import FileStore
from harness.stage import ModelInput, ViewOptions, feed_all

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
    parser.add_argument(
        "--content", action="store_true", help="in otel and pretty: also texts, arguments and results"
    )
    help_text = "talk: only messages; calls: also tool calls; all (default): also their inputs and outputs"
    parser.add_argument("--level", choices=LEVELS, default="all", metavar="LEVEL", help=help_text)
    help_text = "replace the path of your home and your user name, before you pass it on"
    parser.add_argument("--hide-names", action="store_true", help=help_text)


def show(
    batches: Iterable[Sequence[Event]],
    arguments: argparse.Namespace,
    console: Console,
    *,
    is_live: bool = False,
    model_input: Callable[[], ModelInput] | None = None,
) -> None:
    """`model_input`: as in `ViewOptions`; what leaves things out leaves it out.

    Raises ReaderGone when the reader has closed the output, HarnessError when the file could not be written.
    """
    on_terminal = is_terminal(STDOUT)
    options = ViewOptions(
        usage=arguments.usage,
        reasoning=arguments.reasoning,
        content=arguments.content,
        human=on_terminal,
        color=wants_color(arguments.color, os.environ, is_terminal=on_terminal),
        width=width_of(STDOUT, os.environ),
        live=is_live and can_erase(STDOUT, os.environ),
        model_input=None if arguments.hide_names or arguments.level != "all" else model_input,
    )
    name = formats.choose(arguments.format, is_terminal=on_terminal)
    view = formats.open_view(name, options)
    output = OutputWriter(console, arguments.output_file, is_json=name in formats.JSON)
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
    if not output.has_whole_file:
        raise HarnessError(
            f"{arguments.output_file} is not complete",
            hint="standard output has all of it, or try another place",
        )


def say_errors(batch: Sequence[Event], console: Console) -> None:
    """What went wrong, for the formats that have no place for it."""
    for event in batch:
        if isinstance(event, Error):
            console.say(f"error: {neutralised(event.message)}")


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
    """The same events with their original timing, divided by `speed`."""
    started_s = time.monotonic()
    first_ms: int | None = None
    for batch in batches:
        for event in batch:
            if first_ms is None:
                first_ms = event.timestamp_ms
            due_s = started_s + (event.timestamp_ms - first_ms) / 1000 / speed
            time.sleep(max(0.0, due_s - time.monotonic()))
            yield (event,)
