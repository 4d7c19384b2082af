"""The parts that all model APIs share: streams of events, turns encoded once, answers in order, schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts.model import AssistantTurn, Call, SystemTurn, Turn, UserTurn
from harness.models.answer import ModelAnswer, TurnCall, TurnNative, TurnText, in_order
from harness.models.failure import ModelFailure, Retries
from harness.models.http import SseDecoder
from harness.models.turn_cache import EncodedOnce, closed, is_strict, split_system

EVENTS = (
    b": hello\r\n\r\nevent: a\ndata: one\n\ndata: two\r\ndata: lines\r\n\r\nid: 7\n\ndata:three\n\ndata: end"
)


@given(st.lists(st.integers(1, 9), max_size=40))
def test_a_stream_gives_the_same_events_however_it_is_cut(sizes: list[int]) -> None:
    stream = SseDecoder()
    found: list[bytes] = []
    rest = EVENTS
    for size in sizes:
        found += stream.feed(rest[:size])
        rest = rest[size:]
    found += stream.feed(rest)
    found += stream.finish()
    assert [data.replace(b"\r", b"").strip() for data in found] == [b"one", b"two\n lines", b"three", b"end"]


def test_a_turn_is_encoded_once_and_forgotten_when_its_conversation_is_over() -> None:
    counted: list[Turn] = []
    once: EncodedOnce[Turn, str] = EncodedOnce(lambda turn: (counted.append(turn), str(len(counted)))[1])
    old: list[Turn] = [UserTurn(str(number)) for number in range(1000)]
    assert once.all(old) == once.all(old)
    assert len(counted) == 1000
    new: list[Turn] = [UserTurn("new")]
    for _ in range(3):
        once.all(new)
    assert len(counted) == 1001
    assert len(once._young) + len(once._old) < 1010
    new.append(UserTurn("more"))
    assert once.all(new) == ["1001", "1002"]


def test_turns_that_are_equal_but_not_the_same_are_encoded_apart() -> None:
    once: EncodedOnce[Turn, int] = EncodedOnce(id)
    turns: list[Turn] = [UserTurn("a"), UserTurn("a")]
    assert len(set(once.all(turns))) == 2


def opaque_answer() -> AssistantTurn:
    answer = ModelAnswer("p/m")
    answer.add_opaque({"type": "thinking", "signature": "s"})
    answer.add_text("Let me ")
    answer.add_text("look. ")
    first = answer.begin_call("a", "read")
    first.extras = {"signature": "t"}
    answer.add_text("And there.")
    answer.end_text({"phase": "final"})
    answer.begin_call("b", "read")
    answer.end("end")
    message: Any = answer.events[-2]
    calls = tuple(Call(part["id"], part["name"], part["input"]) for part in message.parts)
    return AssistantTurn(message.text, calls, message.opaque)


def test_an_answer_goes_back_in_the_order_in_which_it_came() -> None:
    turn = opaque_answer()
    assert list(in_order(turn, "p/m")) == [
        TurnNative({"type": "thinking", "signature": "s"}),
        TurnText("Let me look. ", {}),
        TurnCall(Call("a", "read", {}), {"signature": "t"}),
        TurnText("And there.", {"phase": "final"}),
        TurnCall(Call("b", "read", {}), {}),
    ]


def test_for_others_it_is_the_text_and_the_calls() -> None:
    turn = opaque_answer()
    assert [type(part) for part in in_order(turn, "p/other")] == [TurnText, TurnCall, TurnCall]
    for nonsense in ("text", {"model": "p/m"}, {"model": "p/m", "places": [{"text": "x"}]}, [1]):
        turn = AssistantTurn("Hi.", (), nonsense)
        assert list(in_order(turn, "p/m")) == [TurnText("Hi.", {})]


def test_a_text_that_was_masked_since_is_still_reported_whole() -> None:
    turn = opaque_answer()
    masked = AssistantTurn("Let me ***", turn.calls, turn.opaque)
    assert (
        "".join(part.text for part in in_order(masked, "p/m") if isinstance(part, TurnText)) == "Let me ***"
    )


def test_only_what_comes_first_is_the_system_prompt() -> None:
    turns = [SystemTurn("a"), SystemTurn("b"), UserTurn("c"), SystemTurn("d")]
    assert split_system(turns) == ("a\n\nb", turns[2:])
    assert split_system([]) == ("", [])


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "string"}, True),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": {}}}, False),
        (
            {"type": "object", "properties": {"properties": {"type": "string"}}, "required": ["properties"]},
            True,
        ),
        ({"type": "array", "items": {"properties": {"a": {}}, "required": []}}, False),
        ({"$defs": {"x": {"properties": {"a": {}}, "required": ["a"]}}, "$ref": "#/$defs/x"}, True),
        ({"properties": {"a": {"enum": [{"properties": {"b": 1}}]}}, "required": ["a"]}, True),
    ],
)
def test_a_schema_is_closed_and_known_to_be_strict_or_not(schema: Any, strict: bool) -> None:
    shut = closed(schema)
    assert is_strict(shut) is strict
    if "properties" in schema:
        assert shut["additionalProperties"] is False
        assert set(shut["properties"]) == set(schema["properties"])


def test_waits_grow_and_end() -> None:
    retries = Retries(limit=3, first_wait_s=1, longest_backoff_s=3)
    busy = ModelFailure(message="busy", code="x", is_passing=True)
    waits = [retries.wait_s(busy, tried) for tried in (1, 2, 3, 4)]
    assert waits[3] is None
    for wait_s, most_s in zip(waits[:3], (1, 2, 3), strict=True):
        assert wait_s is not None
        assert 0.75 * most_s <= wait_s <= most_s
    assert retries.wait_s(ModelFailure(message="no", code="x"), 1) is None
