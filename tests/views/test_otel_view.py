"""OpenTelemetry: every log gives whole traces, and our protobuf is what the official messages are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.events import (
    Event,
    Message,
    ModelCall,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
)
from harness.events.operation import Command, Skill
from harness.folds.standards.otlp import spans_as_json, spans_as_protobuf
from harness.folds.standards.spans import SpanFold, TraceSpan
from harness.formatting.json_text import encode
from harness.stage import run_through
from showing import shown
from standard_logs import everything, on_each, on_recordings

BYTES = {"traceId", "spanId", "parentSpanId"}


def spans(log: Sequence[Event], **options: Any) -> list[TraceSpan]:
    return run_through(SpanFold(**options), log)


def official(document: dict[str, Any]) -> ExportTraceServiceRequest:
    """OTLP writes ids as hexadecimal, where JSON of protobuf has base64."""
    import base64

    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in BYTES & span.keys():
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return Parse(json.dumps(document), ExportTraceServiceRequest())


@on_each
def test_json_and_protobuf_are_the_same_message(log: list[Event]) -> None:
    found = spans(log, content=True)
    document = json.loads(encode(spans_as_json(found)))
    if all(span.error.isascii() for span in found):  # a lone surrogate is written differently
        assert ExportTraceServiceRequest.FromString(spans_as_protobuf(found)) == official(document)


@on_each
def test_every_trace_has_one_root_no_orphans_and_no_id_twice(log: list[Event]) -> None:
    found = spans(log)
    ids = {span.id for span in found}
    assert len(ids) == len(found)
    roots = [span.trace for span in found if not span.parent]
    assert len(roots) == len(set(roots)) == len({span.trace for span in found})
    assert all(span.parent in ids for span in found if span.parent)
    assert all(0 <= span.start_ms <= span.end_ms or span.end_ms < 0 for span in found)


@on_recordings
def test_calls_and_tokens_are_all_there(log: list[Event]) -> None:
    found = spans(log)
    calls = [span for span in found if span.name.startswith("execute_tool")]
    assert len(calls) == sum(isinstance(event, ToolEnd) for event in log)
    used = [event.usage for event in log if isinstance(event, UsageDelta) and event.counted is None]
    prompts = sum((one.input or 0) + (one.cache_read or 0) + (one.cache_write or 0) for one in used)
    for kind in ("chat", "invoke_agent"):
        key = "gen_ai.usage.input_tokens"
        assert sum(one.attributes.get(key, 0) for one in found if one.name.startswith(kind)) == prompts
    assert all(span.attributes["gen_ai.provider.name"] for span in found if not span.name.startswith("exec"))


def test_the_view_writes_each_span_once_when_it_has_ended() -> None:
    lines = [json.loads(line) for line in shown("otel", *everything()).split("\n") if line]
    written = [span for line in lines for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert [span["spanId"] for span in written] == [span.id for span in spans(everything())]


RUN: list[Event] = [
    SessionStart(run_id="t", agent="claude", model="claude-opus-5", session_id="s", timestamp_ms=1_000),
    Message(run_id="t", role="user", text="a secret plan", timestamp_ms=1_000),
    TextDelta(run_id="t", id="m", text="I", timestamp_ms=1_500),
    ToolStart(
        run_id="t",
        call_id="c",
        tool_name="Bash",
        input={"command": "ls /x"},
        operations=[Command(command="/bin/ls /x")],
        timestamp_ms=2_000,
    ),
    UsageDelta(run_id="t", usage=Usage(input=5, cache_read=7, output=3, reasoning=1), timestamp_ms=2_100),
    SessionStart(run_id="k", parent_id="c", name="helper", timestamp_ms=2_200),
    ToolStart(
        run_id="k",
        call_id="c",
        tool_name="Skill",
        operations=[Skill(path="/s/skills/pdf/SKILL.md", name="pdf")],
        timestamp_ms=2_300,
    ),
    ToolEnd(run_id="k", call_id="c", tool_name="Skill", success=True, output="x", timestamp_ms=2_400),
    Result(run_id="k", success=True, timestamp_ms=2_500),
    ToolEnd(run_id="t", call_id="c", tool_name="Bash", success=False, exit_code=2, timestamp_ms=3_000),
    Result(run_id="t", success=False, outcome="failed", text="a secret end", timestamp_ms=4_000),
]


def test_a_run_is_a_trace_with_its_sub_agent_below_the_call() -> None:
    by_name = {span.name: span for span in spans(RUN)}
    top, chat, call = (
        by_name[name] for name in ("invoke_agent claude", "chat claude-opus-5", "execute_tool Bash")
    )
    kid, skill = by_name["invoke_agent helper"], by_name["execute_tool Skill"]
    assert [one.parent for one in (top, chat, call, kid, skill)] == ["", top.id, top.id, call.id, kid.id]
    assert (top.error, top.attributes["error.type"]) == ("failed", "failed")
    assert chat.attributes["gen_ai.usage.input_tokens"] == 12
    assert chat.attributes["gen_ai.usage.output_tokens"] == 4
    assert chat.attributes["gen_ai.response.time_to_first_chunk"] == 0.5
    assert call.attributes["process.executable.name"] == "ls"
    assert (call.attributes["process.exit.code"], call.attributes["error.type"]) == (2, "tool_error")
    assert skill.attributes["gen_ai.skill.name"] == "pdf"


def test_content_is_there_only_when_asked_for() -> None:
    assert "secret" not in shown("otel", *RUN)
    assert "/x" not in shown("otel", *RUN)
    assert shown("otel", *RUN, content=True).count("secret") >= 2


@pytest.mark.parametrize("line", ["ls | rm", "A=1 ls", "ls $(x)", "a; b", "ls > f", "'unclosed", ""])
def test_a_program_is_named_only_if_the_line_starts_exactly_that(line: str) -> None:
    call = ToolStart(run_id="t", call_id="c", tool_name="Bash", operations=[Command(command=line)])
    found = spans([RUN[0], call, ToolEnd(run_id="t", call_id="c", tool_name="Bash")])
    assert not any("process.executable.name" in span.attributes for span in found)


def test_calls_that_a_gateway_has_seen_are_the_model_calls() -> None:
    """They were guessed from what the agent said, and the one that failed was not there."""
    log: list[Event] = [
        SessionStart(run_id="t", agent="claude", model="claude-opus-5", timestamp_ms=1_000),
        TextDelta(run_id="t", id="m", text="I", timestamp_ms=1_500),
        _model_call("call-1", 1_800, took_ms=900, first_ms=100, stop_reason="tool_use"),
        UsageDelta(run_id="t", id="call-1", usage=Usage(input=5, output=2), timestamp_ms=1_800),
        Message(run_id="t", role="assistant", text="I look", timestamp_ms=1_850),
        ToolStart(run_id="t", call_id="c", tool_name="Task", timestamp_ms=1_900),
        SessionStart(run_id="k", parent_id="c", name="helper", timestamp_ms=1_910),
        TextDelta(run_id="k", id="n", text="A helper", timestamp_ms=1_950),
        _model_call("call-2", 2_000, took_ms=50, status=529),
        _model_call("call-3", 2_600, took_ms=500),
        UsageDelta(run_id="t", id="call-3", usage=Usage(input=7, output=3), timestamp_ms=2_600),
        Message(run_id="k", role="assistant", text="A helper", timestamp_ms=2_610),
        Result(run_id="k", success=True, timestamp_ms=2_650),
        ToolEnd(run_id="t", call_id="c", tool_name="Task", timestamp_ms=2_700),
        TextDelta(run_id="t", id="o", text="Done", timestamp_ms=2_750),
        Result(run_id="t", success=True, timestamp_ms=3_000),
    ]
    found = spans(log)
    chats = [span for span in found if span.name.startswith("chat")]
    assert [(one.start_ms, one.end_ms, one.error) for one in chats] == [
        (900, 1_800, ""),
        (1_950, 2_000, "the model call failed"),
        (2_100, 2_600, ""),
    ]
    assert [one.attributes.get("gen_ai.usage.input_tokens") for one in chats] == [5, None, 7]
    assert chats[0].attributes["gen_ai.response.time_to_first_chunk"] == 0.1
    assert chats[0].attributes["gen_ai.response.finish_reasons"] == ["tool_use"]
    assert chats[1].attributes["error.type"] == "529"
    top = next(span for span in found if span.name == "invoke_agent claude")
    assert (top.start_ms, top.attributes["gen_ai.usage.input_tokens"]) == (900, 12)
    document = json.loads(encode(spans_as_json(found)))
    assert ExportTraceServiceRequest.FromString(spans_as_protobuf(found)) == official(document)


def _model_call(id: str, at_ms: int, *, status: int = 200, **more: Any) -> ModelCall:
    return ModelCall(
        run_id="t", id=id, timestamp_ms=at_ms, status=status, model="opus-x", asked_model="opus", **more
    )


def test_a_trace_that_has_begun_elsewhere_is_continued() -> None:
    found = spans(RUN, trace="ab" * 16, parent="cd" * 8)
    assert {span.trace for span in found} == {"ab" * 16}
    assert [span.name for span in found if span.parent == "cd" * 8] == ["invoke_agent claude"]


def test_a_message_with_one_wrong_byte_is_refused_or_another_one() -> None:
    data = bytearray(spans_as_protobuf(spans(RUN)))
    data[1] ^= 1
    with pytest.raises(Exception, match="parsing"):
        ExportTraceServiceRequest.FromString(bytes(data))
