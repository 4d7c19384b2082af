"""What a run costs whose agent does not say: computed from prices.

Such a cost is marked as computed, and given only if every token that was used has a known price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from harness import config
from harness.errors import BadConfig, UsageError
from harness.events import Event, Result, SessionStart, TextDelta, Usage, UsageDelta, Warning
from harness.events.usage import CLASSES
from harness.usage import prices
from harness.usage.budget_settings import money
from harness.usage.prices import USUAL, Rate, rate_of, states_run

CostOf: TypeAlias = Callable[[str, Usage, Rate], float | None]
"""A model, what was used of it, and at which rate → dollars; None where no price is known."""


def prices_of(directory: str, *, must_hold: bool = False) -> CostOf:
    """The prices of a directory's configuration, read when first needed; broken ones count as none.

    `must_hold`: something depends on them; they are read now. Raises BadConfig.
    """
    if must_hold:
        return prices.load(config.load(directory)).cost_usd
    costs: list[CostOf] = []

    def cost_of(model: str, usage: Usage, rate: Rate) -> float | None:
        if not costs:
            try:
                costs.append(prices.load(config.load(directory)).cost_usd)
            except BadConfig:
                costs.append(lambda _model, _usage, _rate: None)
        return costs[0](model, usage, rate)

    return cost_of


def has_price(cost_of: CostOf, model: str) -> bool:
    """Whether a limit of money can hold for the model."""
    return cost_of(model, Usage(input=1, output=1), USUAL) is not None


def cannot_hold(model: str, limit_usd: float) -> str:
    """Why a limit of a run is refused, and what to do."""
    return f"the model {model} has no price, so that the limit of {money(limit_usd)} cannot hold for it"


def how_to_price(model: str) -> str:
    return f'set its price (input, cache_read, output) in [prices."{model}"] of your settings, or leave the limit out'


def require_price(cost_of: CostOf, model: str, limit_usd: float) -> None:
    """Before the first call of a run with a limit of money. Raises UsageError."""
    if not has_price(cost_of, model):
        raise UsageError(cannot_hold(model, limit_usd), hint=how_to_price(model))


def unpriced_warning(model: str) -> Warning:
    subject = f"the model {model}" if model else "the model"
    message = f'{subject} has no price, so that no budget limits this run (set it in [prices."MODEL"])'
    return Warning(message=message, code="budget_unpriced")


_ROUNDING_USD = 1e-9


class CostMeter:
    """Call `note` with the events of a run and its children, before they are appended to the log."""

    def __init__(self, cost_of: CostOf, model: str) -> None:
        """`model`: which one was asked for, where the agent names none."""
        self._cost_of = cost_of
        self._models = {"": model}
        self._unstated: dict[tuple[str, Rate], Usage] = {}
        """By model and rate, what the agent states no cost of."""
        self._stated_usd: float | None = None
        self._is_run_stated = False
        """What it states is the cost of the whole run."""
        self.tokens: int = 0
        """So far, read and written."""

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            if type(event) is TextDelta:
                continue  # nearly all events of a long answer
            if isinstance(event, SessionStart):
                self._models[event.run_id] = event.model or self._models.get(event.run_id, "")
            elif isinstance(event, UsageDelta):
                self._note_usage(event)

    def _note_usage(self, event: UsageDelta) -> None:
        self.tokens += event.usage.all_tokens
        if event.usage.cost_usd is not None:
            self._stated_usd = (self._stated_usd or 0.0) + event.usage.cost_usd
            self._is_run_stated = self._is_run_stated or states_run(event.usage, event.id)
            return
        model = event.model or self._models.get(event.run_id) or self._models[""]
        key = model, rate_of(event)
        self._unstated[key] = self._unstated.get(key, Usage()).plus(event.usage)

    @property
    def spent_usd(self) -> float:
        """So far, at least: what has no price is not in it."""
        return (self._stated_usd or 0.0) + sum(cost or 0.0 for cost in self._computed.values())

    @property
    def unpriced(self) -> frozenset[str]:
        """Models that were used without a known price, where the agent states no cost."""
        return frozenset(model for (model, _rate), cost in self._computed.items() if cost is None)

    @property
    def _computed(self) -> dict[tuple[str, Rate], float | None]:
        if self._is_run_stated:
            return {}
        usages = ((key, usage) for key, usage in list(self._unstated.items()) if _is_any(usage))
        return {key: self._cost_of(key[0], usage, key[1]) for key, usage in usages}

    def priced(self, result: Result) -> Result:
        """The end of the run with what it cost, if the agent did not say; unchanged for what was free."""
        stated_usd = self._stated_usd or 0.0
        if result.usage is None or abs((result.total_cost_usd or 0.0) - stated_usd) > _ROUNDING_USD:
            return result  # it says more at the end
        if result.total_cost_usd is not None and self._stated_usd is None:
            return result
        costs = list(self._computed.values())
        amounts = [cost for cost in costs if cost is not None]
        if not any(amounts) or len(amounts) < len(costs):
            return result
        cost_usd = round(stated_usd + sum(amounts), 10)
        usage = replace(result.usage, cost_usd=cost_usd, cost_source="computed")
        return replace(result, total_cost_usd=cost_usd, usage=usage)


def _is_any(usage: Usage) -> bool:
    return any(getattr(usage, name) for name in CLASSES)
