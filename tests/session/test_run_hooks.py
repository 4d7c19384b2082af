"""Who watches a session from outside: a span for each run, and every event to those who subscribed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.events import SessionStart
from harness.log.codec import encode
from harness.log.stores.files import FileStore
from harness.session.adapters.pubsub import LocalPubSub
from harness.session.adapters.traces import TraceFile
from harness.session.config import RequestContext
from harness_kit import Model, call, log_of, opened, used
from running_kit import Gate, Live, ends, halting, in_loop, started


def spans(path: Path) -> list[dict[str, Any]]:
    found = [msgspec.json.decode(line) for line in path.read_bytes().split(b"\n") if line]
    return [line["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in found]


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


@in_loop
async def test_each_run_is_a_span(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    model = Model(used("One.", inputTokens=7, outputTokens=2), "Two.")
    async with opened(model, observability=TraceFile(str(path))) as (harness, _):
        assert harness.session.run.get_trace_id() is None
        await harness.send_message(content="hi")
        first = harness.session.run.get_trace_id()
        await harness.send_message(content="again")
        one, two = spans(path)
        assert one["traceId"] == first
        assert two["traceId"] == harness.session.run.get_trace_id() != first
        assert one["name"] == "invoke_agent native"
        emitted = attributes(one)
        assert emitted["gen_ai.conversation.id"] == harness.session.thread.get_id()
        assert (emitted["gen_ai.usage.input_tokens"], emitted["gen_ai.usage.output_tokens"]) == ("7", "2")
        assert emitted["harness.outcome"] == "completed"
        runs = [event.run_id for event in log_of(harness) if isinstance(event, SessionStart)]
        assert [attributes(span)["harness.run.id"] for span in (one, two)] == runs


@in_loop
async def test_a_run_that_is_stopped_is_an_error(tmp_path: Path) -> None:
    path, gate = tmp_path / "traces.jsonl", Gate()
    async with opened(Live(halting(gate)), observability=TraceFile(str(path))) as (harness, _):
        first = started(harness.send_message(content="hi"))
        await gate.come()
        harness.abort()
        await first
        [span] = spans(path)
        assert span["status"] == {"code": 2, "message": "interrupted"}


@in_loop
async def test_a_run_that_waits_is_one_span_and_one_that_is_left_waiting_says_so(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    question = call("ask_user", question="Which?")
    storage = FileStore(str(tmp_path / "data"))
    model = Model(question, "Fine.", question)
    async with opened(model, observability=TraceFile(str(path)), storage=storage) as (harness, record):
        await harness.send_message(content="one")
        assert not path.exists()
        await harness.respond_to_tool_suspension(resume_data="this")
        assert [attributes(span)["harness.outcome"] for span in spans(path)] == ["completed"]
        await harness.send_message(content="two")
        assert ends(record) == ["suspended", "complete", "suspended"]
    assert [attributes(span)["harness.outcome"] for span in spans(path)] == ["completed", "suspended"]
    storage = FileStore(str(tmp_path / "data"))
    async with opened(Model("So."), observability=TraceFile(str(path)), storage=storage) as (harness, _):
        await harness.select_or_create_thread()
        await harness.respond_to_tool_suspension(resume_data="that")
        assert [attributes(span)["harness.outcome"] for span in spans(path)][-1] == "completed"
        assert attributes(spans(path)[-1])["harness.run.id"] == attributes(spans(path)[-2])["harness.run.id"]


@in_loop
async def test_a_run_may_belong_to_the_span_of_its_caller(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    context = RequestContext(tracingContext={"traceId": "a" * 32, "spanId": "b" * 16})
    async with opened(Model("Hi."), observability=TraceFile(str(path))) as (harness, _):
        await harness.send_message(content="hi", request_context=context)
        [span] = spans(path)
        assert (span["traceId"], span["parentSpanId"]) == ("a" * 32, "b" * 16)
        assert harness.session.run.get_trace_id() == "a" * 32


@in_loop
async def test_every_event_of_the_log_is_published_under_the_thread() -> None:
    pubsub = LocalPubSub()
    received: list[bytes] = []
    async with opened(Model("Hi."), pubsub=pubsub) as (harness, _):
        await harness.create_thread(id="t1")
        stop = pubsub.subscribe("h/t1", received.append)
        begun = len(log_of(harness))
        await harness.send_message(content="hi")
        assert received == [encode(event) for event in log_of(harness)[begun:]]
        stop()
        received.clear()
        await harness.send_message(content="again")
        assert received == []


@in_loop
async def test_a_subscriber_that_breaks_hurts_no_other() -> None:
    pubsub = LocalPubSub()

    def broken(_message: bytes) -> None:
        raise RuntimeError("subscriber")

    async with opened(Model("Hi."), pubsub=pubsub) as (harness, record):
        await harness.create_thread(id="t1")
        pubsub.subscribe("h/t1", broken)
        await harness.send_message(content="hi")
        assert ends(record) == ["complete"]
