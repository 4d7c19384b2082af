"""Spans of OpenTelemetry, by its conventions for generative AI: OTLP as JSON, one export a line.

    {"resourceSpans":[{"resource":{…},"scopeSpans":[{"scope":{"name":"harness"},"spans":[{"name":"chat claude-…",…}]}]}]}

Rules
1. A top run is a trace: `invoke_agent`, with a `chat` for each call of its model, an `execute_tool` for each tool, and
   sub-agents below the call that started them. A span is written when it has ended.
2. What a command, a skill or a file of a skill is, the conventions have attributes for; `process.executable.name` is
   there only where a line starts exactly one program.
3. Texts, arguments and results are left out, unless `--content` asks for them.
4. Ids are made from the log: exporting twice gives the same spans, and a collector has each of them once.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Event
from harness.folds.standards.otlp import spans_as_json
from harness.folds.standards.spans import SpanFold, TraceSpan
from harness.formatting.json_text import encode
from harness.stage import View, ViewOptions


class Otel:
    def __init__(self, options: ViewOptions) -> None:
        self._fold = SpanFold(content=options.content)

    def feed(self, event: Event, /) -> Sequence[bytes]:
        return _lines(self._fold.feed(event))

    def finish(self) -> Sequence[bytes]:
        return _lines(self._fold.finish())


def _lines(spans: Sequence[TraceSpan]) -> Sequence[bytes]:
    return (encode(spans_as_json(spans)) + b"\n",) if spans else ()


def open(options: ViewOptions) -> View:
    return Otel(options)
