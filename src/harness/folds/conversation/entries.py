"""The nodes of a graph as they grow. Each change has the version from which it is valid."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from harness.folds.run_events import events as wire
from harness.folds.run_events.events import WireEvent

Value = TypeVar("Value")


class Node(NamedTuple):
    id: str
    event: WireEvent
    """Its content; of text and reasoning, all pieces joined."""

    @property
    def kind(self) -> str:
        return kind_of(self.event)

    @property
    def run_id(self) -> str:
        return self.event.run_id


def kind_of(event: WireEvent) -> str:
    return str(event.__struct_config__.tag)


def is_part(node: Node, nodes: Container[str], runs: Container[str]) -> bool:
    """Whether its run is a part of another run (the call of a model), not spawned by something in one."""
    parent_id = node.event.parent_id
    return parent_id != "" and parent_id in runs and parent_id not in nodes


class Dated(Generic[Value]):
    """Values with the version from which they are valid."""

    __slots__ = ("dates", "values")

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.dates: list[int] = []

    def add(self, value: Value, version: int) -> None:
        self.values.append(value)
        self.dates.append(version)

    def count(self, version: int) -> int:
        return bisect_right(self.dates, version)

    def until(self, version: int) -> list[Value]:
        return self.values[: self.count(version)]


class Entry:
    """A node: its first event, the pieces or events added to it later, and its followers.

    Most nodes never grow and have one follower, so storage for more than that is created when it is needed:
    the size of a node decides how much memory a long conversation needs.
    """

    __slots__ = ("born", "event", "id", "later", "next_born", "next_id", "next_others")

    def __init__(self, node_id: str, event: WireEvent, born: int) -> None:
        self.id = node_id
        self.event = event
        self.born = born
        self.later: Dated[Any] | None = None
        self.next_id = ""
        self.next_born = 0
        self.next_others: Dated[str] | None = None

    def is_of(self, event: WireEvent) -> bool:
        """Whether an event of the same id belongs to this node."""
        own = self.event
        return own.run_id == event.run_id and type(own) is type(event)

    def take(self, event: WireEvent, version: int) -> None:
        """The same node in a later event: more of a text, or a replacement."""
        if isinstance(event, wire.TextEvent | wire.ReasoningEvent):
            self.grow(event.content, version)
        else:
            self.grow(msgspec.structs.replace(event, parent_id=self.event.parent_id), version)

    def grow(self, change: Any, version: int) -> None:
        """Add a piece of text or an event; None clears a text."""
        if self.later is None:
            self.later = Dated()
        self.later.add(change, version)

    def lead_to(self, target_id: str, version: int) -> None:
        if not self.next_born:
            self.next_id, self.next_born = target_id, version
            return
        if self.next_others is None:
            self.next_others = Dated()
        self.next_others.add(target_id, version)

    def targets(self, version: int) -> tuple[str, ...]:
        if not 0 < self.next_born <= version:
            return ()
        return (self.next_id, *(self.next_others.until(version) if self.next_others is not None else ()))

    def node(self, version: int) -> Node:
        event = self.event
        changes = self.later.until(version) if self.later is not None else ()
        if not changes:
            return Node(self.id, event)
        if not isinstance(event, wire.TextEvent | wire.ReasoningEvent):
            return Node(self.id, changes[-1])
        pieces = [event.content]
        for change in changes:
            if change is None:
                pieces.clear()
            else:
                pieces.append(change)
        return Node(self.id, msgspec.structs.replace(event, content="".join(pieces)))
