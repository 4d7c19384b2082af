"""A graph as plain data: for other programs, or to be stored and rebuilt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from harness.events import Event, SessionStart
from harness.folds.conversation.entries import Node, kind_of
from harness.folds.conversation.graph import Graph, graph_of
from harness.folds.run_events import events as wire
from harness.folds.run_events.events import RunEvent, WireEvent
from harness.folds.run_events.translation import WireTranslation
from harness.formatting.json_text import encode

_LEFT_OUT = {"id", "run_id", "parent_id"}
"""Fields of an event that a node does not repeat: it has its own id and run, and the edges have the parent."""
_NAMES_IN_NODES: dict[tuple[type[WireEvent], str], str] = {(wire.RelayEvent, "kind"): "relayKind"}


def graph_data(graph: Graph) -> dict[str, Any]:
    """`{nodes, edges, lastNodeByRunId}`; a node is its id, run, kind, and what its kind carries."""
    return {
        "nodes": {node.id: _node_data(node) for node in graph.nodes.values()},
        "edges": dict(graph.edges),
        "lastNodeByRunId": dict(graph.last_node_by_run_id),
    }


def snapshot_of(graph: Graph) -> dict[str, Any]:
    """The input of `graph_from`, as plain data."""
    snapshot: dict[str, Any] = msgspec.json.decode(
        encode({"nodes": list(graph.nodes.values()), "edges": list(graph.edges.items())})
    )
    return snapshot


def graph_from(snapshot: dict[str, Any]) -> Graph:
    nodes = msgspec.convert(snapshot["nodes"], list[tuple[str, RunEvent]])
    return graph_of([Node(node_id, event) for node_id, event in nodes], dict(snapshot["edges"]))


def _node_data(node: Node) -> dict[str, Any]:
    event = node.event
    data = {"id": node.id, "runId": event.run_id, "kind": kind_of(event)}
    for field, name, default in _carried(type(event)):
        value = getattr(event, field)
        if value != default:
            data[name] = value
    if isinstance(event, wire.HarnessStart | wire.HarnessEnd):
        data["agentId"] = event.run_id
    return data


@cache
def _carried(kind: type[WireEvent]) -> list[tuple[str, str, Any]]:
    """The fields of a kind: the field, its name in a node, and the default, which is left out."""
    return [
        (field.name, _NAMES_IN_NODES.get((kind, field.name), field.encode_name), field.default)
        for field in msgspec.structs.fields(kind)
        if field.name not in _LEFT_OUT
    ]


class GraphFold:
    """Its value is an immutable graph: later events do not change it. A snapshot is plain data."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """The name of each run, for people; not a part of the graph."""
        self._graph = Graph()
        self._translation = WireTranslation()

    @property
    def value(self) -> Graph:
        return self._graph

    def feed(self, event: Event, /) -> Sequence[bytes]:
        if type(event) is SessionStart:
            self.names[event.run_id] = event.name or event.agent
        for wire_event in self._translation.feed(event):
            self._graph = self._graph.reduce(wire_event)
        return ()

    def finish(self) -> Sequence[bytes]:
        return ()

    def snapshot(self) -> dict[str, Any]:
        return {
            "names": dict(self.names),
            "graph": snapshot_of(self._graph),
            "translation": self._translation.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any], /) -> None:
        self.names = dict(snapshot["names"])
        self._graph = graph_from(snapshot["graph"])
        self._translation.restore(snapshot["translation"])
