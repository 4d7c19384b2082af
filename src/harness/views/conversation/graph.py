"""The conversation as a graph that never changes: adding an event gives another graph.

Nodes are what was said and done; an edge leads from each node of a run to the next one of that run, and
from what spawned a run to the run's first node.

All graphs of one line share one record, which is only ever appended to. So an event costs the same
however long the conversation is, and old graphs stay as they were. Adding to a graph that has already
been added to copies it once, and begins a new line. Any thread may read a graph; one at a time may add
to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TypeVar

from harness.views.conversation.entries import Node
from harness.views.conversation.record import Record
from harness.views.run_events.events import AnyWireEvent, WireEvent

Value = TypeVar("Value")
_born = attrgetter("born")


class Graph:
    """Reading is through three mappings; `reduce` makes the next one."""

    __slots__ = ("_record", "_version")

    def __init__(self, record: Record | None = None, version: int = 0) -> None:
        self._record = Record() if record is None else record
        self._version = version

    @property
    def nodes(self) -> Mapping[str, Node]:
        """In the order in which they came."""
        return _Nodes(self._record, self._version)

    @property
    def edges(self) -> Mapping[str, tuple[str, ...]]:
        """From each node that something follows to what follows it."""
        return _Edges(self._record, self._version)

    @property
    def last_node_by_run_id(self) -> Mapping[str, str]:
        return _LastNodes(self._record, self._version)

    def reduce(self, event: AnyWireEvent | WireEvent) -> Graph:
        """The graph with one event more; this one stays as it is."""
        record = self._record
        if record.version != self._version:
            record = _record_of(self.nodes.values(), self.edges)
        return Graph(record, record.version) if record.add(event) else self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        mine, theirs = (
            (list(graph.nodes.values()), dict(graph.edges), dict(graph.last_node_by_run_id))
            for graph in (self, other)
        )
        return mine == theirs

    __hash__ = None  # type: ignore[assignment] # compared by what it holds, which may not be hashable


def graph_of(nodes: Iterable[Node], edges: Mapping[str, Iterable[str]]) -> Graph:
    """A graph with these nodes and edges: what a snapshot of one has."""
    record = _record_of(nodes, edges)
    return Graph(record, record.version)


def _record_of(nodes: Iterable[Node], edges: Mapping[str, Iterable[str]]) -> Record:
    record = Record()
    for node in nodes:
        record.place(node.id, node.event)
    for source, targets in edges.items():
        for target in targets:
            record.link(record.by_id[source], target)
    record.find_orphans()
    return record


class _Reading(Mapping[str, Value]):
    """A record as it was at a version."""

    __slots__ = ("_record", "_version")

    def __init__(self, record: Record, version: int) -> None:
        self._record = record
        self._version = version


class _Nodes(_Reading[Node]):
    __slots__ = ()

    def __getitem__(self, node_id: str, /) -> Node:
        entry = self._record.by_id[node_id]
        if entry.born > self._version:
            raise KeyError(node_id)
        return entry.node(self._version)

    def __contains__(self, node_id: object) -> bool:
        entry = self._record.by_id.get(node_id) if isinstance(node_id, str) else None
        return entry is not None and entry.born <= self._version

    def __iter__(self) -> Iterator[str]:
        return (entry.id for entry in self._record.entries.until(self._version))

    def __len__(self) -> int:
        return self._record.entries.count(self._version)


class _Edges(_Reading[tuple[str, ...]]):
    __slots__ = ()

    def __getitem__(self, node_id: str, /) -> tuple[str, ...]:
        targets = self._record.by_id[node_id].targets(self._version)
        if not targets:
            raise KeyError(node_id)
        return targets

    def __iter__(self) -> Iterator[str]:
        return iter(self._record.sources.until(self._version))

    def __len__(self) -> int:
        return self._record.sources.count(self._version)


class _LastNodes(_Reading[str]):
    __slots__ = ()

    def __getitem__(self, run_id: str, /) -> str:
        entries = self._record.runs[run_id]
        count = bisect_right(entries, self._version, key=_born)
        if not count:
            raise KeyError(run_id)
        return entries[count - 1].id

    def __contains__(self, run_id: object) -> bool:
        entries = self._record.runs.get(run_id) if isinstance(run_id, str) else None
        return entries is not None and entries[0].born <= self._version

    def __iter__(self) -> Iterator[str]:
        return iter(self._record.run_ids.until(self._version))

    def __len__(self) -> int:
        return self._record.run_ids.count(self._version)
