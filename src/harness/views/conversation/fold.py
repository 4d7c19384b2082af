"""From the events of a log to the graph of its conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.events import Event, SessionStart
from harness.views.conversation.data import graph_from, snapshot_of
from harness.views.conversation.graph import Graph
from harness.views.run_events.translation import WireTranslation


class GraphFold:
    """Its value is a graph that stays as it is when more is fed; a snapshot is plain data."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """What each run calls itself: for people, not a part of the graph."""
        self._graph = Graph()
        self._translation = WireTranslation()

    @property
    def value(self) -> Graph:
        return self._graph

    def feed(self, event: Event, /) -> Sequence[bytes]:
        if type(event) is SessionStart:
            self.names[event.run_id] = event.name or event.agent
        for told in self._translation.feed(event):
            self._graph = self._graph.reduce(told)
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
