"""Masks secrets in the events of one run before they go into the log. The model itself keeps what was said.

The pieces of a streamed text are masked as one text, also where a secret spans two of them; a piece that may
end with the beginning of a secret waits for the next one, or for a call of `release`. Everything else is
searched as it would be written. Where nothing is found, the very same events are passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import json
from msgspec.structs import replace

from harness.events import (
    Event,
    ReasoningDelta,
    ReplProgress,
    TextDelta,
    ToolInputDelta,
    ToolProgress,
)
from harness.log.codec import decode, encode_lines
from harness.log.redact.redactor import Redactor

_PIECES: dict[type[Event], Callable[[Any], str]] = {
    TextDelta: attrgetter("id"),
    ReasoningDelta: attrgetter("id"),
    ToolInputDelta: attrgetter("call_id"),
    ToolProgress: lambda event: f"{event.call_id} {event.stream}",
    ReplProgress: attrgetter("id"),
}
"""The events that are pieces, and which of them belong together."""

_Key: TypeAlias = tuple[type[Event], str]

_MOST_STREAMS = 64
_encode = json.Encoder().encode
_decode = json.Decoder().decode


class EventRedactor:
    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._whole = Redactor(secrets)
        self._streams: dict[_Key, _Stream] = {}
        self._waiting: _Stream | None = None

    @property
    def holds_back(self) -> bool:
        """Whether something waits for its other half, and must be released soon."""
        return self._waiting is not None

    def mask(self, events: Sequence[Event]) -> list[Event]:
        """What may be shown now, in order."""
        groups = _groups(events)
        # One look at everything that is whole costs as much as one look at any of it.
        wholes = iter(self._mask_whole([event for key, group in groups if key is None for event in group]))
        masked_events: list[Event] = []
        for key, group in groups:
            if key is None:
                masked_events += self.release()
                masked_events += islice(wholes, len(group))
            else:
                masked_events += self._mask_pieces(key, group)
        return masked_events

    def release(self) -> Sequence[Event]:
        """What was held back; a piece that shows too much of a secret goes out masked."""
        if self._waiting is None:
            return ()
        stream, self._waiting = self._waiting, None
        return self._with_names(stream, stream.flush())

    def _mask_whole(self, events: list[Event]) -> Sequence[Event]:
        if not events:
            return events
        block = encode_lines(events)
        masked = self._whole.feed(block)
        if masked is block:
            return events
        return [decode(line) for line in masked.split(b"\n")[:-1]]

    def _mask_pieces(self, key: _Key, events: list[Event]) -> list[Event]:
        stream = self._streams.get(key)
        if stream is None:
            if len(self._streams) >= _MOST_STREAMS:
                del self._streams[next(iter(self._streams))]
            stream = self._streams[key] = _Stream(self._secrets, hides_names=self._hides_names(events[0]))
        masked_events = [] if self._waiting is stream else list(self.release())
        masked_events += self._with_names(stream, stream.feed(events))
        self._waiting = stream if stream.is_held else None
        return masked_events

    def _hides_names(self, event: Event) -> bool:
        """Whether the id of a call, or whatever else stands beside the text of a piece, has a secret in it."""
        bare = [replace(event, text="")]
        return self._mask_whole(bare) is not bare

    def _with_names(self, stream: _Stream, events: Sequence[Event]) -> Sequence[Event]:
        return self._mask_whole(list(events)) if stream.hides_names else events


class _Stream:
    """The pieces of one text. What comes together is one line for the redactor, and one piece if it was held."""

    def __init__(self, secrets: Mapping[str, str], *, hides_names: bool) -> None:
        self.hides_names = hides_names
        self._redactor = Redactor(secrets, ("text",))
        self._held_events: list[Event] = []
        """Of each line that waits, the first piece."""

    @property
    def is_held(self) -> bool:
        return bool(self._held_events)

    def feed(self, events: list[Event]) -> Sequence[Event]:
        line = _line("".join([event.text for event in events]))  # type: ignore[attr-defined]
        masked = self._redactor.feed(line)
        if masked is line and not self._held_events:
            return events
        self._held_events.append(events[0])
        return self._settled(masked)

    def flush(self) -> Sequence[Event]:
        return self._settled(self._redactor.flush())

    def _settled(self, masked: bytes) -> Sequence[Event]:
        lines = masked.split(b"\n")[:-1]
        settled, self._held_events = self._held_events[: len(lines)], self._held_events[len(lines) :]
        return [
            replace(event, text=_decode(line)["text"]) for event, line in zip(settled, lines, strict=True)
        ]


def _line(text: str) -> bytes:
    try:
        return _encode({"text": text}) + b"\n"
    except UnicodeEncodeError:  # lone surrogates, which only the log's own codec can write
        return encode_lines([TextDelta(text=text)])


def _groups(events: Sequence[Event]) -> list[tuple[_Key | None, list[Event]]]:
    """Neighbours that belong together: pieces of one text, or whole events."""
    kinds = set(map(type, events))
    if _PIECES.keys().isdisjoint(kinds):
        return [(None, list(events))]
    if len(kinds) == 1:  # as nearly always while a model speaks
        kind = kinds.pop()
        identities = set(map(_PIECES[kind], events))
        if len(identities) == 1:
            return [((kind, identities.pop()), list(events))]
    return _mixed_groups(events)


def _mixed_groups(events: Sequence[Event]) -> list[tuple[_Key | None, list[Event]]]:
    groups: list[tuple[_Key | None, list[Event]]] = []
    last: _Key | bool | None = False
    for event in events:
        kind = type(event)
        identity = _PIECES.get(kind)
        key = None if identity is None else (kind, identity(event))
        if key == last:
            groups[-1][1].append(event)
        else:
            groups.append((key, [event]))
            last = key
    return groups
