"""What spans add up to, as metrics of OpenTelemetry: tokens, cost and durations, as protobuf for collectors.

The first three have their names and limits from the conventions for generative AI, which have none for cost.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from harness.folds.standards.otlp import RESOURCE, SCOPE, double, field, fixed, number, pairs
from harness.folds.standards.spans import TraceSpan
from harness.version import __version__ as VERSION  # noqa: N812 a constant

DELTA, CUMULATIVE = 1, 2
_MOST_SERIES = 1_000
"""An agent could make up names of tools without end."""
_SECONDS = tuple(0.01 * 2**step for step in range(14))
_TOKENS = tuple(float(4**step) for step in range(14))


class _Metric(NamedTuple):
    name: str
    unit: str
    about: str
    limits: tuple[float, ...] = ()
    """Of the buckets; without them it is a sum."""


TOKENS = _Metric("gen_ai.client.token.usage", "{token}", "Tokens of a model call", _TOKENS)
DURATION = _Metric("gen_ai.client.operation.duration", "s", "Duration of runs and model calls", _SECONDS)
TOOL_DURATION = _Metric("gen_ai.execute_tool.duration", "s", "Duration of tool calls", _SECONDS)
COST = _Metric("harness.cost", "USD", "Cost of model calls, where it is known")
_ABOUT = (
    *("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"),
    *("gen_ai.agent.name", "gen_ai.tool.name", "error.type"),
)
_COUNTED = {"input": "gen_ai.usage.input_tokens", "output": "gen_ai.usage.output_tokens"}
_COST = "llm.cost.total"


class _Series(msgspec.Struct, gc=False):
    about: dict[str, Any]
    total: float = 0.0
    buckets: list[int] = []


class MetricFold:
    """Contract: `feed` takes each span once. With DELTA, what was exported begins again at zero."""

    def __init__(self, start_ms: int, temporality: int = CUMULATIVE) -> None:
        self._start_ms, self._temporality = start_ms, temporality
        self._series: dict[_Metric, dict[tuple[Any, ...], _Series]] = {}
        self.has_news = False

    def feed(self, span: TraceSpan) -> None:
        about = {name: span.attributes[name] for name in _ABOUT if name in span.attributes}
        seconds = max(0, span.end_ms - span.start_ms) / 1000
        operation = about.get("gen_ai.operation.name")
        self._add(TOOL_DURATION if operation == "execute_tool" else DURATION, about, seconds)
        if operation != "chat":
            return
        about.pop("error.type", None)
        for kind, name in _COUNTED.items():
            if (count := span.attributes.get(name)) is not None:
                self._add(TOKENS, {**about, "gen_ai.token.type": kind}, float(count))
        if (cost_usd := span.attributes.get(_COST)) is not None:
            self._add(COST, about, float(cost_usd))

    def export(self, now_ms: int, resource: Mapping[str, Any] = RESOURCE) -> bytes:
        """The body of a POST to `/v1/metrics`."""
        scope = field(1, field(1, SCOPE.encode()) + field(2, VERSION.encode()))
        metrics = b"".join(
            field(2, self._as_protobuf(metric, every, now_ms)) for metric, every in self._series.items()
        )
        self.has_news = False
        if self._temporality == DELTA:
            self._series, self._start_ms = {}, now_ms
        return field(1, field(1, pairs(1, resource)) + field(2, scope + metrics))

    def _add(self, metric: _Metric, about: dict[str, Any], value: float) -> None:
        every = self._series.setdefault(metric, {})
        key: tuple[Any, ...] = tuple(about.items())
        series = every.get(key)
        if series is None:
            if len(every) >= _MOST_SERIES:
                key, about = ("other",), {"otel.metric.overflow": True}
            series = every.setdefault(key, _Series(about, buckets=[0] * (len(metric.limits) + 1)))
        series.total += value
        series.buckets[bisect_left(metric.limits, value)] += 1
        self.has_news = True

    def _as_protobuf(self, metric: _Metric, every: Mapping[Any, _Series], now_ms: int) -> bytes:
        times = fixed(2, self._start_ms * 1_000_000) + fixed(3, now_ms * 1_000_000)
        point = _histogram_point if metric.limits else _sum_point
        points = b"".join(field(1, times + point(metric, series)) for series in every.values())
        data = points + number(2, self._temporality)
        described = (
            field(1, metric.name.encode()) + field(2, metric.about.encode()) + field(3, metric.unit.encode())
        )
        return described + (field(9, data) if metric.limits else field(7, data + number(3, 1)))


def _sum_point(metric: _Metric, series: _Series) -> bytes:
    del metric
    return pairs(7, series.about) + double(4, series.total)


def _histogram_point(metric: _Metric, series: _Series) -> bytes:
    counts = struct.pack(f"<{len(series.buckets)}Q", *series.buckets)
    limits = struct.pack(f"<{len(metric.limits)}d", *metric.limits)
    amounts = fixed(4, sum(series.buckets)) + double(5, series.total) + field(6, counts) + field(7, limits)
    return pairs(9, series.about) + amounts
