"""What becomes of a message: how the run ended that it began, as the log says it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from harness.events import Error, Event, Outcome, Result, Suspended, Usage

Became: TypeAlias = Outcome | Literal["suspended", "joined", "queued"]


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What `send_message` gives."""

    outcome: Became
    """How the run ended; `suspended`: it waits for an answer. `joined`: the message went into a run that was going on,
    `queued`: it waits for the end of one; nothing else is known then.
    """
    run_id: str = ""
    text: str = ""
    """The answer: what the agent said last."""
    error: str = ""
    """What went wrong, in words, where something did."""
    usage: Usage | None = None
    cost_usd: float | None = None
    turns: int | None = None
    duration_ms: int | None = None
    structured: Any = None
    """The answer as data, where the agent gave it as that."""

    @property
    def success(self) -> bool:
        return self.outcome == "completed"


class RunOutcomes:
    """Contract: `notice` is told of every event of the thread's log but the pieces of a stream."""

    def __init__(self) -> None:
        self._awaited: dict[str, tuple[Result | Suspended | None, str]] = {}
        """By run: its end, and the last error that was told of it."""

    def expect(self, run_id: str) -> None:
        self._awaited[run_id] = (None, "")

    def notice(self, event: Event) -> None:
        known = self._awaited.get(event.run_id) if self._awaited else None
        if known is None:
            return
        if isinstance(event, Result | Suspended):
            self._awaited[event.run_id] = (event, known[1])
        elif isinstance(event, Error):
            self._awaited[event.run_id] = (known[0], event.message)

    def take(self, run_id: str) -> RunOutcome:
        """Of a run that was expected and has ended."""
        ended, problem = self._awaited.pop(run_id)
        if isinstance(ended, Suspended):
            return RunOutcome(outcome="suspended", run_id=run_id)
        if ended is None:  # the thread was left before it could say so
            return RunOutcome(outcome="interrupted", run_id=run_id, error=problem)
        return RunOutcome(
            outcome=ended.outcome,
            run_id=run_id,
            text=ended.text,
            error="" if ended.success else problem,
            usage=ended.usage,
            cost_usd=ended.total_cost_usd,
            turns=ended.turns,
            duration_ms=ended.duration_ms,
            structured=ended.structured,
        )
