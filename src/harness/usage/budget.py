"""What was spent under the limits of `harness budget`, and what a run does when one of them is reached.

    guard.look(spent by the run so far) ─┬─▶ nothing: continue
                                         ├─▶ `warnings`: 80 % of a limit are spent; a model has no price
                                         └─▶ a limit is reached: ask (`question`, `answer`), or end the run

Rules
1. What counts is what Harness ran and recorded in the store, each token once, runs that are under way too. Sessions
   that agents ran by themselves are not counted, nor are copies of them.
2. The other logs are read again at most every few seconds, so that runs of other processes count as well. What was
   under way when a limit was reached is paid for: a limit can be exceeded by one model call of each run.
3. An answer gives one conversation more, until the day or month is over. It is in its log (`BudgetExtended`).
4. What has no price cannot be limited; the run says so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from harness import config
from harness.errors import BudgetExceeded, HarnessError, UsageError
from harness.events import BudgetExtended, Event, Relay, RelayReply, Usage, Warning
from harness.log.store import Store, is_copy, read_all
from harness.usage.budget_settings import BudgetLimit, limits_in, money, period_start_ms
from harness.usage.ledger import Charge, total
from harness.usage.prices import Prices, Rate
from harness.usage.prices import load as load_prices
from harness.usage.run_cost import unpriced_warning
from harness.usage.stored_accounts import StoredAccounts, day_of

CATEGORY = "budget"
"""Of the questions that are asked when a limit is reached (`Relay.category`)."""
STOP = "Stop"
NEAR = 0.8
_REFRESHED_EVERY_S = 5.0
_AMOUNT = re.compile(r"\$?\s*(\d+(?:[.,]\d{1,4})?)")
_YES = ("y", "yes", "continue", "ok")
_NO = ("", "n", "no", "stop", "deny")


class BudgetState(NamedTuple):
    """One limit, and what was spent under it."""

    limit: BudgetLimit
    spent_usd: float
    is_complete: bool = True
    """False: there are tokens without a price, so that it is more than this."""
    until_usd: float = 0.0
    """The limit, or what a person has allowed instead."""
    since_ms: int = 0
    """When the day or month began."""

    @property
    def left_usd(self) -> float:
        return max(0.0, self.until_usd - self.spent_usd)

    @property
    def is_reached(self) -> bool:
        return self.spent_usd >= self.until_usd

    @property
    def share(self) -> float:
        return self.spent_usd / self.limit.limit_usd

    @property
    def more_usd(self) -> float:
        """What is offered when it is reached."""
        return max(0.01, round(self.limit.limit_usd / 4, 2))

    @property
    def words(self) -> str:
        """`today's limit of $20.00 is reached ($20.13 spent)`."""
        least = "" if self.is_complete else "at least "
        extended = f", then {money(self.until_usd)}," if self.until_usd > self.limit.limit_usd else ""
        return f"{self.limit.words}{extended} is reached ({least}{money(self.spent_usd)} spent)"


def spent_under(
    limits: Sequence[BudgetLimit], store: Store, prices: Prices, now_s: float | None = None
) -> list[BudgetState]:
    """What was spent under each of them until now. Raises StoreError."""
    return [
        _state(limit, charges, now_s)
        for limit, charges in zip(limits, _charges_under(limits, store, prices, now_s), strict=True)
    ]


def _state(limit: BudgetLimit, charges: Iterable[Charge], now_s: float | None) -> BudgetState:
    amount, since_ms = total(charges), period_start_ms(limit.period, now_s)
    return BudgetState(limit, amount.cost_usd or 0.0, amount.is_cost_complete, limit.limit_usd, since_ms)


def _charges_under(
    limits: Sequence[BudgetLimit], store: Store, prices: Prices, now_s: float | None
) -> list[list[Charge]]:
    if not limits:
        return []
    since = {limit.period: period_start_ms(limit.period, now_s) for limit in limits}
    ledger = StoredAccounts.of(store).ledger(min(since.values()), leaves_out=is_copy)
    charges = {period: ledger.charges(prices, day_of, at_ms) for period, at_ms in since.items()}
    return [
        [charge for charge in charges[limit.period] if limit.includes(charge.project)] for limit in limits
    ]


class BudgetGuard:
    """The limits of one run. Contract: used by one thread at a time; `look` may read files."""

    def __init__(
        self,
        limits: Sequence[BudgetLimit],
        prices: Prices,
        store: Store,
        log_id: str,
        *,
        asks: bool,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.asks = asks
        """Whether there may be a person who can answer."""
        self.cost_of: Callable[[str, Usage, Rate], float | None] = prices.cost_usd
        self._limits = limits
        self._prices = prices
        self._store = store
        self._log_id = log_id
        self._now_s = now_s
        self._read_s = float("-inf")
        self._others: list[BudgetState] = []
        """What all other logs have spent."""
        self._own: list[float] = []
        """What the log had spent under each limit, without this run."""
        self._meter_usd: list[float] = []
        """What the meter of the run said when `_own` was read."""
        self._extended: dict[tuple[str, str, int], float] | None = None
        self._has_warned: set[str] = set()
        self._warnings: list[Event] = []

    def look(self, spent_usd: float = 0.0) -> BudgetState | None:
        """The first limit that is reached, when the run itself has spent this much.

        Raises StoreError when it is asked for the first time; later, what was read last counts.
        """
        now_s = self._now_s()
        if not 0 <= now_s - self._read_s < _REFRESHED_EVERY_S:
            try:
                self._read(spent_usd, now_s)
            except HarnessError:
                if not self._others:
                    raise
            self._read_s = now_s
        states = self._states(spent_usd)
        for state in states:
            if state.share >= NEAR and not state.is_reached and state.until_usd == state.limit.limit_usd:
                self._warn_near(state)
        return next((state for state in states if state.is_reached), None)

    def note_unpriced(self, models: Iterable[str]) -> None:
        """Of the models that the run has used: those without a price."""
        for model in models:
            if model not in self._has_warned:
                self._has_warned.add(model)
                self._warnings.append(unpriced_warning(model))

    def take_warnings(self) -> list[Event]:
        """Those that are new, each once in a run."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def refuse_if_reached(self) -> None:
        """Raises BudgetExceeded."""
        state = self.look()
        if state is not None:
            raise BudgetExceeded(state.words, hint=_how_to_raise(state.limit))

    def left_usd(self) -> float:
        """Until the first limit is reached."""
        self.look()
        return min((state.left_usd for state in self._states(0.0)), default=float("inf"))

    def extend(self, relay: Relay, more_usd: float) -> BudgetExtended:
        """The run may spend this much more; what is to be logged of it."""
        about = relay.payload[CATEGORY]
        key = (about["period"], about["project"], about["sinceMs"])
        until_usd = round(about["spentUsd"] + more_usd, 10)
        self._extensions()[key] = until_usd
        period, project, since_ms = key
        return BudgetExtended(
            period=period,
            project=project,
            limit_usd=about["limitUsd"],
            until_usd=until_usd,
            since_ms=since_ms,
        )

    def _read(self, spent_usd: float, now_s: float) -> None:
        charged = _charges_under(self._limits, self._store, self._prices, now_s)  # first: it may fail
        before, self._others = self._others, []
        for place, (limit, charges) in enumerate(zip(self._limits, charged, strict=True)):
            own = [charge for charge in charges if charge.session_id == self._log_id]
            others = [charge for charge in charges if charge.session_id != self._log_id]
            self._others.append(_state(limit, others, now_s))
            if not before:
                self._own.append(total(own).cost_usd or 0.0)
                self._meter_usd.append(spent_usd)
            elif before[place].since_ms != self._others[place].since_ms:  # another day
                self._own[place], self._meter_usd[place] = 0.0, spent_usd
        if not before:
            self._note_earlier_warnings(spent_usd)

    def _note_earlier_warnings(self, spent_usd: float) -> None:
        """An earlier run of the conversation has said it."""
        for state, own_usd in zip(self._states(spent_usd), self._own, strict=True):
            if own_usd and state.share >= NEAR:
                self._has_warned.add(state.limit.title)

    def _states(self, spent_usd: float) -> list[BudgetState]:
        return [
            self._with_extension(
                others._replace(spent_usd=others.spent_usd + own_usd + max(0.0, spent_usd - meter_usd))
            )
            for others, own_usd, meter_usd in zip(self._others, self._own, self._meter_usd, strict=True)
        ]

    def _with_extension(self, state: BudgetState) -> BudgetState:
        if not state.is_reached:
            return state
        allowed = self._extensions().get((state.limit.period, state.limit.project, state.since_ms), 0.0)
        return state._replace(until_usd=max(state.until_usd, allowed))

    def _extensions(self) -> dict[tuple[str, str, int], float]:
        """What people have allowed this conversation; read when a limit is first reached."""
        if self._extended is None:
            self._extended = {}
            try:
                for event in read_all(self._store, self._log_id):
                    if isinstance(event, BudgetExtended):
                        self._extended[event.period, event.project, event.since_ms] = event.until_usd
            except HarnessError:
                pass  # the log cannot be read: nothing more is allowed
        return self._extended

    def _warn_near(self, state: BudgetState) -> None:
        if state.limit.title not in self._has_warned:
            self._has_warned.add(state.limit.title)
            least = "" if state.is_complete else "at least "
            message = f"{least}{state.share:.0%} of {state.limit.words} are spent ({money(state.spent_usd)})"
            self._warnings.append(Warning(message=message, code="budget_near"))


def guard_of(cwd: str, store: Store, log_id: str, *, asks: bool) -> BudgetGuard | None:
    """For a run in this folder; None without limits. Raises BadConfig."""
    settings = config.load(cwd)
    limits = limits_in(settings, cwd)
    return BudgetGuard(limits, load_prices(settings), store, log_id, asks=asks) if limits else None


def question(state: BudgetState, relay_id: str, *, subagent: str = "", spawn_call_id: str = "") -> Relay:
    """What a person is asked when a limit is reached."""
    words = f"{state.words[0].upper()}{state.words[1:]}. Continue?"
    return Relay(
        id=relay_id,
        kind="question",
        question=words,
        options=[f"Continue for {money(state.more_usd)} more", STOP],
        category=CATEGORY,
        payload={
            CATEGORY: {
                "period": state.limit.period,
                "project": state.limit.project,
                "limitUsd": state.limit.limit_usd,
                "spentUsd": round(state.spent_usd, 10),
                "moreUsd": state.more_usd,
                "sinceMs": state.since_ms,
            }
        },
        subagent=subagent,
        spawn_call_id=spawn_call_id,
    )


def answer(relay: Relay, reply: RelayReply) -> float | None:
    """How much more may be spent; None: nothing. Raises UsageError for what is neither an amount nor a refusal."""
    text = _text_of(reply.answer).strip().lower()
    if not reply.approved or text in _NO:
        return None
    if text in _YES:
        return float(relay.payload[CATEGORY]["moreUsd"])
    match = _AMOUNT.search(text)
    amount_usd = float(match[1].replace(",", ".")) if match else 0.0
    if not amount_usd:
        raise UsageError(
            f"neither an amount nor a refusal: {text[:60]}", hint='it still waits; answer "$5" or "Stop"'
        )
    return amount_usd


def _text_of(answered: Any) -> str:
    """The answer of a form with one field, or the text itself."""
    if isinstance(answered, dict):
        answered = next(iter(answered.values()), "")
    if isinstance(answered, list):
        answered = next(iter(answered), "")
    return str(answered) if isinstance(answered, str | int | float) else ""


def _how_to_raise(limit: BudgetLimit) -> str:
    project = f" --project {limit.project}" if limit.project else ""
    return (
        f"`harness budget` shows what was spent, `harness budget set --{limit.period} USD{project}` sets another "
        "limit; in a terminal, or with --on-ask wait, a run asks instead"
    )
