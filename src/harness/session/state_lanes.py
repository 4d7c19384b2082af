"""State signals: a lane for each thing whose state the model must know.

A lane has a snapshot as its base, and the deltas since. A signal is repeated only when the model no longer
sees it in its context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.events import Signal
from harness.session.signals import create

IsVisible: TypeAlias = Callable[[str], bool]
"""Whether the model still sees the signal of that id."""


class StateReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a lane, to be sent as a signal."""

    id: str
    """The id of the lane."""
    cache_key: str
    contents: str
    mode: Literal["snapshot", "delta"] = "snapshot"
    tag_name: str = "state"
    value: Any = None
    delta: Any = None
    attributes: dict[str, Any] | None = None


class SentState(msgspec.Struct, kw_only=True):
    """One sent signal of a lane, with the fields that are needed later."""

    signal_id: str
    cache_key: str
    mode: str
    value: Any = None
    delta: Any = None


class StateLane(msgspec.Struct, kw_only=True):
    """What was sent about one thing: the last snapshot, and the deltas since."""

    snapshot: SentState | None = None
    deltas: list[SentState] = msgspec.field(default_factory=list)
    version: int = 0

    @property
    def last(self) -> SentState | None:
        return self.deltas[-1] if self.deltas else self.snapshot

    def has_base(self, is_visible: IsVisible) -> bool:
        """Whether the model still sees all of it: without its base a delta means nothing."""
        return self.snapshot is not None and all(
            is_visible(sent.signal_id) for sent in (self.snapshot, *self.deltas)
        )


class StateLanes(msgspec.Struct, kw_only=True):
    """A fold of a log's signals; itself data, so that a snapshot can hold it."""

    lanes: dict[str, StateLane] = msgspec.field(default_factory=dict)

    def lane(self, id: str) -> StateLane:
        return self.lanes.get(id) or StateLane()

    def feed(self, signal: Signal) -> None:
        """Record a logged signal; signals without state are ignored."""
        state = signal.state
        if not state or not isinstance(state.get("id"), str):
            return
        lane = self.lanes.setdefault(state["id"], StateLane())
        metadata = signal.metadata or {}
        sent = SentState(
            signal_id=signal.id,
            cache_key=str(state.get("cacheKey", "")),
            mode=str(state.get("mode", "snapshot")),
            value=metadata.get("value"),
            delta=metadata.get("delta"),
        )
        lane.version += 1
        if sent.mode == "delta":
            lane.deltas.append(sent)
        else:
            lane.snapshot, lane.deltas = sent, []

    def signal(self, update: StateReport, *, id: str, is_visible: IsVisible) -> Signal | None:
        """The signal for an update; None when it is unchanged: the model still sees the same state."""
        signal = create(
            "state",
            update.contents,
            id=id,
            tag_name=update.tag_name,
            attributes=update.attributes,
            metadata={"value": update.value} | ({} if update.delta is None else {"delta": update.delta}),
            state={"id": update.id, "cacheKey": update.cache_key, "mode": update.mode},
        )
        return self.numbered(signal, is_visible=is_visible)

    def numbered(self, signal: Signal, *, is_visible: IsVisible) -> Signal | None:
        """The signal as it is logged, with its version in its lane; None when it is unchanged."""
        state = signal.state
        if not state or not isinstance(state.get("id"), str):
            return signal
        lane = self.lane(state["id"])
        last, key = lane.last, str(state.get("cacheKey", ""))
        if (
            key
            and last is not None
            and (last.cache_key, last.mode) == (key, state.get("mode", "snapshot"))
            and is_visible(last.signal_id)
        ):
            return None
        return replace(signal, state={**state, "version": lane.version + 1})


def cache_key(lane_id: str, *rows: tuple[str, ...]) -> str:
    """A key that is unique to its content: each field is written with its length."""
    return f"{lane_id}:" + "|".join("".join(f"{len(field)}:{field}" for field in row) for row in rows)
