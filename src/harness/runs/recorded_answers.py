"""How the questions of a recorded run were answered, for its replay: nothing is allowed there that was not allowed then.

the question of the replay        is answered as
about a call of the same id       that call, where all calls come from the recording: its ids do, too
the same, word for word           that question
another one                       nobody: it is refused, or a person is asked
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.events import Event, Relay, RelayReply
from harness.log import codec
from harness.log.raw import RawEntry, RawEvent

_UNREADABLE = (msgspec.MsgspecError, ValueError)


class RecordedAnswers:
    """Contract: `answer` gives each recorded answer once, as it was given then: a program is told the reason of a person,
    and not that of a rule. None for a question that the recording does not have. Used from any thread.
    """

    def __init__(
        self, entries: Iterable[RawEntry], places: Mapping[str, str], *, has_live_calls: bool = False
    ) -> None:
        """`places`: recorded folder → present one. `has_live_calls`: a model may make calls, too, with any id."""
        self._lock = threading.Lock()
        self._matches = (_is_same,) if has_live_calls else (_has_id, _is_same)
        self._pairs = list(_answered(entries, places))

    def answer(self, relay: Relay) -> RelayReply | None:
        with self._lock:
            for matches in self._matches:
                for number, (question, reply) in enumerate(self._pairs):
                    if question.kind == relay.kind and matches(question, relay):
                        del self._pairs[number]
                        return replace(reply, id=relay.id)
        return None


def _answered(entries: Iterable[RawEntry], places: Mapping[str, str]) -> Iterable[tuple[Relay, RelayReply]]:
    waiting: dict[str, Relay] = {}
    for entry in entries:
        event = _event_of(entry) if isinstance(entry, RawEvent) else None
        if isinstance(event, Relay):
            calls = [replace(call, input=_moved(call.input, places)) for call in event.calls or ()]
            waiting[event.id] = replace(event, input=_moved(event.input, places), calls=calls or None)
        elif isinstance(event, RelayReply) and (relay := waiting.pop(event.id, None)) is not None:
            yield relay, event


def _has_id(question: Relay, relay: Relay) -> bool:
    return bool(question.call_id) and (question.call_id, question.tool_name) == (
        relay.call_id,
        relay.tool_name,
    )


def _is_same(question: Relay, relay: Relay) -> bool:
    words = (question.tool_name, question.input, question.question, question.options)
    is_alike = words == (relay.tool_name, relay.input, relay.question, relay.options)
    return is_alike and _further(question) == _further(relay)


def _further(relay: Relay) -> list[tuple[str, Any]]:
    """The other calls that the answer is for: an answer for one call is none for two."""
    return [(call.tool, call.input) for call in (relay.calls or [])[1:]]


def _moved(value: Any, places: Mapping[str, str]) -> Any:
    match value:
        case str():
            for before, now in places.items():
                value = value.replace(before, now)
            return value
        case dict():
            return {name: _moved(inner, places) for name, inner in value.items()}
        case list():
            return [_moved(inner, places) for inner in value]
    return value


def _event_of(entry: RawEvent) -> Event | None:
    """None: it is of another version, and answers nothing."""
    try:
        return codec.decode(bytes(entry.event))
    except _UNREADABLE:
        return None
