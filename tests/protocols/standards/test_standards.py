"""Streams in the standards of others are read: what our own views have written of every recording, and those of others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import msgspec
import pytest

from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolInputDelta,
    ToolStart,
    Unknown,
    UsageDelta,
)
from harness.folds.standards.openai import ResponseFold
from harness.formats.fields import arguments_of
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline
from showing import shown_bytes
from standard_logs import on_recordings


def read(name: str, *records: bytes) -> list[Event]:
    pipeline = Pipeline(import_module(f"harness.protocols.standards.{name}").TRANSLATOR())
    events = [*pipeline.feed(RawStart(at_ms=1, agent=name))]
    for record in records:
        events += pipeline.feed(RawOutput(at_ms=2, stream="stdout", data=record + b"\n"))
    events += pipeline.feed(RawExit(at_ms=3))
    assert not pipeline.lost
    return events


def lines(*records: dict[str, Any]) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def calls(events: Sequence[Event]) -> Counter[tuple[str, str, str]]:
    """Name, arguments and output of each call that has ended."""
    starts = {(one.run_id, one.call_id): one for one in events if isinstance(one, ToolStart)}
    found: Counter[tuple[str, str, str]] = Counter()
    for end in events:
        if isinstance(end, ToolEnd):
            start = starts.get((end.run_id, end.call_id))
            given = start.input if start is not None and start.input not in (None, "") else {}
            if isinstance(given, dict) and given.keys() == {"value"}:
                given = given["value"]  # so ATIF has what is no object
            given = arguments_of(given)  # a text that holds data is the same as the data
            found[end.tool_name or "unknown", json.dumps(given, sort_keys=True), end.output or ""] += 1
    return found


def lost_answers(events: Sequence[Event], log: Sequence[Event]) -> list[str]:
    """What was said in a log, and is not in the events that came back."""
    words = "".join(one.text for one in events if isinstance(one, Message | TextDelta))
    said = (one.text for one in log if isinstance(one, Message) and one.role == "assistant")
    return [text for text in said if text.strip() not in words]


@on_recordings
def test_ag_ui_gives_the_calls_and_answers_back(log: list[Event]) -> None:
    stream = shown_bytes("agui", log).splitlines()
    events = read("agui", *(b"data: " + line + b"\n" for line in stream))
    if any(isinstance(one, ToolInputDelta) for one in log):  # what was streamed may never have become a call
        ends = [
            [(one.tool_name, one.output or "") for one in each if isinstance(one, ToolEnd)]
            for each in (log, events)
        ]
        assert Counter(ends[0]) <= Counter(ends[1])
    else:
        assert calls(events) == calls(log)
    assert not lost_answers(events, log)
    ends = [[one.success for one in each if isinstance(one, Result)][-1:] for each in (events, log)]
    assert ends[0] == ends[1]
    told = sum(one.usage.input or 0 for one in events if isinstance(one, UsageDelta))
    assert told == sum(one.usage.input or 0 for one in log if isinstance(one, UsageDelta) and not one.counted)


@on_recordings
def test_atif_gives_the_calls_and_answers_back(log: list[Event]) -> None:
    document = msgspec.json.encode(msgspec.json.decode(shown_bytes("atif", log)))
    events = read("atif", document)
    assert calls(events) == calls(log)
    assert not lost_answers(events, log)
    assert not [one for one in events if isinstance(one, Unknown)]
    starts = [sum(isinstance(one, SessionStart) for one in each) for each in (events, log)]
    assert starts[0] == starts[1]


@on_recordings
def test_acp_gives_the_calls_and_answers_back(log: list[Event]) -> None:
    events = read("acp", *shown_bytes("acp", log).splitlines())
    assert sum(calls(events).values()) == sum(calls(log).values())
    own = [
        one for one in log if one.run_id.startswith("top@")
    ]  # words of sub-agents are in the rows of their calls
    assert not lost_answers(events, own)
    assert not [one for one in events if isinstance(one, Unknown)]


@on_recordings
def test_responses_give_the_calls_back(log: list[Event]) -> None:
    fold = ResponseFold("m")
    stream = [wire for event in log for wire in fold.feed(event)]
    events = read("responses", *(b"data: " + line for line in lines(*stream)))
    assert not [one for one in events if isinstance(one, Unknown)]


def kinds(events: Sequence[Event]) -> list[str]:
    return [one.type for one in events]


def test_ag_ui_of_others_has_chunks_questions_and_errors() -> None:
    events = read(
        "agui",
        *lines(
            {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
            {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": "Hel"},
            {"type": "TEXT_MESSAGE_CHUNK", "delta": "lo."},
            {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "ls", "delta": '{"path"'},
            {"type": "TOOL_CALL_CHUNK", "delta": ': "."}'},
            {"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "c", "content": "a.py"},
            {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}},
            {
                "type": "RUN_FINISHED",
                "threadId": "t",
                "runId": "r",
                "outcome": {"type": "interrupt", "interrupts": [{"id": "q", "message": "Go on?"}]},
            },
            {"type": "RUN_STARTED", "threadId": "t", "runId": "r2"},
            {"type": "RUN_ERROR", "message": "It broke.", "code": "E1"},
        ),
    )
    (call,) = [one for one in events if isinstance(one, ToolStart)]
    assert (call.tool_name, call.input) == ("ls", {"path": "."})
    assert [one.text for one in events if isinstance(one, Message)] == ["Hello."]
    assert [one.question for one in events if isinstance(one, Relay)] == ["Go on?"]
    assert [one.message for one in events if isinstance(one, Error)] == ["It broke."]
    assert [one.raw["type"] for one in events if isinstance(one, Unknown)] == ["STATE_SNAPSHOT"]
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == "failed"


def test_a_whole_response_has_its_calls_reasons_and_usage() -> None:
    response = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "gpt-5",
        "output": [
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "I think."}]},
            {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "x"}},
            {"type": "function_call", "id": "f", "call_id": "c", "name": "ls", "arguments": '{"a": 1}'},
            {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Done."}]},
        ],
        "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2},
    }
    events = read("responses", *lines(response))
    assert [one.text for one in events if isinstance(one, ReasoningDelta)] == ["I think."]
    assert [(one.tool_name, one.input) for one in events if isinstance(one, ToolStart)] == [
        ("web_search", {"action": {"query": "x"}}),
        ("ls", {"a": 1}),
    ]
    (usage,) = [one.usage for one in events if isinstance(one, UsageDelta)]
    assert (usage.input, usage.cache_read, usage.output) == (5, 4, 2)
    assert isinstance(events[-1], Result)
    assert (events[-1].success, events[-1].text) == (True, "Done.")


def test_a_connection_of_acp_is_read_with_both_of_its_sides() -> None:
    def update(**fields: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": fields}}

    def text(kind: str, words: str) -> dict[str, Any]:
        return update(sessionUpdate=kind, content={"type": "text", "text": words})

    both = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentInfo": {"version": "3"}}},
        {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/w", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/prompt",
            "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]},
        },
        text("agent_message_chunk", "Hello."),
        {
            "jsonrpc": "2.0",
            "id": 2,  # of the agent: that of the prompt is another one
            "method": "session/request_permission",
            "params": {
                "sessionId": "s",
                "toolCall": {"toolCallId": "c", "title": "ls", "kind": "execute"},
                "options": [{"optionId": "y", "name": "Allow", "kind": "allow_once"}],
            },
        },
        {"jsonrpc": "2.0", "id": 2, "result": {"outcome": {"outcome": "selected", "optionId": "y"}}},
        update(sessionUpdate="tool_call", toolCallId="c", title="ls", kind="execute", status="completed"),
        {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "refusal"}},
    ]
    events = read("acp", *lines(*both))
    assert [(one.role, one.text) for one in events if isinstance(one, Message)] == [
        ("user", "hi"),
        ("assistant", "Hello."),
    ]
    assert [(one.question, one.call_id) for one in events if isinstance(one, Relay)] == [("ls", "c")]
    assert [one.approved for one in events if isinstance(one, RelayReply)] == [True]
    assert {"ToolStart", "ToolEnd"} <= set(kinds(events))
    assert isinstance(events[-1], Result)
    assert not events[-1].success
    alone = read("acp", *lines(*(one for one in both if one.get("method") in (None, "session/update"))))
    assert [one.text for one in alone if isinstance(one, Message)] == ["Hello."]
    assert isinstance(alone[-1], Result)
    assert not alone[-1].success


@pytest.mark.parametrize("name", ["acp", "agui", "atif", "responses"])
@pytest.mark.parametrize(
    "record",
    [
        b"{}",
        b"[]",
        b"nonsense",
        b'{"type":7}',
        b'{"type":"TOOL_CALL_END"}',
        b'{"schema_version":"ATIF-v1.8"}',
    ],
)
def test_what_is_none_of_it_is_kept_as_unknown(name: str, record: bytes) -> None:
    events = read(name, record)
    assert any(isinstance(one, Unknown) and one.raw for one in events) or record == b"{}"
    assert isinstance(events[-1], Result)
    assert not events[-1].success or name == "acp"  # whose updates alone have no end
