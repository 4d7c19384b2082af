"""Slots and budget of a fleet."""

from __future__ import annotations

from collections import Counter

from harness.fleet.engines.scheduler import FleetBudget, ProviderSlots
from harness.fleet.records.attempt import Attempt


def test_slots_halve_on_a_rate_limit_and_come_back_one_by_one() -> None:
    slots = ProviderSlots({"p": 8})
    assert slots.has_room("p", Counter(p=7))
    assert not slots.has_room("p", Counter(p=8))
    for expected in (4, 2, 1):
        assert slots.settle("p", 8, limited=True)
        assert slots.limits["p"] == expected
    assert not slots.settle("p", 1, limited=True)
    changes = [slots.settle("p", 1, limited=False) for _ in range(100)]
    assert slots.limits["p"] == 8
    assert changes.index(True) == 9
    assert sum(changes) == 7


def test_a_provider_without_a_limit_gets_one_when_it_refuses() -> None:
    slots = ProviderSlots({})
    assert slots.has_room("p", Counter(p=100))
    assert slots.settle("p", 10, limited=True)
    assert slots.limits["p"] == 5
    assert not slots.has_room("p", Counter(p=5))


def test_a_case_starts_only_if_it_fits_beside_those_that_run() -> None:
    budget = FleetBudget(1.0, 0.4)
    assert budget.allows("v", [])
    assert budget.allows("v", ["v"])
    assert not budget.allows("v", ["v", "v"])  # the cap of a run is reserved before anything is known
    budget.settle("v", Attempt(case="c", number=1, cost_usd=0.1))
    assert budget.allows("v", ["v"] * 8)
    assert not budget.allows("v", ["v"] * 9)


def test_the_estimate_is_that_of_the_variant() -> None:
    budget = FleetBudget(1.0, None)
    budget.settle("cheap", Attempt(case="c", number=1, cost_usd=0.01))
    budget.settle("dear", Attempt(case="d", number=1, cost_usd=0.8))
    assert budget.allows("cheap", [])
    assert not budget.allows("dear", [])
    budget.settle("free", Attempt(case="e", number=1))
    assert round(budget.spent_usd, 6) == 0.81
