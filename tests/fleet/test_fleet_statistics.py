"""Numbers that are known, and what they must not claim."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean

import pytest

from harness.fleet.statistics import (
    Interval,
    is_clear,
    mean_interval,
    pass_all,
    pass_at,
    rate_interval,
    sign_test,
    tasks_needed,
    wilson,
)


def test_wilsons_interval_has_known_values() -> None:
    assert [round(one, 3) for one in wilson(0.5, 10)] == [0.237, 0.763]
    assert [round(one, 3) for one in wilson(0.0, 10)] == [0.0, 0.278]
    assert wilson(0.3, 0) == Interval(0.0, 1.0)


@pytest.mark.parametrize(("runs", "passed", "k"), [(5, 2, 3), (6, 1, 2), (4, 4, 2), (4, 0, 3), (7, 3, 7)])
def test_pass_at_k_and_pass_all_k_count_every_choice(runs: int, passed: int, k: int) -> None:
    outcomes = [True] * passed + [False] * (runs - passed)
    choices = list(combinations(outcomes, k))
    assert pass_at(runs, passed, k) == pytest.approx(fmean(any(one) for one in choices))
    assert pass_all(runs, passed, k) == pytest.approx(fmean(all(one) for one in choices))


def test_an_interval_is_never_without_width_because_all_tasks_agree() -> None:
    for groups in ([[True]] * 3, [[False, False]] * 3, [[True]], [[False] * 4], [[True, False]] * 3):
        low, high = rate_interval(groups)
        assert high - low > 0.2
    assert rate_interval([[True, False, True, True]]) == wilson(0.75, 4)


def test_runs_of_one_task_do_not_count_as_many() -> None:
    few = rate_interval([[True], [False], [True], [False]])
    many = rate_interval([[True] * 50, [False] * 50, [True] * 50, [False] * 50])
    assert many == few


def test_the_bootstrap_is_the_same_each_time_and_about_right() -> None:
    values = [float(number % 2) for number in range(100)]
    low, high = mean_interval(values)
    assert (low, high) == mean_interval(values)
    assert (low, high) == (pytest.approx(0.4, abs=0.03), pytest.approx(0.6, abs=0.03))
    assert mean_interval([float(number % 2) for number in range(1000)]) == (
        pytest.approx(0.469, abs=0.002),
        pytest.approx(0.531, abs=0.002),
    )


def test_the_sign_test_has_known_values() -> None:
    assert (sign_test(0, 0), sign_test(3, 3)) == (1.0, 1.0)
    assert sign_test(3, 0) == 0.25
    assert round(sign_test(6, 0), 4) == 0.0312
    assert sign_test(9, 1) == sign_test(1, 9)
    assert 0 <= sign_test(1200, 1000) <= 1


def test_how_many_tasks_would_be_enough() -> None:
    assert tasks_needed(3, 0, 3) == 6
    assert tasks_needed(1, 1, 10) is None
    assert tasks_needed(0, 0, 10) is None
    needed = tasks_needed(6, 4, 20)
    assert needed is not None
    assert 20 < needed < 1000
    assert is_clear(sign_test(int(needed * 0.5 * 0.6), needed // 2 - int(needed * 0.5 * 0.6)))
