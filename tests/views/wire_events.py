"""Run events as they are on the wire, and the graphs that they give."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.folds.conversation.graph import Graph
from harness.folds.run_events.events import AnyWireEvent


def wire_event(type: str, runId: str = "r1", **fields: Any) -> AnyWireEvent:  # noqa: N803 # as on the wire
    return msgspec.convert({"type": type, "runId": runId, **fields}, AnyWireEvent)


def graph_after(*events: AnyWireEvent) -> Graph:
    graph = Graph()
    for event in events:
        graph = graph.reduce(event)
    return graph


def text(id: str, content: str, runId: str = "r1", **fields: Any) -> AnyWireEvent:  # noqa: N803
    return wire_event("text", runId, id=id, content=content, **fields)


def call(id: str, runId: str = "r1", name: str = "search", **fields: Any) -> AnyWireEvent:  # noqa: N803
    return wire_event("tool_call", runId, **{"id": id, "name": name, "input": {}, **fields})


def result(id: str, output: Any, runId: str = "r1", name: str = "search") -> AnyWireEvent:  # noqa: N803
    return wire_event("tool_result", runId, id=id, name=name, output=output)


def start(runId: str = "r1", **fields: Any) -> AnyWireEvent:  # noqa: N803
    return wire_event("harness_start", runId, **fields)


def end(runId: str = "r1", **fields: Any) -> AnyWireEvent:  # noqa: N803
    return wire_event("harness_end", runId, **fields)


def user(content: Any, runId: str = "u1", **fields: Any) -> AnyWireEvent:  # noqa: N803
    return wire_event("user", runId, content=content, **fields)
