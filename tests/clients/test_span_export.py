"""Spans are sent while a run happens, retried, and dropped with one warning: the run does not notice."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fake_collector import FakeCollector
from harness import Harness, MemoryStore, Mode, Request, Run, Scripted, export_spans, start
from harness.clients.span_export import LogExport, SpanSender, collector_of
from harness.errors import UsageError
from harness.events import Event, Message, Result, SessionStart, ToolEnd, ToolStart, Usage, UsageDelta
from harness.folds.standards.spans import SpanFold, TraceSpan
from harness.log.hub import Hub
from harness.log.store import Metadata
from harness.stage import run_through

RUN: list[Event] = [
    SessionStart(run_id="t", agent="x", model="gpt-5", seq=0, timestamp_ms=1),
    Message(run_id="t", role="user", text="a secret", seq=1, timestamp_ms=2),
    ToolStart(run_id="t", call_id="c", tool_name="bash", seq=2, timestamp_ms=3),
    ToolEnd(run_id="t", call_id="c", tool_name="bash", success=True, seq=3, timestamp_ms=4),
    UsageDelta(run_id="t", usage=Usage(input=7, output=2, cost_usd=0.5), seq=4, timestamp_ms=5),
    Result(run_id="t", success=True, seq=5, timestamp_ms=6),
]


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    found = FakeCollector()
    yield found
    found.server.shutdown()
    found.server.server_close()


def export(collector: FakeCollector, environ: dict[str, str] | None = None, **options: Any) -> list[str]:
    warnings: list[str] = []
    sent = LogExport(collector_of(collector.url, environ or {}), warnings.append, **options)
    recorded(RUN)
    sent.close()
    return warnings


def recorded(events: list[Event], store: MemoryStore | None = None) -> MemoryStore:
    """Write a log as a run does; where there is one, it is continued."""
    store = store or MemoryStore()
    is_new = not list(store.list())
    writer = store.create(Metadata(session_id="log")) if is_new else store.open("log")
    hub = Hub(store, "log", writer)
    for event in events:
        hub.append([event], {"": "t", "t": "t"})
    hub.close()
    return store


def test_all_spans_of_a_run_are_sent(collector: FakeCollector) -> None:
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=abc,other=a%20b"}
    parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    assert export(collector, headers, parent=parent) == []
    assert {span.name for span in collector.spans()} == {
        "invoke_agent x",
        "execute_tool bash",
        "chat gpt-5",
    }
    assert {span.trace_id.hex() for span in collector.spans()} == {"ab" * 16}
    path, sent, body = collector.requests[0]
    assert (path, sent["Content-Type"], sent["X-Api-Key"]) == ("/v1/traces", "application/x-protobuf", "abc")
    assert b"secret" not in gzip.decompress(body)


def test_a_busy_collector_is_asked_again(collector: FakeCollector) -> None:
    collector.answers = [503, 429]
    warnings: list[str] = []
    sent = SpanSender(collector_of(collector.url, {}), warnings.append)
    sent.put(run_through(SpanFold(), RUN))
    until_s = time.monotonic() + 20
    while len(collector.requests) < 3 and time.monotonic() < until_s:
        time.sleep(0.02)
    sent.close()
    assert (len(collector.requests), warnings) == (3, [])


def test_a_refusal_is_final_and_warned_of_once(collector: FakeCollector) -> None:
    collector.answers = [400] * 9
    (warning,) = export(collector)
    assert "answers 400" in warning
    assert len(collector.requests) == 1


def test_a_collector_that_is_not_there_or_stalls_holds_nothing_up(collector: FakeCollector) -> None:
    collector.pause_s = 8.0
    before_s = time.monotonic()
    (warning,) = export(collector)
    assert "in time" in warning
    assert time.monotonic() - before_s < 6
    collector.url = "http://127.0.0.1:9"
    (warning,) = export(collector)
    assert "cannot be reached" in warning


GARBAGE = (b"what?\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"\x16\x03\x01\x00")


@pytest.mark.parametrize("answer", GARBAGE)
def test_a_collector_that_answers_with_garbage_is_warned_of_once(
    answer: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """The thread that sends ended with a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(65_536)
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        warnings: list[str] = []
        sent = SpanSender(collector_of(f"http://127.0.0.1:{server.getsockname()[1]}", {}), warnings.append)
        sent.put(run_through(SpanFold(), RUN))
        sent.close()
        server.shutdown(socket.SHUT_RDWR)
    assert len(warnings) == 1, warnings
    assert capfd.readouterr() == ("", "")


def test_large_spans_are_sent_a_few_at_a_time_and_not_kept_without_end(collector: FakeCollector) -> None:
    result = "x" * 1_000_000
    large = [
        TraceSpan("ab" * 16, f"{number:016x}", "", "execute_tool x", 1, 1, 2, {"output.value": result})
        for number in range(100)
    ]
    warnings: list[str] = []
    sent = SpanSender(collector_of(collector.url, {}), warnings.append)
    sent.put(large)
    sent.close()
    assert warnings == [f"spans were not sent to {collector.url}/v1/traces: the collector is too slow"]
    assert 60 < len(collector.spans()) < 70
    assert max(len(gzip.decompress(body)) for _path, _headers, body in collector.requests) < 4_000_000


@pytest.mark.parametrize("url", ["", "collector", "file:///etc/passwd", "http://", "http://a b", "http://[x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        collector_of(url, {})


def test_the_variables_of_opentelemetry_name_a_collector_where_that_is_asked_for() -> None:
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://general:4318/"}
    assert collector_of("env", named).url == "http://general:4318/v1/traces"
    named["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "http://traces:4318/v1/traces"
    assert collector_of("env", named).url == "http://traces:4318/v1/traces"
    assert collector_of("http://given:4318", named).url == "http://given:4318/v1/traces"
    with pytest.raises(UsageError, match="does not name a collector"):
        collector_of("env", {})
    with pytest.raises(UsageError, match="asks for grpc"):
        collector_of("env", named | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})


def test_nothing_is_sent_where_that_is_disabled(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with export_spans(collector.url):
        recorded(RUN)
    assert (collector.requests, collector.metric_requests) == ([], [])


def test_a_run_sends_its_spans(collector: FakeCollector, tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('turns = [ [ { text = "Hello." } ] ]')
    folders = {name: str(tmp_path) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    command = [sys.executable, "-m", "harness", "run", "--agent", "native", "--model", f"scripted/{script}"]
    done = subprocess.run(
        [*command, "--otlp", collector.url, "--prompt", "hi", "--format", "text"],
        env={**os.environ, **folders},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "Hello."), done.stderr
    assert "invoke_agent native" in {span.name for span in collector.spans()}


def test_tokens_cost_and_durations_are_metrics(collector: FakeCollector) -> None:
    assert export(collector, {"OTEL_RESOURCE_ATTRIBUTES": "team=blue", "OTEL_SERVICE_NAME": "mine"}) == []
    points = collector.points()
    assert points.keys() == {
        *("gen_ai.client.token.usage", "gen_ai.client.operation.duration"),
        *("gen_ai.execute_tool.duration", "harness.cost"),
    }
    about = [
        {one.key: one.value.string_value for one in point.attributes}
        for point in points["gen_ai.client.token.usage"]
    ]
    assert [(one["gen_ai.token.type"], one["gen_ai.provider.name"]) for one in about] == [
        ("input", "openai"),
        ("output", "openai"),
    ]
    assert [(one.sum, one.count, sum(one.bucket_counts)) for one in points["gen_ai.client.token.usage"]] == [
        (7.0, 1, 1),
        (2.0, 1, 1),
    ]
    assert all(
        len(one.bucket_counts) == len(one.explicit_bounds) + 1
        for one in points["gen_ai.execute_tool.duration"]
    )
    assert [one.as_double for one in points["harness.cost"]] == [0.5]
    (path, headers, body) = collector.metric_requests[0]
    assert (path, headers["Content-Type"]) == ("/v1/metrics", "application/x-protobuf")
    message = ExportMetricsServiceRequest.FromString(gzip.decompress(body))
    told = {one.key: one.value.string_value for one in message.resource_metrics[0].resource.attributes}
    assert (told["service.name"], told["team"]) == ("mine", "blue")
    assert len(told["service.instance.id"]) == 36


def test_a_collector_without_metrics_is_sent_none_and_nobody_is_warned(collector: FakeCollector) -> None:
    collector.metric_answers = [404]
    assert export(collector) == []
    assert len(collector.metric_requests) == 1
    assert export(collector, {"OTEL_METRICS_EXPORTER": "none"}) == []
    assert len(collector.metric_requests) == 1
    collector.metric_answers = [400]
    (warning,) = export(collector)
    assert "answers 400" in warning


def test_a_run_that_is_continued_in_another_process_is_one_span_in_its_trace(
    collector: FakeCollector,
) -> None:
    first = LogExport(collector_of(collector.url, {}), print)
    store = recorded(RUN[:4])
    first.close()
    assert [span.name for span in collector.spans()] == ["execute_tool bash"]
    second = LogExport(collector_of(collector.url, {}), print)
    recorded(RUN[4:], store)
    second.close()
    assert sorted(span.name for span in collector.spans()) == [
        "chat gpt-5",
        "execute_tool bash",
        "invoke_agent x",
    ]
    assert len({span.trace_id for span in collector.spans()}) == 1


PROGRAM = """#!/bin/sh
[ "$1" != --version ] || exec echo '2.1.325 (Claude Code)'
cat > /dev/null
printf '%s\\n' "$TRACEPARENT" >> '{told}'
echo '{{"type":"system","subtype":"init","session_id":"s","model":"claude-mock","cwd":"/mock","tools":[]}}'
echo '{{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}}'
"""


def finished_run(folder: Path) -> Run:
    program = folder / "claude"
    program.write_text(PROGRAM.format(told=folder / "told"))
    program.chmod(0o755)
    request = Request(
        agent="claude", prompt="hi", binary=str(program), cwd=str(folder), permissions="full-access"
    )
    run = start(request, store=MemoryStore())
    assert run.wait().success
    return run


def test_a_program_is_told_the_span_of_its_run(
    collector: FakeCollector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACEPARENT", raising=False)
    finished_run(tmp_path)
    with export_spans(collector.url):
        finished_run(tmp_path)
    monkeypatch.setenv("TRACEPARENT", f"00-{'ab' * 16}-{'cd' * 8}-01")
    with export_spans(collector.url):
        finished_run(tmp_path)
    without, alone, below = (tmp_path / "told").read_text().split("\n")[:3]
    assert without == ""
    runs = [span for span in collector.spans() if span.name.startswith("invoke_agent")]
    assert [one[:-3] for one in (alone, below)] == [
        f"00-{span.trace_id.hex()}-{span.span_id.hex()}" for span in runs
    ]
    assert (runs[1].trace_id.hex(), runs[1].parent_span_id.hex()) == ("ab" * 16, "cd" * 8)


def test_a_harness_of_the_class_sends_what_it_does(collector: FakeCollector) -> None:
    model = Scripted(["Hello."])
    with (
        export_spans(collector.url, content=True),
        Harness(
            id="h", modes=[Mode(id="m", default_model_id="m")], resolve_model=lambda _: model, environ={}
        ).sync() as app,
    ):
        assert app.send_message(content="hi").text == "Hello."
    names = [span.name for span in collector.spans()]
    assert [name.split()[0] for name in names] == ["chat", "invoke_agent"]
