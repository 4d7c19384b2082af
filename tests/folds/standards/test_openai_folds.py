"""OpenAI: chunks and responses of every log, by the types of the official package; and what becomes of a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from harness.events import (
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
)
from harness.folds.standards.openai import ChatFold, ResponseFold, session_of
from standard_logs import on_each, on_recordings

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ENDS = ("response.completed", "response.failed", "response.incomplete")
START = SessionStart(run_id="r1", agent="claude", timestamp_ms=1_000)
ASKED = Relay(run_id="r1", id="ask", call_id="c1", tool_name="Bash", input={"command": "ls"})


def chunks(log: Sequence[Event]) -> list[dict[str, Any]]:
    fold = ChatFold("claude")
    return [*(out for event in log for out in fold.feed(event)), *fold.finish()]


def responses(log: Sequence[Event]) -> list[list[dict[str, Any]]]:
    """Those of a log, each from its start to its end."""
    fold = ResponseFold("claude")
    found: list[list[dict[str, Any]]] = []
    for wire in [*(out for event in log for out in fold.feed(event)), *fold.finish()]:
        if wire["type"] == "response.created":
            found.append([])
        found[-1].append(wire)
    return found


def numbered(*events: Event) -> list[Event]:
    return [type(one)(**{**_fields(one), "seq": number}) for number, one in enumerate(events)]


def _fields(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def check_response(events: Sequence[dict[str, Any]]) -> None:
    """The order that the API promises."""
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    assert [one["type"] for one in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] in ENDS
    items: list[dict[str, Any]] = []
    done: set[int] = set()
    for event in events[2:-1]:
        assert event["type"] not in ENDS
        index = event["output_index"]
        if event["type"] == "response.output_item.added":
            assert index == len(items)
            items.append(event["item"])
        assert index not in done
        assert event.get("item_id", items[index]["id"]) == items[index]["id"]
        if event["type"] == "response.output_item.done":
            done.add(index)
            items[index] = event["item"]
    whole = events[-1]["response"]["output"]
    assert len({item["id"] for item in whole}) == len(whole)
    assert [item["id"] for item in whole] == [item["id"] for item in items]
    for index, item in enumerate(whole):
        assert index in done or item["status"] == "incomplete", item


@on_each
def test_chunks_and_events_of_a_log_are_what_the_package_expects(log: Sequence[Event]) -> None:
    for chunk in chunks(log):
        assert "error" in chunk or ChatCompletionChunk.model_validate(chunk)
    for events in responses(log):
        check_response(events)
        for event in events:
            EVENT.validate_python(event)
            assert "response" not in event or Response.model_validate(event["response"])


@on_recordings
def test_a_stream_has_what_the_whole_answer_has(log: Sequence[Event]) -> None:
    fold, texts = ChatFold("claude"), [""]
    withdrawn = any(isinstance(one, TextRetracted) for one in log)
    for event in log:
        for chunk in fold.feed(event):
            if "error" in chunk:
                continue
            delta = chunk["choices"][0]["delta"]
            texts[-1] += delta.get("content", "")
            if chunk["choices"][0]["finish_reason"]:
                whole = ChatCompletion.model_validate(fold.whole).choices[0].message.content or ""
                assert texts[-1].endswith(whole) if withdrawn else texts[-1] == whole
                texts.append("")
    for events in responses(log):
        streamed = "".join(one["delta"] for one in events if one["type"] == "response.output_text.delta")
        whole = Response.model_validate(events[-1]["response"]).output_text
        assert streamed.endswith(whole) if withdrawn else streamed == whole


@pytest.mark.parametrize("field", ["id", "created", "model", "object", "choices"])
def test_a_chunk_that_lacks_a_field_is_refused(field: str) -> None:
    chunk = chunks([START])[0]
    del chunk[field]
    with pytest.raises(ValidationError):
        ChatCompletionChunk.model_validate(chunk)


@pytest.mark.parametrize("field", ["sequence_number", "item_id", "output_index", "content_index", "delta"])
def test_an_event_that_lacks_a_field_is_refused(field: str) -> None:
    (events,) = responses([START, TextDelta(run_id="r1", id="m", text="hi")])
    event = next(one for one in events if one["type"] == "response.output_text.delta")
    del event[field]
    with pytest.raises(ValidationError):
        EVENT.validate_python(event)


def test_a_question_completes_the_response_and_the_answer_begins_the_next() -> None:
    log = numbered(
        START,
        ToolStart(run_id="r1", call_id="c1", tool_name="Bash", input={"command": "ls"}),
        ASKED,
        UsageDelta(run_id="r1", usage=Usage(input=5, output=2)),
        RelayReply(run_id="r1", id="ask", approved=True),
        ToolEnd(run_id="r1", call_id="c1", tool_name="Bash", success=True, output="a.txt"),
        Message(run_id="r1", id="m", role="assistant", text="One file."),
        Result(run_id="r1", success=True, outcome="completed", text="One file."),
    )
    first, second = responses(log)
    asked = first[-1]["response"]
    assert asked["status"] == "completed"
    assert [(one["type"], one.get("status")) for one in asked["output"]] == [
        ("mcp_call", "incomplete"),
        ("mcp_approval_request", None),
    ]
    assert asked["output"][1]["id"] == "mcpr_ask"
    done = second[-1]["response"]
    assert [(one["type"], one["status"]) for one in done["output"]] == [
        ("mcp_call", "completed"),
        ("message", "completed"),
    ]
    assert done["usage"]["input_tokens"] == 5
    assert (session_of(asked["id"]), session_of(done["id"])) == ("r1", "r1")
    assert asked["id"] != done["id"]


def test_a_chat_says_what_was_denied() -> None:
    denied = RelayReply(run_id="r1", id="ask", approved=False, reason="Nobody can be asked here.")
    log = numbered(START, ASKED, denied, Result(run_id="r1", success=True, outcome="completed", text="No."))
    fold = ChatFold("claude")
    for event in log:
        fold.feed(event)
    assert fold.text == "[Not allowed: to use Bash. Nobody can be asked here.]\n\nNo."


def test_text_that_was_withdrawn_is_not_in_the_whole_answer() -> None:
    log = numbered(
        START,
        TextDelta(run_id="r1", id="a", text="Wrong."),
        TextRetracted(run_id="r1", id="a"),
        TextDelta(run_id="r1", id="b", text="Right."),
        Result(run_id="r1", success=True, outcome="completed", text="Right."),
    )
    fold = ChatFold("claude")
    for event in log:
        fold.feed(event)
    assert fold.text == "Right."


@pytest.mark.parametrize("outcome", ["failed", "interrupted", "limit_exceeded"])
def test_a_run_that_does_not_succeed_is_an_error(outcome: str) -> None:
    log = numbered(START, Result(run_id="r1", success=False, outcome=outcome, text="It broke."))
    assert chunks(log)[-1]["error"] | {"message": "It broke.", "code": outcome} == chunks(log)[-1]["error"]
    (events,) = responses(log)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["message"] == "It broke."


def test_a_log_without_an_end_is_an_error() -> None:
    assert chunks([START])[-1]["error"]["code"] == "unfinished"
    assert responses([START])[0][-1]["type"] == "response.failed"


@pytest.mark.parametrize("text", ["", "resp_", "resp_x", "resp_a.b", "other_a.1"])
def test_what_is_no_id_of_a_response_names_no_session(text: str) -> None:
    assert session_of(text) == ""
