"""A collector of OpenTelemetry on loopback: it keeps what it is sent, and answers as it is told."""

from __future__ import annotations

import gzip
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class FakeCollector:
    """A collector on loopback that answers as it is told."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        """Of spans; those of metrics are apart."""
        self.metric_answers: list[int] = []
        self.metric_requests: list[tuple[str, dict[str, str], bytes]] = []
        self.pause_s = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_metrics = self.path.endswith("/v1/metrics")
                requests = outer.metric_requests if is_metrics else outer.requests
                answers = outer.metric_answers if is_metrics else outer.answers
                requests.append((self.path, dict(self.headers), body))
                time.sleep(outer.pause_s)
                self.send_response(answers.pop(0) if answers else 200)
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

    def points(self) -> dict[str, list[Any]]:
        """Of the last export of metrics, by their names."""
        message = ExportMetricsServiceRequest.FromString(gzip.decompress(self.metric_requests[-1][2]))
        found: dict[str, list[Any]] = {}
        for metric in message.resource_metrics[0].scope_metrics[0].metrics:
            data = metric.histogram if metric.HasField("histogram") else metric.sum
            found[metric.name] = list(data.data_points)
        return found
