"""Spans are sent while a run happens, retried, and dropped with one warning: the run does not notice."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.clients.span_export import SpanExport, collector_of
from harness.errors import UsageError
from harness.events import Message, Result, SessionStart, ToolEnd, ToolStart

RUN = [
    SessionStart(run_id="t", agent="x", seq=0, timestamp_ms=1),
    Message(run_id="t", role="user", text="a secret", seq=1, timestamp_ms=2),
    ToolStart(run_id="t", call_id="c", tool_name="bash", seq=2, timestamp_ms=3),
    ToolEnd(run_id="t", call_id="c", tool_name="bash", success=True, seq=3, timestamp_ms=4),
    Result(run_id="t", success=True, seq=4, timestamp_ms=5),
]


class FakeCollector:
    """A collector on loopback that answers as it is told."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.pause_s = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append((self.path, dict(self.headers), body))
                time.sleep(outer.pause_s)
                self.send_response(outer.answers.pop(0) if outer.answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_about: Any) -> None:
                """Nothing is printed."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def spans(self) -> list[Any]:
        found = []
        for _path, _headers, body in self.requests:
            message = ExportTraceServiceRequest.FromString(gzip.decompress(body))
            found += [
                one
                for resource in message.resource_spans
                for scope in resource.scope_spans
                for one in scope.spans
            ]
        return found


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    found = FakeCollector()
    yield found
    found.server.shutdown()
    found.server.server_close()


def export(collector: FakeCollector, environ: dict[str, str] | None = None, **options: Any) -> list[str]:
    warnings: list[str] = []
    sent = SpanExport(collector_of(collector.url, environ or {}), warnings.append, **options)
    sent.feed(RUN)
    sent.close()
    return warnings


def test_all_spans_of_a_run_are_sent(collector: FakeCollector) -> None:
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=abc,other=a%20b"}
    parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    assert export(collector, headers, parent=parent) == []
    assert {span.name for span in collector.spans()} == {"invoke_agent x", "execute_tool bash"}
    assert {span.trace_id.hex() for span in collector.spans()} == {"ab" * 16}
    path, sent, body = collector.requests[0]
    assert (path, sent["Content-Type"], sent["X-Api-Key"]) == ("/v1/traces", "application/x-protobuf", "abc")
    assert b"secret" not in gzip.decompress(body)


def test_a_busy_collector_is_asked_again(collector: FakeCollector) -> None:
    collector.answers = [503, 429]
    warnings: list[str] = []
    sent = SpanExport(collector_of(collector.url, {}), warnings.append)
    sent.feed(RUN)
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


@pytest.mark.parametrize("url", ["", "collector", "file:///etc/passwd", "http://", "http://a b", "http://[x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        collector_of(url, {})


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
