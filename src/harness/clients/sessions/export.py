"""What of a session's events is shown or exported: how much (`--level`), without secrets, without personal names."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from harness.events import (
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

LEVELS = ("talk", "calls", "all")
_HOME, _USER = "/home/user", "user"
_SHORTEST_NAME = 3
"""A shorter name is part of too many words."""
_WORK = (ReasoningDelta, ReplInput, ReplOutput, ReplProgress, ToolInputDelta, ToolProgress)


def at_level(batches: Iterable[Sequence[Event]], level: str) -> Iterator[Sequence[Event]]:
    """`talk`: only messages; `calls`: also tool calls, without inputs and outputs; `all`: everything."""
    for batch in batches:
        yield (
            batch
            if level == "all"
            else [reduced for event in batch if (reduced := _reduced(event, level)) is not None]
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
    """Mask secrets, as when a log is recorded."""
    from harness.log import codec
    from harness.log.redact.redactor import Redactor, secrets_in

    redactor = Redactor(secrets_in(os.environ))
    for batch in batches:
        for event in batch:
            line = codec.encode(event) + b"\n"
            masked = redactor.feed(line) + redactor.flush()
            yield (event if masked == line else codec.decode(masked.rstrip(b"\n")),)


def without_names(batches: Iterable[Sequence[Event]]) -> Iterator[Sequence[Event]]:
    """Replace the path of the home and the name of the user everywhere."""
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
    """As it is in the JSON of an event."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode())[1:-1]


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
