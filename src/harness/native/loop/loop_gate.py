"""The limits of `harness budget` for the loops of one conversation, where `budget_gate` has them for agent programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from harness.events import Event, Relay, RelayReply
from harness.native.loop.outbox import Outbox
from harness.questions.budget_gate import ASK_S, ended
from harness.questions.open_questions import OpenQuestions
from harness.usage import budget
from harness.usage.budget import BudgetGuard, BudgetState


class Spender(Protocol):
    """What a gate needs of the conversation whose money it watches."""

    questions: OpenQuestions
    outbox: Outbox
    spent_usd: float
    unpriced: set[str]

    def new_id(self) -> str: ...


class LoopGate:
    """Of the loops of one conversation, sub-agents included: in the event loop."""

    def __init__(self, guard: BudgetGuard, context: Spender) -> None:
        self.asks: bool = guard.asks
        self._guard = guard
        self._context = context
        self._lock = asyncio.Lock()

    async def reached(self, emit: Callable[[Event], object]) -> BudgetState | None:
        """The limit that is reached now. Logs are read elsewhere than in the event loop."""
        context, guard = self._context, self._guard
        state = await asyncio.to_thread(guard.look, context.spent_usd)
        guard.note_unpriced(context.unpriced)
        for warning in guard.take_warnings():
            emit(warning)
        return state

    async def admits(self, emit: Callable[[Event], object], asker: tuple[str, str] = ("", "")) -> bool:
        """Wait here until the run may continue. False: it must end, and the log says why.

        `asker`: of a sub-agent, its name and the call that began it.
        """
        async with self._lock:  # one question for all sub-agents
            while (state := await self.reached(emit)) is not None:
                if not self.asks or not await self._ask(state, emit, asker):
                    emit(ended(state.words))
                    return False
            return True

    def question(self, state: BudgetState) -> Relay:
        return budget.question(state, self._context.new_id())

    def takes(self, question: Relay, reply: RelayReply, emit: Callable[[Event], object]) -> bool:
        """Whether the answer lets the run continue."""
        more_usd = budget.answer(question, reply)
        if more_usd is not None:
            emit(self._guard.extend(question, more_usd))
        return more_usd is not None

    async def _ask(self, state: BudgetState, emit: Callable[[Event], object], asker: tuple[str, str]) -> bool:
        questions = self._context.questions
        relay = budget.question(state, self._context.new_id(), subagent=asker[0], spawn_call_id=asker[1])
        expected = questions.expect(relay)
        emit(relay)
        self._context.outbox.flush()
        reply = await questions.answer(relay, ASK_S, expected)
        emit(reply)
        return self.takes(relay, reply, emit)


def continues(
    question: Relay, reply: RelayReply, gate: LoopGate | None, emit: Callable[[Event], object]
) -> bool:
    """Whether a run that was suspended at a limit may continue. `gate`: None when there is no limit any more."""
    is_more = gate.takes(question, reply, emit) if gate else budget.answer(question, reply) is not None
    if not is_more:
        emit(ended(question.question.removesuffix(". Continue?")))
    return is_more
