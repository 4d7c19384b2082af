"""What the cases of a fleet share: the slots of each provider, and the budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from harness.fleet.attempt import Attempt

_GOOD_RUNS = 10
"""After so many runs without a rate limit a provider gets a slot back."""


class ProviderSlots:
    """How many runs of each provider may happen at once: half as many after a rate limit, then more again."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = dict(most)
        self.limits = dict(most)
        self._good: Counter[str] = Counter()

    def has_room(self, provider: str, running: Counter[str]) -> bool:
        return provider not in self.limits or running[provider] < self.limits[provider]

    def settle(self, provider: str, running: int, *, limited: bool) -> bool:
        """Take account of a run that has ended; `running`: how many there were. Whether the limit has changed."""
        if limited:
            self._good[provider] = 0
            before = self.limits.get(provider, running)
            self.limits[provider] = max(1, before // 2)
            return self.limits[provider] != before
        if provider not in self.limits or self.limits[provider] >= self._most.get(provider, running + 1):
            return False
        self._good[provider] += 1
        if self._good[provider] < _GOOD_RUNS:
            return False
        self._good[provider] = 0
        self.limits[provider] += 1
        return True


class FleetBudget:
    """What was spent, and what is reserved for the cases that run: a case starts only if all of it fits."""

    def __init__(self, budget_usd: float | None, run_cap_usd: float | None) -> None:
        self.budget_usd = budget_usd
        self._run_cap_usd = run_cap_usd
        self.spent_usd = 0.0
        self._costs: dict[str, list[float]] = {}
        """By variant."""

    def settle(self, variant: str, attempt: Attempt) -> None:
        if attempt.cost_usd is not None:
            self.spent_usd += attempt.cost_usd
            self._costs.setdefault(variant, []).append(attempt.cost_usd)

    def expected_usd(self, variant: str) -> float:
        """The mean of the variant, else of all, else what one run may cost, else nothing is known."""
        costs = self._costs.get(variant) or [cost for group in self._costs.values() for cost in group]
        return sum(costs) / len(costs) if costs else self._run_cap_usd or 0.0

    def allows(self, variant: str, running: Iterable[str]) -> bool:
        """Whether one more case of the variant fits beside those that run."""
        if self.budget_usd is None:
            return True
        reserved = sum(map(self.expected_usd, running))
        return self.spent_usd + reserved + self.expected_usd(variant) <= self.budget_usd
