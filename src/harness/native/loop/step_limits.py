"""The limits of one run of the loop, looked at before each step: model calls, tokens, money."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from harness.contracts.limits import LIMITS, Limit
from harness.events import Relay, RelayReply, Usage
from harness.native.loop.loop_context import AgentOptions
from harness.questions.open_questions import LIMIT_CATEGORY

CONTINUE, STOP = "Continue", "Stop"
AtLimit: TypeAlias = Literal["end", "ask", "summarise"]


class ReachedLimit(NamedTuple):
    name: str
    amount: str

    @property
    def limit(self) -> Limit:
        return LIMITS[self.name]

    @property
    def words(self) -> str:
        return self.limit.message.format(self.amount)


class StepLimits:
    """Each limit is also the size of what is granted when a person lets the run continue."""

    def __init__(self, options: AgentOptions) -> None:
        self._turns: float = options.max_iterations
        self._tokens: float | None = options.max_tokens
        self._budget_usd = options.max_budget_usd
        self._options = options

    def reached(self, steps: int, usage: Usage, spent_usd: float) -> ReachedLimit | None:
        """The first limit that allows no other step."""
        if self._budget_usd is not None and spent_usd >= self._budget_usd:
            return ReachedLimit("budget", f"${self._budget_usd:g}")
        if self._tokens is not None and usage.all_tokens >= self._tokens:
            return ReachedLimit("tokens", f"{self._tokens:,.0f}")
        return ReachedLimit("turns", f"{self._turns:g}") if steps >= self._turns else None

    def action(self, limit: ReachedLimit, *, can_ask: bool) -> AtLimit:
        """What is done there. Unless something else is wished, only the limit of model calls gives a summary."""
        wished = self._options.at_limit or ("summarise" if limit.name == "turns" else "end")
        return "end" if wished == "ask" and not can_ask else wished

    def extend(self, steps: int, usage: Usage, spent_usd: float) -> None:
        """Grant as much again as each limit that is reached was."""
        options = self._options
        while steps >= self._turns:
            self._turns += options.max_iterations
        while self._tokens is not None and options.max_tokens and usage.all_tokens >= self._tokens:
            self._tokens += options.max_tokens
        while self._budget_usd is not None and options.max_budget_usd and spent_usd >= self._budget_usd:
            self._budget_usd += options.max_budget_usd


def question(limit: ReachedLimit, relay_id: str) -> Relay:
    """What a person is asked at a limit."""
    words = limit.words
    return Relay(
        id=relay_id,
        kind="question",
        question=f"{words[0].upper()}{words[1:]}. Continue?",
        options=[CONTINUE, STOP],
        category=LIMIT_CATEGORY,
        payload={
            "question": f"{words[0].upper()}{words[1:]}. Continue?",
            "options": [{"label": CONTINUE}, {"label": STOP}],
            "limit": limit.name,
        },
        resume_schema={"enum": [CONTINUE, STOP]},
    )


def continues(reply: RelayReply) -> bool:
    """Whether the answer lets the run continue; an unclear one does not."""
    return reply.approved and reply.answer == CONTINUE
