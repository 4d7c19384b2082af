"""A fleet: many runs of tasks by variants, in a log of its own. Each run is a session with its own log."""

from __future__ import annotations

from typing import Literal

from harness.events.envelope import Event
from harness.events.usage import Usage


class FleetPlanned(Event, frozen=True, kw_only=True):
    """The plan of a fleet is fixed. The first event of its log."""

    name: str
    tasks: int
    variants: list[str]
    repeats: int = 1
    cases: int = 0
    """Tasks × variants × repeats."""
    budget_usd: float | None = None
    providers: dict[str, int] | None = None
    """How many runs of each provider may happen at once."""


class CaseStarted(Event, frozen=True, kw_only=True):
    """A worker was started for a case."""

    case: str
    task: str = ""
    variant: str = ""
    repeat: int = 0
    engine: str = ""
    """What started it: `local`, `ray`."""


class CaseSession(Event, frozen=True, kw_only=True):
    """The run of a case has started: its log can be followed."""

    case: str
    attempt: int
    log_id: str
    host: str = ""


class CaseScored(Event, frozen=True, kw_only=True):
    """A case has its result. Exactly one for each case."""

    case: str
    task: str = ""
    variant: str = ""
    repeat: int = 0
    attempt: int = 1
    log_id: str = ""
    outcome: str = ""
    passed: bool | None = None
    """What the check says; None for a task without a check."""
    score: dict[str, float] | None = None
    check_exit: int | None = None
    cost_usd: float | None = None
    usage: Usage | None = None
    duration_s: float = 0.0
    crashed: bool = False
    """The agent ended with an error of its own: not passed."""


class CaseLost(Event, frozen=True, kw_only=True):
    """An attempt has ended without a result, and not by the agent's fault."""

    case: str
    attempt: int = 0
    log_id: str = ""
    reason: str = ""
    """`lost`, `setup_failed`, `not_started`, `rate_limited`, `provider_failed`, `check_failed`, `interrupted`."""
    detail: str = ""
    cost_usd: float | None = None
    retry: bool = False
    """Whether the case will be attempted again."""


class ProviderLimited(Event, frozen=True, kw_only=True):
    """A provider has another number of slots: fewer after a limit, none until one of hours ends, more after good runs."""

    provider: str
    limit: int
    until_ms: int | None = None
    """With a limit of 0: when it ends."""


class BudgetReached(Event, frozen=True, kw_only=True):
    """No more cases are started: the next one could exceed the budget."""

    spent_usd: float
    budget_usd: float
    left: int
    """How many cases have no result."""


class FleetEnded(Event, frozen=True, kw_only=True):
    """The fleet is not being worked on any more; unless all is done it can be continued."""

    reason: Literal["completed", "budget", "stopped"]
    scored: int
    errors: int = 0
    """Cases whose attempts all ended without a result."""
    left: int = 0
    """Cases without a result, also those that were not to be run now."""
    spent_usd: float = 0.0
