"""A suspended run: everything that is needed to continue it, in this process or in another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harness.contracts.model import Call, ToolTurn
from harness.conversation.turns import CUT_OFF, TranscriptEntry
from harness.events import Event, Relay, RelayReply, Result, ToolEnd, Usage


class SuspendedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one step, of which some wait. Ids of calls are the model's own here."""

    run_id: str
    relays: tuple[Relay, ...]
    """What is to be answered, as it is in the log."""
    calls: tuple[Call, ...]
    """All that the model asked for in this step."""
    message_id: str = ""
    """Of the answer that asked for them."""
    results: dict[str, TranscriptEntry] = {}
    """The calls that have ended."""
    started: frozenset[str] = frozenset()
    """The calls that were admitted and have not ended: they are run when the run is resumed."""
    answers: dict[str, tuple[RelayReply, ...]] = {}
    """By call: what was answered to earlier questions of the same call."""
    additions: tuple[TranscriptEntry, ...] = ()
    """What was added in the meantime; the model sees it with its next step."""
    steps: int = 0
    used: Usage = Usage()
    text: str = ""
    """The agent's last answer."""
    started_ms: int = 0
    is_suspended: bool = True
    """False when its process died while a question was open, before `Suspended` was written."""

    def relay_of(self, call_id: str) -> Relay | None:
        """The open `Relay` of a call, by the call's full id."""
        return next((relay for relay in self.relays if relay.call_id == call_id), None)


class Resumption:
    """What is known of the calls of a step that an earlier part of the run began."""

    def __init__(self, pending: SuspendedRun, replies: Mapping[str, RelayReply]) -> None:
        """`replies`: by the id of their `Relay`; they are in the log already."""
        self.pending = pending
        self.replies = replies

    def answers_to(self, call: Call, call_id: str) -> list[RelayReply]:
        earlier = self.pending.answers.get(call.id, ())
        relay = self.pending.relay_of(call_id)
        reply = self.replies.get(relay.id) if relay is not None else None
        return [*earlier, reply] if reply is not None else list(earlier)


def cut_off(pending: SuspendedRun) -> dict[str, ToolTurn]:
    """The results of calls that were started and will not end, for the model; by full id."""
    return {
        f"{pending.run_id}/{call.id}": ToolTurn(call.id, CUT_OFF, is_error=True)
        for call in pending.calls
        if call.id in pending.started
    }


def closing_events(pending: SuspendedRun, reason: str, now_ms: int) -> Sequence[Event]:
    """The events that end a suspended run which is given up."""
    begun_calls = [call for call in pending.calls if call.id in pending.started]
    return [
        *(RelayReply(id=relay.id, approved=False, by="policy", reason=reason) for relay in pending.relays),
        *(ToolEnd(call_id=f"{pending.run_id}/{call.id}", tool_name=call.name) for call in begun_calls),
        Result(
            success=False,
            outcome="interrupted",
            text=pending.text,
            duration_ms=max(0, now_ms - pending.started_ms),
            total_cost_usd=pending.used.cost_usd,
            usage=pending.used or None,
            turns=pending.steps,
        ),
    ]
