"""One attempt at a case: what came of it, and whose fault it was when nothing did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.events import Usage

AttemptFault: TypeAlias = Literal[
    "",
    "lost",
    "interrupted",
    "setup_failed",
    "not_started",
    "rate_limited",
    "provider_failed",
    "check_failed",
    "agent_failed",
]
"""Why an attempt has no result: something that is not a part of the agent failed. A wrong answer, one that took too
long, and an agent that ended with an error of its own, is a result. `agent_failed` is stored no more: see `decisive`."""
_MOST_WINDOWS = 5
"""So often a case may wait for a limit to end without using up one of its retries."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored of one attempt. With an empty `fault` it is the result of its case."""

    case: str
    number: int
    fault: AttemptFault = ""
    detail: str = ""
    log_id: str = ""
    outcome: str = ""
    passed: bool | None = None
    crashed: bool = False
    """The agent ended with an error of its own. It has not passed, whatever the check says."""
    score: dict[str, float] = {}
    check_exit: int | None = None
    check_output: str = ""
    cost_usd: float | None = None
    usage: Usage = Usage()
    is_unpriced: bool = False
    """Tokens were used whose price is not known."""
    was_limited: bool = False
    """The provider refused a request because there were too many."""
    limited_until_ms: int | None = None
    """When the limit that was reached ends, as far as that is known."""
    started_ms: int = 0
    duration_s: float = 0.0
    """From the start of the worker to the result."""
    run_s: float = 0.0
    """Of the agent alone."""
    host: str = ""

    @property
    def is_result(self) -> bool:
        return not self.fault

    @property
    def has_known_cost(self) -> bool:
        """False: it cost at least `cost_usd`. An agent that was cut off may not have said what it used."""
        return not self.is_unpriced and (not self.log_id or bool(self.usage) or bool(self.cost_usd))


class CaseProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of an attempt while it runs."""

    case: str
    number: int
    pid: int = 0
    host: str = ""
    started_ms: int = 0
    log_id: str = ""


def retries_used(attempts: Sequence[Attempt]) -> int:
    """How many of the retries these attempts without a result have used up.

    One that was stopped on request uses none, nor do the first few that ended at a limit whose end is known.
    """
    windows = sum(_waits_for_limit(attempt) for attempt in attempts)
    others = sum(attempt.fault != "interrupted" and not _waits_for_limit(attempt) for attempt in attempts)
    return others + max(0, windows - _MOST_WINDOWS)


def _waits_for_limit(attempt: Attempt) -> bool:
    return attempt.fault == "rate_limited" and attempt.limited_until_ms is not None


def decisive(result: Attempt | None, faults: Sequence[Attempt]) -> Attempt | None:
    """The attempt that counts. Fleets of an earlier version have attempts of agents that crashed among the faults, and
    tried again until one passed: the first of them is the result.
    """
    crash = next((fault for fault in faults if fault.fault == "agent_failed"), None)
    return result if crash is None else replace(crash, fault="", passed=False, crashed=True, score={})
