"""Servers that speak Chat Completions, each a little differently: all of it is read."""

from __future__ import annotations

from typing import Any

import pytest

from chat_chunks import DONE, call, calls_of, chat, chunk
from harness.contracts.model import Ask, AssistantTurn, Call, ToolTurn, UserTurn
from harness.events import Message, ReasoningDelta, StepEnd, Usage, UsageDelta
from model_asking import CHAT, ask, only, text_of
from model_far_side import FarSide, chunks, data, stream


def test_a_server_that_knows_no_streams_is_understood() -> None:
    message = {"role": "assistant", "content": "Hi.", **call('{"path":"a"}', id="c")}
    whole = {"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    with FarSide(chunks([data(whole)[6:]], kind="application/json; charset=utf-8")) as far_side:
        events = ask(CHAT.open(far_side.url))
    assert only(events, Message).text == "Hi."
    assert only(events, StepEnd).stop_reason == "tool_calls"


def test_ids_of_calls_are_unique_whatever_the_server_says() -> None:
    first = Call("same", "read", {})
    question = Ask(turns=[UserTurn("hi"), AssistantTurn("", (first,)), ToolTurn("same", "x")])
    events = chat(
        chunk(call("{}", id="same", index=0)),
        chunk(call("{}", id="same", index=1)),
        chunk(call("{}", index=2)),
        chunk({}, "tool_calls"),
        question=question,
    )
    ids = [part["id"] for part in calls_of(events)]
    assert ids[:2] == ["same-2", "same-3"]
    assert ids[2].startswith("call_")


def test_calls_without_numbers_are_distinguished() -> None:
    by_id = chat(chunk(call("{}", id="a", index=0)), chunk(call("{}", id="b", index=0)), chunk({}, "stop"))
    assert [part["id"] for part in calls_of(by_id)] == ["a", "b"]
    by_order = chat(chunk(call('{"path":"1"}')), chunk(call('{"path":"2"}')), chunk({}, "stop"))
    assert [part["input"] for part in calls_of(by_order)] == [{"path": "1"}, {"path": "2"}]
    in_pieces = chat(
        chunk(call("", id="a")),
        chunk({"tool_calls": [{"function": {"arguments": '{"path":'}}]}),
        chunk({"tool_calls": [{"function": {"arguments": '"1"}'}}]}),
        chunk({}, "tool_calls"),
    )
    assert calls_of(in_pieces) == [{"type": "tool_call", "id": "a", "name": "read", "input": {"path": "1"}}]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("", {}), ("  ", {}), ({"path": "a"}, {"path": "a"}), ('{"path":"ü"}', {"path": "ü"})],
)
def test_arguments_may_be_missing_or_an_object(arguments: Any, expected: Any) -> None:
    assert calls_of(chat(chunk(call(arguments, id="a")), chunk({}, "stop")))[0]["input"] == expected


@pytest.mark.parametrize("arguments", ["[1]", '"text"', "7", "null", '{"path":', "{'path': 'a'}", "[" * 5000])
def test_arguments_that_are_no_object_are_marked(arguments: str) -> None:
    given = calls_of(chat(chunk(call(arguments, id="a")), chunk({}, "stop")))[0]["input"]
    assert (given["__toolParseError"], given["rawArguments"]) == (True, arguments)
    assert given["parseError"]


def test_reasoning_of_every_name_is_read() -> None:
    mistral = {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "c"}]},
            {"type": "text", "text": "d"},
        ]
    }
    events = chat(chunk({"reasoning_content": "a"}), chunk({"reasoning": "b"}), chunk(mistral), chunk({}, "stop"))  # fmt: skip
    assert text_of(events, ReasoningDelta) == "abc"
    assert only(events, Message).text == "d"


def test_details_of_reasoning_come_back_as_whole_blocks() -> None:
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "He", "format": "x"},
        {"type": "reasoning.text", "index": 0, "text": "llo"},
        {"type": "reasoning.text", "index": 0, "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc"},
    ]
    deltas = [chunk({"reasoning_details": [piece]}) for piece in pieces]
    message = only(chat(*deltas, chunk({"content": "Hi."}), chunk({}, "stop")), Message)
    assert message.opaque["places"][-1]["native"]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "Hello", "format": "x", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc"},
    ]


@pytest.mark.parametrize(
    ("emitted", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 5, "cache_read_input_tokens": 4}, Usage(input=5, output=5, cache_read=4)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 9, "completion_tokens": 0}, Usage(input=0, output=0, cache_read=9)),
        (
            {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 21, "completion_tokens_details": {"reasoning_tokens": 7}},
            Usage(input=9, output=5, reasoning=7),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 5, "cost": 0.25}, Usage(input=9, output=5, cost_usd=0.25, cost_source="stated")),
    ],
)  # fmt: skip
def test_usage_of_every_form_is_read(emitted: Any, expected: Usage) -> None:
    events = chat(chunk({"content": "Hi."}), chunk({}, "stop"), {"choices": [], "usage": emitted}, DONE)
    assert only(events, UsageDelta).usage == expected


def test_an_answer_without_a_word_is_not_reported_again() -> None:
    turns = [UserTurn("hi"), AssistantTurn(""), UserTurn("well?")]
    with FarSide(stream(chunk({"content": "Yes."}), chunk({}, "stop"), DONE)) as far_side:
        ask(CHAT.open(far_side.url), Ask(turns=turns))
    assert [message["content"] for message in far_side.requests[0]["messages"]] == ["hi", "well?"]
