"""How runs ended, for those who wait for them."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias

import msgspec

from harness.contracts.limits import LIMITS
from harness.events import Error, Event, Outcome, Result, Suspended, Usage, Warning
from harness.session.outputs import Value

BLOCKED = "blocked"
Ended: TypeAlias = Result | Suspended | None
"""What a driver's run ends with; None: with nothing, as it was stopped before."""
Became: TypeAlias = Outcome | Literal["suspended", "joined", "queued", "blocked"]


class RunOutcome(
    msgspec.Struct, Generic[Value], frozen=True, kw_only=True, omit_defaults=True, rename="camel"
):
    """What `send_message` returns."""

    outcome: Became
    """How the run ended; `suspended`: it waits for an answer. `joined`: the message was added to the
    current run; `queued`: it waits for the end of that run. In both cases the other fields are empty.
    `blocked`: a guard stopped it, and `error` says why.
    """
    run_id: str = ""
    text: str = ""
    """The answer: the last message of the agent."""
    error: str = ""
    """The error message, if the run failed."""
    code: str = ""
    """Which error that was: `output_invalid`, or what the agent calls it."""
    usage: Usage | None = None
    cost_usd: float | None = None
    turns: int | None = None
    duration_ms: int | None = None
    structured: Any = None
    """The answer as structured data, if the agent gave one."""
    output: Value | None = None
    """The answer as the type that `output=` asked for; None if the run did not complete."""

    @property
    def success(self) -> bool:
        """Whether the run completed; False too for a message that joined another run or was queued."""
        return self.outcome == "completed"


_LIMIT_CODES = frozenset(limit.code for limit in LIMITS.values() if limit.outcome == "limit_exceeded")
_NO_ERROR = Error(message="")
_TOLD: frozenset[type[Event]] = frozenset((Result, Suspended, Error, Warning))


class RunOutcomes:
    """Collects the outcome of expected runs.

    Contract: `notice` is called with every event of the thread's log, except streamed deltas.
    """

    def __init__(self) -> None:
        self._awaited: dict[str, tuple[Result | Suspended | None, Error]] = {}
        """By run id: the event that ended it, and its last error."""

    def expect(self, run_id: str) -> None:
        self._awaited[run_id] = (None, _NO_ERROR)

    def has_ended(self, run_id: str) -> bool:
        """Whether a run that was expected has ended, or is suspended."""
        return self._awaited.get(run_id, (None,))[0] is not None

    def forget(self, run_id: str) -> None:
        self._awaited.pop(run_id, None)

    def notice(self, event: Event) -> None:
        if type(event) not in _TOLD:
            return
        awaited_run = self._awaited.get(event.run_id)
        if awaited_run is None:
            return
        if isinstance(event, Result | Suspended):
            self._awaited[event.run_id] = (event, awaited_run[1])
        elif isinstance(event, Error):
            self._awaited[event.run_id] = (awaited_run[0], event)
        elif isinstance(event, Warning) and event.code in _LIMIT_CODES:
            self._awaited[event.run_id] = (awaited_run[0], Error(message=event.message, code=event.code))

    def take(self, run_id: str) -> RunOutcome[Any]:
        """The outcome of a run that was expected and has ended."""
        ended, problem = self._awaited.pop(run_id)
        if isinstance(ended, Suspended):
            return RunOutcome(outcome="suspended", run_id=run_id)
        if ended is None:  # the thread was closed before the end was logged
            return RunOutcome(outcome="interrupted", run_id=run_id, error=problem.message)
        return outcome_of(ended, run_id, problem)


def outcome_of(ended: Result, run_id: str, problem: Error = _NO_ERROR) -> RunOutcome[Any]:
    """The outcome that the end of a run says."""
    return RunOutcome(
        outcome=ended.outcome,
        run_id=run_id,
        text=ended.text,
        error="" if ended.success else problem.message,
        code="" if ended.success else problem.code,
        usage=ended.usage,
        cost_usd=ended.total_cost_usd,
        turns=ended.turns,
        duration_ms=ended.duration_ms,
        structured=ended.structured,
    )


def withheld(outcome: RunOutcome[Any], reason: str, code: str) -> RunOutcome[Any]:
    """The outcome without its answer. `code`: empty where the session was stopped before it was known whether it may go on."""
    kind: Literal["blocked", "interrupted"] = "blocked" if code else "interrupted"
    return msgspec.structs.replace(
        outcome, outcome=kind, text="", output=None, structured=None, error=reason, code=code
    )


def with_both_uses(first: RunOutcome[Any], then: RunOutcome[Any]) -> RunOutcome[Any]:
    """The second outcome, with what both have used."""
    usage = [outcome.usage for outcome in (first, then) if outcome.usage is not None]
    costs = [outcome.cost_usd for outcome in (first, then) if outcome.cost_usd is not None]
    turns = [outcome.turns for outcome in (first, then) if outcome.turns is not None]
    return msgspec.structs.replace(
        then,
        usage=usage[0].plus(usage[1]) if len(usage) > 1 else next(iter(usage), None),
        cost_usd=sum(costs) if costs else None,
        turns=sum(turns) if turns else None,
    )
