"""Whose fault it is that a run failed: that of the provider, or of the agent itself.

What the agent reports as an error of its model's API is the provider's: too many requests, a window of a subscription
that is full, an outage, a key that is refused. So is a run that ends while its agent still asks again after one of these.
Everything else that ends an agent is its own.
"""

from __future__ import annotations

from harness.events import Result
from harness.fleet.records.attempt import AttemptFault
from harness.folds.provider_trouble import ProviderTrouble, Trouble

_NOT_STARTED = frozenset(("agent_not_found", "spawn_failed"))


_ENDED = frozenset(("failed", "timed_out", "stalled"))


def fault_of(result: Result, trouble: ProviderTrouble, refused: Trouble = "") -> AttemptFault:
    """Why a run says nothing about the agent; empty when it does, however it ended. `refused`: what its model's provider
    was refusing when it ended.
    """
    if result.outcome in _NOT_STARTED:
        return "not_started"
    if result.outcome == "interrupted":
        return "interrupted"
    if result.outcome == "failed" and trouble.kind:
        return "rate_limited" if trouble.is_limit else "provider_failed"
    if result.outcome in _ENDED and refused:
        return "provider_failed" if refused == "outage" else "rate_limited"
    return ""
