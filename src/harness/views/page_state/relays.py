"""What was asked of somebody, and what the answer was, as a state shows it."""

from __future__ import annotations

from harness.events import Relay, RelayReply
from harness.log.run_tree import RunTree
from harness.views.page_state import shapes
from harness.views.page_state.calls import Calls
from harness.views.page_state.speaker import Speaker
from harness.views.page_state.tree import Tree


class Relays:
    """`positions` is kept by the fold, whose snapshot it is part of."""

    def __init__(self, tree: Tree, calls: Calls, positions: dict[str, int], runs: RunTree) -> None:
        self._tree = tree
        self._calls = calls
        self._positions = positions
        self._runs = runs

    def use(self, runs: RunTree) -> None:
        self._runs = runs

    def asked(self, speaker: Speaker, event: Relay) -> None:
        known = self._positions.get(event.id)
        is_open = known is not None and self._tree.at(("relays", str(known), "status")) == "pending"
        if is_open or event.id not in self._runs.open_relays:
            return
        place = self._tree.push(("relays",), shapes.relay(event))
        self._positions[event.id] = int(place[-1])
        if event.spawn_call_id and speaker.parent_call != event.spawn_call_id:
            # A sub-agent that works in a log of its own: what waits here is the call that began it.
            self._calls.asks(speaker, event.spawn_call_id, event.id, event.timestamp_ms)
        elif event.call_id:
            self._calls.waiting(
                speaker, event.call_id, event.tool_name, event.input, event.id, event.timestamp_ms
            )

    def answered(self, speaker: Speaker, event: RelayReply) -> None:
        if not self._runs.relays:
            # A policy refuses without asking anybody: the answer then has the id of the call.
            if event.id not in self._positions and not event.approved:
                self._calls.refused(speaker, event.id, event.reason)
            return
        self._settle(event.id, "approved" if event.approved else "denied", event.reason)
        place = ("relays", str(self._positions[event.id]))
        self._tree.change((*place, "by"), event.by)
        self._tree.change((*place, "choice"), event.choice or ("always" if event.always else ""))
        if event.answer is not None:
            self._tree.set((*place, "answer"), event.answer)
        if not event.approved:
            call_id = self._tree.at((*place, "callId"))
            self._calls.refused(speaker, call_id, event.reason or "denied")

    def close(self) -> None:
        """Runs have ended: nobody waits for these answers any more."""
        for relay in self._runs.relays:
            self._settle(relay.id, "denied", "the run has ended")

    def _settle(self, relay_id: str, status: str, reason: str) -> None:
        place = ("relays", str(self._positions[relay_id]))
        self._tree.set((*place, "status"), status)
        self._tree.change((*place, "reason"), reason)
