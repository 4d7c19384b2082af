"""One streamed answer: each piece becomes an event at once, and the whole becomes a `Message` at the end.

    STREAMING ─ add_text, add_reasoning, begin_call, add_arguments ─▶ STREAMING (deltas)
        ├── end ────────▶ ENDED  (Message, UsageDelta, StepEnd)
        ├── fail ───────▶ FAILED (Error, StepEnd)
        └── retraction ─▶ the stream broke and is asked for again: what was shown is withdrawn (TextRetracted),
                          and another `ModelAnswer` begins

Parts that must be sent back to the provider (signatures, encrypted reasoning) are stored in the order in
which they arrived. Texts and calls between them are stored as references, so that nothing is logged twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from harness.contracts.model import AssistantTurn, Call
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    StepEnd,
    TextDelta,
    TextRetracted,
    ToolInputDelta,
    Usage,
    UsageDelta,
    Warning,
)
from harness.log.ids import new_run_id


class StreamedCall:
    """A tool call whose arguments are still being streamed."""

    __slots__ = ("extras", "id", "name", "pieces")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.pieces: list[str] = []
        self.extras: dict[str, Any] | None = None
        """Provider data that must be sent back together with the call."""


class AnswerPart(msgspec.Struct, omit_defaults=True):
    """One part of an answer, in order: a span of the text, a call, or a provider-specific part."""

    text: int | None = None
    """The length of a text span, in characters."""
    call: str | None = None
    native: Any = None
    extras: dict[str, Any] | None = None


class Opaque(msgspec.Struct):
    model: str
    """The model that wrote these parts; they are not sent to any other model."""
    places: list[AnswerPart]


class ModelAnswer:
    """Contract: `events` holds the events not yet shown; the caller that shows them removes them."""

    def __init__(self, model: str, taken_ids: Callable[[], set[str]] = set) -> None:
        """`taken_ids`: returns the call ids already in the conversation; called only for a new call."""
        now_ms = time.time_ns() // 1_000_000
        self.events: list[Event] = []
        self.has_content = False
        self.response_id = ""
        self.usage = Usage()
        self.unreadable = 0
        """How many pieces of the stream could not be parsed."""
        self._model = model
        self._text_id = new_run_id(now_ms)
        self._reasoning_id = new_run_id(now_ms)
        self._find_taken_ids = taken_ids
        self._taken_ids: set[str] | None = None
        self._texts: list[str] = []
        self._has_thought = False
        self._span_start = 0
        """Where the current span begins within the texts."""
        self._calls: list[StreamedCall] = []
        self._places: list[AnswerPart | StreamedCall] = []

    def add_text(self, text: str) -> None:
        if text:
            self.has_content = True
            self._texts.append(text)
            self.events.append(TextDelta(id=self._text_id, text=text))

    def add_reasoning(self, text: str) -> None:
        if text:
            self.has_content = self._has_thought = True
            self.events.append(ReasoningDelta(id=self._reasoning_id, text=text))

    def end_text(self, extras: dict[str, Any] | None = None) -> None:
        """End the current text span; text that follows begins another."""
        length = sum(map(len, self._texts[self._span_start :]))
        self._span_start = len(self._texts)
        if length or extras:
            self._places.append(AnswerPart(text=length, extras=extras))

    def add_opaque(self, native: Any) -> None:
        """Store a part that must be sent back unchanged."""
        self.end_text()
        self._places.append(AnswerPart(native=native))

    def begin_call(self, id: str | None, name: str) -> StreamedCall:
        """Begin a call. Its id is made unique in the conversation, whatever id the provider sends."""
        self.has_content = True
        self.end_text()
        if self._taken_ids is None:
            self._taken_ids = self._find_taken_ids()
        call = StreamedCall(_unique(id or f"call_{os.urandom(8).hex()}", self._taken_ids), name)
        self._taken_ids.add(call.id)
        self._calls.append(call)
        self._places.append(call)
        return call

    def add_arguments(self, call: StreamedCall, piece: str) -> None:
        """Add a piece of a call's arguments, as JSON text."""
        if piece:
            call.pieces.append(piece)
            self.events.append(ToolInputDelta(call_id=call.id, tool_name=call.name, text=piece))

    def skip_unreadable(self) -> None:
        """Count a piece of the stream that does not follow the API."""
        self.unreadable += 1

    def end(self, stop_reason: str) -> None:
        """The answer is complete: add its last events."""
        self.end_text()
        if self.unreadable:
            self.events.append(_skipped(self.unreadable))
        calls = [
            {"type": "tool_call", "id": call.id, "name": call.name, "input": parse_arguments(call.pieces)}
            for call in self._calls
        ]
        if calls and stop_reason == "end":
            stop_reason = "tool_calls"  # some servers report "stop" for every end
        self.events.append(
            Message(
                role="assistant",
                text="".join(self._texts),
                id=self._text_id,
                parts=calls or None,
                opaque=self._opaque(),
            )
        )
        if self.usage:
            self.events.append(UsageDelta(usage=self.usage, model=self._model, id=self.response_id))
        self.events.append(StepEnd(id="", stop_reason=stop_reason))

    def retraction(self) -> list[Event]:
        """The events that withdraw what was already shown of this answer."""
        streams = ((self._text_id, self._texts), (self._reasoning_id, self._has_thought))
        return [TextRetracted(id=id) for id, was_shown in streams if was_shown]

    def fail(self, message: str, code: str) -> None:
        """The answer failed: add its last events."""
        if self.unreadable:
            self.events.append(_skipped(self.unreadable))
        self.events += [Error(message=message, code=code), StepEnd(id="", stop_reason="error")]

    def _opaque(self) -> Any:
        places = [
            AnswerPart(call=place.id, extras=place.extras) if isinstance(place, StreamedCall) else place
            for place in self._places
        ]
        if not any(place.native is not None or place.extras for place in places):
            return None
        return msgspec.to_builtins(Opaque(self._model, places))


def _skipped(count: int) -> Warning:
    what = "1 piece of the answer was" if count == 1 else f"{count} pieces of the answer were"
    return Warning(message=f"{what} not readable, and left out", code="unreadable_stream")


def _unique(id: str, ids: set[str]) -> str:
    if id not in ids:
        return id
    number = 2
    while f"{id}-{number}" in ids:
        number += 1
    return f"{id}-{number}"


def parse_arguments(pieces: list[str]) -> Any:
    """Parse a call's arguments. What is not a JSON object is marked as malformed; no input at all is `{}`."""
    text = "".join(pieces)
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return malformed(text, str(error))
    if not isinstance(value, dict):
        return malformed(text, f"expected an object, got {_JSON_NAMES.get(type(value), 'something else')}")
    return value


_JSON_NAMES = {str: "a string", list: "an array", int: "a number", float: "a number", bool: "a boolean"}


def malformed(raw: str, error: str) -> dict[str, Any]:
    return {"__toolParseError": True, "parseError": error, "rawArguments": raw}


class TurnText(NamedTuple):
    text: str
    extras: dict[str, Any]


class TurnCall(NamedTuple):
    call: Call
    extras: dict[str, Any]


class TurnNative(NamedTuple):
    value: Any


def in_order(turn: AssistantTurn, model: str) -> Iterator[TurnText | TurnCall | TurnNative]:
    """An answer's parts in their original order for the model that wrote it; for others text, then calls."""
    places = _places(turn, model)
    calls = {call.id: call for call in turn.calls}
    lengths = [place.text for place in places if place.text is not None]
    fits = sum(lengths) == len(turn.text)  # a text that was masked later has a different length
    start = 0
    if not lengths and turn.text:
        yield TurnText(turn.text, {})
    for place in places:
        extras = place.extras or {}
        if place.text is not None:
            end = start + place.text if fits else len(turn.text)
            if start < end or extras:
                yield TurnText(turn.text[start:end], extras)
            start = end
        elif place.call is not None:
            if (call := calls.pop(place.call, None)) is not None:
                yield TurnCall(call, extras)
        elif place.native is not None:
            yield TurnNative(place.native)
    yield from (TurnCall(call, {}) for call in calls.values())


def _places(turn: AssistantTurn, model: str) -> list[AnswerPart]:
    if turn.opaque is None:
        return []
    try:
        opaque = msgspec.convert(turn.opaque, Opaque)
    except msgspec.ValidationError:
        return []  # not written by this program
    return opaque.places if opaque.model == model else []


def count_in(values: Any, name: str) -> int | None:
    """A token count in a usage record. APIs send it as an int, as a float, or not at all (None)."""
    value = values.get(name) if isinstance(values, dict) else None
    return int(value) if isinstance(value, int | float) else None
