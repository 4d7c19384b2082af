"""Events ↔ lines of a log file. Whatever a newer version wrote survives being read and written again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec

from harness.events import AnyEvent, Event, Unknown, Unrecognized
from harness.events.envelope import ENVELOPE
from harness.system.plain_text import plain_text

_encoder = msgspec.json.Encoder()
_decode_any = msgspec.json.Decoder().decode
_CLASSES: dict[str, type[Event]] = {cls.__name__: cls for cls in AnyEvent.__args__}

_unread_of = attrgetter("unread")
_DEEPEST = 200
_GOES_ON = tuple(",]}")
"""What follows an object that is nested in another one: it is no event of the log, whatever it looks like."""

LINES_AT_ONCE = 128
"""How many are encoded together: a block that fits into the cache costs less than one of a megabyte."""

UNENCODABLE = (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError)
"""What encoding raises on values that JSON does not have."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What `decode` raises on a line that is no event at all."""


def encode(event: Event) -> bytes:
    """One line without its newline."""
    return encode_lines((event,))[:-1]


def encode_lines(events: Sequence[Event]) -> bytes:
    """Lines, each with its newline; never fails on what an agent made us say.

    Where an event holds what no JSON can, a list of events has afterwards, in its place, the event that its line
    says: what is shown is what is in the log.
    """
    return b"".join(encode_blocks(events))


def encode_blocks(events: Sequence[Event]) -> list[bytes]:
    """The same in blocks of whole lines, as they are best made and best written."""
    return [_block(events, start) for start in range(0, len(events), LINES_AT_ONCE)]


def _block(events: Sequence[Event], start: int) -> bytes:
    block = events[start : start + LINES_AT_ONCE]
    if not any(map(_unread_of, block)):
        try:
            return _encoder.encode_lines(block)
        except UNENCODABLE:
            pass  # one of them holds something that JSON cannot: find it below
    lines: list[bytes] = []
    for place, event in enumerate(block, start):
        line, repaired = _encode_odd(event)
        if repaired is not event and isinstance(events, list):
            events[place] = repaired
        lines.append(line + b"\n")
    return b"".join(lines)


def decode(line: bytes) -> Event:
    """One line → its event. Raises one of `UNREADABLE` when it is not a JSON object with a type."""
    try:
        return _decoder().decode(line)
    except msgspec.ValidationError:
        return _decode_newer(line)


def decode_lines(lines: bytes) -> Sequence[Event]:
    """Whole lines at once, which is faster. Raises one of `UNREADABLE` unless `decode` would read each of them as an
    event of this version.
    """
    return _decoder().decode_lines(lines)


@cache
def _decoder() -> msgspec.json.Decoder[AnyEvent]:
    """Built when a log is first read: a process that only writes does not pay for it."""
    return msgspec.json.Decoder(AnyEvent)


def to_builtins(event: Event) -> dict[str, Any]:
    """The event as plain data, as it stands in the file."""
    value: dict[str, Any] = _decode_any(encode(event))
    return value


def _encode_odd(event: Event) -> tuple[bytes, Event]:
    """The line, and the event that is read back from it."""
    if event.unread is not None:
        fits = {name for name, kind in ENVELOPE.items() if isinstance(event.unread.get(name), kind)}
        stamps = {name: getattr(event, name) for name in fits}
        return _encoder.encode({**event.unread, **stamps}), event
    try:
        return _encoder.encode(event), event
    except UNENCODABLE:
        repaired: Event = storable(event)
        return _encoder.encode(repaired), repaired


def storable(value: Any, depth: int = 0) -> Any:
    """The same value with what no JSON file can hold replaced: lone surrogates, huge numbers, endless nesting."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, msgspec.Struct):
        fields = {name: storable(getattr(value, name), depth + 1) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        fields_to_store: dict[str, Any] = {}
        for key, item in value.items():
            name = plain_text(str(key))
            fields_to_store[spelled_out(str(key)) if name in fields_to_store else name] = storable(
                item, depth + 1
            )
        return fields_to_store
    if isinstance(value, list | tuple):
        return [storable(item, depth + 1) for item in value]
    return value


def spelled_out(text: str) -> str:
    """The same for names, of which no two may become one: such halves are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _decode_newer(line: bytes) -> Event:
    fields = _decode_any(line)
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise msgspec.DecodeError("not an event: a JSON object with a type was expected")
    event_class = _CLASSES.get(fields["type"])
    if event_class is not None:
        names = {*event_class.__struct_fields__, "type"} - {"unread"}
        try:
            event = msgspec.convert({name: fields[name] for name in fields if name in names}, event_class)
            return msgspec.structs.replace(event, unread=fields)
        except msgspec.ValidationError:
            pass  # a field changed its shape: keep the event as data
    stamps = {name: fields[name] for name, kind in ENVELOPE.items() if isinstance(fields.get(name), kind)}
    return Unrecognized(unread=fields, **stamps)


def salvage(line: bytes, expected_seq: int) -> list[Event]:
    """What can be saved of a damaged line: the whole objects in it, else one `Unknown` in its place."""
    from json import JSONDecoder

    text = line.decode("utf-8", "backslashreplace").rstrip("\n")
    events: list[Event] = []
    position = 0
    while (start := text.find('{"type":"', position)) >= 0:
        try:
            value, position = JSONDecoder(strict=False).raw_decode(text, start)
            event = decode(_encoder.encode(value))
        except (ValueError, OverflowError, RecursionError):
            position = start + 1
            continue
        if event.seq >= 0 and text[position : position + 1] not in _GOES_ON:
            events.append(event)
    return events or [Unknown(raw=text, reason="damaged line of the log", seq=expected_seq)]
