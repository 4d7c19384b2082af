"""The conversation as an immutable graph: adding an event returns a new graph.

Nodes are messages, calls and results; an edge leads from each node of a run to the next one of that run, and
from what spawned a run to the run's first node.

All graphs of one line share one record, which is only ever appended to. So an event costs the same
however long the conversation is, and old graphs stay as they were. Adding to a graph that has already
been added to copies it once, and begins a new line. Any thread may read a graph; one at a time may add
to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from harness.folds.conversation.entries import Dated, Entry, Node, kind_of
from harness.folds.run_events import events as wire
from harness.folds.run_events.events import AnyWireEvent, WireEvent

# The record that successive graphs share: it is only ever appended to.


class GraphRecord:
    """The data that the graphs of one line share."""

    def __init__(self) -> None:
        self.version = 0
        self.entries: Dated[Entry] = Dated()
        self.by_id: dict[str, Entry] = {}
        self.runs: dict[str, list[Entry]] = {}
        self.run_ids: Dated[str] = Dated()
        self.sources: Dated[str] = Dated()
        """Nodes with followers, in the order in which they got their first one."""
        self._numbers: dict[tuple[str, type[WireEvent]], int] = {}
        """How many nodes there are of each kind that is numbered within its run."""
        self._usages = 0
        self._orphans: dict[str, list[Entry]] = {}
        """First nodes of runs whose parent is not known yet, by the parent's id."""

    def add(self, event: AnyWireEvent | WireEvent) -> bool:
        """Whether there was anything to add."""
        if type(event) is wire.TextEvent or type(event) is wire.ReasoningEvent:
            entry = self.by_id.get(event.id)
            if entry is not None and entry.is_of(event):  # fast path: nine of ten events
                self.version += 1
                entry.grow(event.content, self.version)
                return True
        if not isinstance(event, WireEvent):
            return False
        if type(event) is wire.RetractedEvent:
            return self._retract(event)
        node_id = self._node_id(event)
        node = self.by_id.get(node_id)
        if node is None:
            self._add_node(node_id, event)
        else:
            self.version += 1
            node.take(event, self.version)
        return True

    def place(self, node_id: str, event: WireEvent) -> Entry:
        """A new node without edges."""
        self.version += 1
        version, run_id, kind = self.version, event.run_id, type(event)
        entry = self.by_id[node_id] = Entry(node_id, event, version)
        self.entries.add(entry, version)
        run = self.runs.get(run_id)
        if run is None:
            self.runs[run_id] = [entry]
            self.run_ids.add(run_id, version)
        else:
            run.append(entry)
        if kind is wire.UsageEvent:
            self._usages += 1
        elif kind is wire.RunErrorEvent or kind is wire.UserEvent:
            self._numbers[run_id, kind] = self._numbers.get((run_id, kind), 0) + 1
        return entry

    def link(self, source: Entry, target_id: str) -> None:
        if not source.next_born:
            self.sources.add(source.id, self.version)
        source.lead_to(target_id, self.version)

    def find_orphans(self) -> None:
        led_to = {target for entry in self.entries.values for target in entry.targets(self.version)}
        for first, *_ in self.runs.values():
            if first.event.parent_id and first.id not in led_to:
                self._orphans.setdefault(first.event.parent_id, []).append(first)

    def _add_node(self, node_id: str, event: WireEvent) -> None:
        run = self.runs.get(event.run_id)
        previous = None if run is None else run[-1]
        entry = self.place(node_id, event)
        if previous is not None:
            self.link(previous, node_id)
        elif event.parent_id:
            self._hang(entry, event.parent_id)
        if self._orphans:
            self._adopt(entry, is_first=previous is None)

    def _node_id(self, event: WireEvent) -> str:
        node_id = _NODE_IDS[type(event)](self, event)
        node = self.by_id.get(node_id)
        if node is None or node.is_of(event):
            return node_id
        return f"{event.run_id}:{kind_of(event)}:{node_id}"

    def _hang(self, entry: Entry, parent_id: str) -> None:
        parent = self.by_id.get(parent_id)
        run = self.runs.get(parent_id)
        if (parent is None or parent is entry) and run is not None:
            parent = run[-1]
        if parent is None or parent is entry:
            self._orphans.setdefault(parent_id, []).append(entry)
        else:
            self.link(parent, entry.id)

    def _adopt(self, entry: Entry, *, is_first: bool) -> None:
        names = (entry.id, entry.event.run_id) if is_first else (entry.id,)
        for name in names:
            for orphan in self._orphans.pop(name, ()):
                if orphan.event.run_id != entry.event.run_id:
                    self.link(entry, orphan.id)
                else:  # no run is its own parent
                    self._orphans.setdefault(name, []).append(orphan)

    def _retract(self, event: wire.RetractedEvent) -> bool:
        for node_id in (event.id, f"{event.run_id}:text:{event.id}"):
            entry = self.by_id.get(node_id)
            if (
                entry is not None
                and type(entry.event) is wire.TextEvent
                and entry.event.run_id == event.run_id
            ):
                self.version += 1
                entry.grow(None, self.version)
                return True
        return False

    def usage_id(self, event: wire.UsageEvent) -> str:
        return f"{event.run_id}:usage:{self._usages + 1}"

    def numbered_id(self, event: WireEvent) -> str:
        number = self._numbers.get((event.run_id, type(event)), 0) + 1
        name = f"{event.run_id}:{kind_of(event)}"
        return name if number == 1 else f"{name}:{number}"


def _own_id(record: GraphRecord, event: Any) -> str:
    del record
    return str(event.id)


def _suffixed(suffix: str) -> Callable[[GraphRecord, Any], str]:
    return lambda _record, event: f"{event.id}:{suffix}"


def _run_id(record: GraphRecord, event: Any) -> str:
    del record
    return f"{event.run_id}:{kind_of(event)}"


_NODE_IDS: Mapping[type[WireEvent], Callable[[GraphRecord, Any], str]] = {
    wire.TextEvent: _own_id,
    wire.ReasoningEvent: _own_id,
    wire.ToolCallEvent: _own_id,
    wire.RelayEvent: _own_id,
    wire.ToolProgressEvent: _own_id,
    wire.ReplInputEvent: _own_id,
    wire.ToolResultEvent: _suffixed("result"),
    wire.ReplProgressEvent: _suffixed("progress"),
    wire.ReplOutputEvent: _suffixed("output"),
    wire.HarnessStart: _run_id,
    wire.HarnessEnd: _run_id,
    wire.RunErrorEvent: GraphRecord.numbered_id,
    wire.UserEvent: GraphRecord.numbered_id,
    wire.UsageEvent: GraphRecord.usage_id,
}


Value = TypeVar("Value")
_born = attrgetter("born")


class Graph:
    """Three mappings to read from; `reduce` returns the next graph."""

    __slots__ = ("_record", "_version")

    def __init__(self, record: GraphRecord | None = None, version: int = 0) -> None:
        self._record = GraphRecord() if record is None else record
        self._version = version

    @property
    def nodes(self) -> Mapping[str, Node]:
        """In order of arrival."""
        return _Nodes(self._record, self._version)

    @property
    def edges(self) -> Mapping[str, tuple[str, ...]]:
        """From each node with followers to its followers."""
        return _Edges(self._record, self._version)

    @property
    def last_node_by_run_id(self) -> Mapping[str, str]:
        return _LastNodes(self._record, self._version)

    def reduce(self, event: AnyWireEvent | WireEvent) -> Graph:
        """The graph with one more event; this one does not change."""
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

    __hash__: ClassVar[None] = None  # type: ignore[assignment] # compared by content, which may not be hashable


def graph_of(nodes: Iterable[Node], edges: Mapping[str, Iterable[str]]) -> Graph:
    """A graph from the nodes and edges of a snapshot."""
    record = _record_of(nodes, edges)
    return Graph(record, record.version)


def _record_of(nodes: Iterable[Node], edges: Mapping[str, Iterable[str]]) -> GraphRecord:
    record = GraphRecord()
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

    def __init__(self, record: GraphRecord, version: int) -> None:
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
