"""Everything that a line of graphs knows, in one record that is only ever appended to.

Each entry has the version from which on it counts, so that a graph is a record and a version.

Rules
1. The id of a node is that of its event; `<id>:result` for a result, `<id>:progress` and `<id>:output` for
   what a program printed, `<run>:harness_start`, `<run>:harness_end`, `<run>:error`, `<run>:user`, and
   `<run>:usage:<n>` with n counted over the whole graph. Further errors and users of a run are numbered
   (`<run>:error:2`); an id that another run or kind has taken becomes `<run>:<kind>:<id>`.
2. Text and reasoning of a known id are appended to their node. Anything else of a known id replaces what
   its node says, not where it stands, so that no way through the graph leads in a circle.
3. A `parent_id` is a node, else the last node of the run of that id. If neither is there yet, the edge
   is drawn when one comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.views.conversation.entries import Dated, Entry, kind_of
from harness.views.run_events import events as wire
from harness.views.run_events.events import AnyWireEvent, WireEvent


class Record:
    """All that the graphs of one line know."""

    def __init__(self) -> None:
        self.version = 0
        self.entries: Dated[Entry] = Dated()
        self.by_id: dict[str, Entry] = {}
        self.runs: dict[str, list[Entry]] = {}
        self.run_ids: Dated[str] = Dated()
        self.sources: Dated[str] = Dated()
        """Nodes that something follows, in the order in which they got their first follower."""
        self._numbers: dict[tuple[str, type[WireEvent]], int] = {}
        """How many there are of the kinds that are numbered within their run."""
        self._usages = 0
        self._orphans: dict[str, list[Entry]] = {}
        """First nodes of runs whose parent has not come yet, by the parent's id."""

    def add(self, event: AnyWireEvent | WireEvent) -> bool:
        """Whether there was anything to add."""
        if type(event) is wire.TextEvent or type(event) is wire.ReasoningEvent:
            entry = self.by_id.get(event.id)
            if entry is not None and entry.is_of(event):  # without a detour: nine of ten events are this
                self.version += 1
                entry.grow(event.content, self.version)
                return True
        if not isinstance(event, WireEvent):
            return False
        if type(event) is wire.RetractedEvent:
            return self._retract(event)
        node_id = self._node_id(event)
        known = self.by_id.get(node_id)
        if known is None:
            self._add_node(node_id, event)
        else:
            self.version += 1
            known.take(event, self.version)
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
        elif kind is wire.ErrorEvent or kind is wire.UserEvent:
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
        known = self.by_id.get(node_id)
        if known is None or known.is_of(event):
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


def _own_id(record: Record, event: Any) -> str:
    del record
    return str(event.id)


def _suffixed(suffix: str) -> Callable[[Record, Any], str]:
    return lambda _record, event: f"{event.id}:{suffix}"


def _run_id(record: Record, event: Any) -> str:
    del record
    return f"{event.run_id}:{kind_of(event)}"


_NODE_IDS: Mapping[type[WireEvent], Callable[[Record, Any], str]] = {
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
    wire.ErrorEvent: Record.numbered_id,
    wire.UserEvent: Record.numbered_id,
    wire.UsageEvent: Record.usage_id,
}
