"""What ends a run early: the outcome, the code and the sentence of each limit, the same for every kind of agent."""

from __future__ import annotations

import msgspec

from harness.events.run import Outcome


class Limit(msgspec.Struct, frozen=True):
    outcome: Outcome
    code: str = ""
    message: str = ""


LIMITS: dict[str, Limit] = {
    "stop": Limit("interrupted"),
    "timeout": Limit("timed_out", "timeout", "timed out after {}"),
    "first_output": Limit("stalled", "stalled", "the agent wrote nothing for {} after it was started"),
    "inactivity": Limit("stalled", "stalled", "the agent wrote nothing for {}"),
    "turns": Limit("limit_exceeded", "max_turns", "stopped after {} turns"),
    "tokens": Limit("limit_exceeded", "max_tokens", "stopped after {} tokens"),
    "budget": Limit("limit_exceeded", "max_budget", "stopped: the budget of {} is used up"),
    "spending": Limit("limit_exceeded", "spending_limit", "stopped: {}"),
    "parted": Limit("failed", "replay_parted", "parted from the recording {}"),
    "differs": Limit("failed", "replay_differs", "differs from the recording {}"),
}
