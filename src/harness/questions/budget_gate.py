"""A run at a limit of `harness budget`: asked, continued or ended. For agent programs, and for loops in this process.

        look                 limit reached, a person may answer             more may be spent
RUNNING ────▶ RUNNING        ─────────────────────────────────▶ WAITING ──────────────────▶ RUNNING
                             limit reached, no one can answer       │ refused, too late, stopped
                             ─────────────────────────────▶ ENDED ◀─┘
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias
from uuid import uuid4

from harness.contracts.limits import LIMITS
from harness.events import Error, Event, Relay, RelayReply
from harness.questions.open_questions import check_reply
from harness.usage import budget
from harness.usage.budget import BudgetGuard, BudgetState

ASK_S = 24 * 3600.0
"""How long a run waits for an answer: while it waits it costs nothing."""
GateStep: TypeAlias = Literal["run", "wait", "end"]


class SpentSoFar(Protocol):
    """What a run has cost, at least; `CostMeter` is one."""

    @property
    def spent_usd(self) -> float: ...

    @property
    def unpriced(self) -> frozenset[str]: ...


class BudgetGate:
    """Of an agent program, in the thread of its run. Contract: `reply` may be called from any thread, all else from
    that of the run.
    """

    def __init__(
        self,
        guard: BudgetGuard,
        emit: Callable[[Event], object],
        clock: Callable[[], int],
        ask_timeout_s: float | None = None,
    ) -> None:
        self._guard = guard
        self._emit = emit
        self._clock = clock
        self._timeout_s = ask_timeout_s or ASK_S
        self._lock = threading.Lock()
        self._open_question: Relay | None = None
        self._reply: RelayReply | None = None
        self._deadline_ms = float("inf")
        self._is_over = False
        self.changed: threading.Event = threading.Event()
        """Set when it was answered, or when the run is to stop."""
        self.reason: str = ""
        """Why the run ended here."""

    @property
    def waits(self) -> bool:
        return self._open_question is not None

    @property
    def deadline_ms(self) -> float:
        return self._deadline_ms

    def look(self, cost: SpentSoFar | None = None) -> GateStep:
        """What the run is to do now, when it has cost this much."""
        if self._open_question is not None:
            return self._after_answer(self._open_question)
        guard = self._guard
        if self._is_over:
            return "run"
        state = guard.look(cost.spent_usd if cost is not None else 0.0)
        guard.note_unpriced(cost.unpriced if cost is not None else ())
        for warning in guard.take_warnings():
            self._emit(warning)
        if state is None:
            return "run"
        self.reason = state.words
        return self._ask(state) if guard.asks else self._end()

    def wait(self, is_stopped: Callable[[], bool]) -> GateStep:
        """Before there is a program: until it may start, or must not. `wait`: it was stopped while it was asked."""
        step = self.look()
        while step == "wait" and not is_stopped():
            self.changed.wait(max(0.0, (self._deadline_ms - self._clock()) / 1000))
            self.changed.clear()
            step = self.look()
        if step == "wait":
            self.withdraw("the run was stopped")
        return step

    def reply(self, reply: RelayReply) -> bool:
        """False when this is not asked (any more). Raises UsageError for what is no answer."""
        with self._lock:
            question = self._open_question
            if question is None or question.id != reply.id or self._reply is not None:
                return False
            check_reply(question, reply)
            self._reply = reply
        self.changed.set()
        return True

    def withdraw(self, reason: str) -> None:
        """The run is stopped: nothing is asked any more."""
        self._is_over = True
        self.changed.set()
        with self._lock:
            question, self._open_question = self._open_question, None
        if question is not None:
            self._emit(RelayReply(id=question.id, approved=False, by="policy", reason=reason))

    def _ask(self, state: BudgetState) -> GateStep:
        relay = budget.question(state, str(uuid4()))
        self._deadline_ms = self._clock() + self._timeout_s * 1000
        with self._lock:  # before it is shown: an answer may come at once
            self._open_question, self._reply = relay, None
        self._emit(relay)
        return "wait"

    def _after_answer(self, question: Relay) -> GateStep:
        with self._lock:
            reply = self._reply
            if reply is None and self._clock() >= self._deadline_ms:
                reason = "there was no answer in time"
                reply = self._reply = RelayReply(id=question.id, approved=False, by="timeout", reason=reason)
            if reply is None:
                return "wait"
            self._open_question, self._deadline_ms = None, float("inf")
        self._emit(reply)
        more_usd = budget.answer(question, reply)
        if more_usd is None:
            return self._end()
        self._emit(self._guard.extend(question, more_usd))
        return "run"

    def _end(self) -> GateStep:
        self._is_over = True
        return "end"


def ended(reason: str) -> Error:
    """What the log says of a run that ended at a limit."""
    limit = LIMITS["spending"]
    return Error(message=limit.message.format(reason), code=limit.code)
