"""Numbers that are known, and what they must not claim."""

from __future__ import annotations

from itertools import combinations
from statistics import fmean

import pytest

from harness.fleet.statistics import (
    LEVEL,
    Difference,
    Interval,
    corrected,
    mean_interval,
    pass_all,
    pass_at,
    rate_difference,
    rate_interval,
    value_difference,
    wilson,
)
from harness.fleet.student import quantile, two_sided


def test_students_t_has_known_values() -> None:
    known = {(0.05, 1): 12.706205, (0.05, 4): 2.776445, (0.05, 30): 2.042272, (0.01, 9): 3.249836}
    for (chance, df), value in known.items():
        assert quantile(chance, df) == pytest.approx(value, abs=1e-6)
        assert two_sided(value, df) == pytest.approx(chance, abs=1e-7)
    assert quantile(0.05, 1e7) == pytest.approx(1.959964, abs=1e-5)
    assert two_sided(0.0, 3) == 1.0


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
    same = rate_difference([[True, False] * 2] * 12, [[True] * 3 + [False]] * 12).interval()
    assert 0 < same.low < 0.25 < same.high < 0.6


def test_runs_of_one_task_do_not_count_as_many() -> None:
    few = rate_interval([[True], [False], [True], [False]])
    many = rate_interval([[True] * 50, [False] * 50, [True] * 50, [False] * 50])
    assert many == few


def test_the_interval_says_what_the_test_says() -> None:
    for mean in (-0.3, -0.1, 0.001, 0.05, 0.2, 0.4):
        for deviation in (0.01, 0.2, 0.5):
            for tasks in (2, 3, 5, 40):
                found = Difference(mean, deviation, tasks)
                low, high = found.interval()
                assert (low > 0 or high < 0) == (found.p_value < LEVEL)
                assert low < mean < high


def test_one_task_and_no_difference_say_nothing() -> None:
    assert rate_difference([[False] * 9], [[True] * 9]).p_value == 1.0
    assert (
        value_difference([[1.1], [1.2]], [[1.3], [1.4]]).p_value == 1.0
    )  # the same on each task, to the last digit
    assert (mean_interval([[0.5]]), mean_interval([[5.0], [5.0]])) == (None, None)
    a = [[True, False] * 5] * 10 + [[True] * 10]
    b = [[True] * 6 + [False] * 4] * 10 + [[False] * 10]
    zero = rate_difference(a, b)  # better on ten tasks, worse on one, and on the whole the same
    assert (zero.mean, str(zero.mean), zero.p_value, zero.tasks_needed()) == (0.0, "0.0", 1.0, None)


def test_a_score_between_0_and_1_has_the_interval_of_passes() -> None:
    passes = [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    assert mean_interval(passes) == rate_interval(passes)
    low, high = mean_interval([[0.5], [0.5]]) or (0.0, 0.0)  # two tasks that happen to be alike say little
    assert 0 < low < 0.1 < 0.9 < high < 1
    thirds = [[0.1 + 0.2], [0.3], [0.3]]
    assert mean_interval(thirds) == pytest.approx(mean_interval([[0.3]] * 3))  # alike but for the last digit
    wide = value_difference([[0.5], [0.5]], [[0.6], [0.6]])
    assert wide.deviation > 0.1  # two tasks that differ by as much are no proof that all do


def test_holms_correction_has_known_values() -> None:
    p_values = [0.01, 0.04, 0.03, 0.005]
    assert [round(one.p_value, 3) for one in corrected(p_values)] == [0.03, 0.06, 0.06, 0.02]
    assert corrected([0.04])[0] == (0.04, LEVEL)
    for p_value, one in zip(p_values, corrected(p_values), strict=True):
        assert (p_value < one.level) == (one.p_value < LEVEL)  # so interval and verdict agree


def test_how_many_tasks_would_find_a_difference() -> None:
    needed = Difference(0.1, 0.3, 10).tasks_needed()
    assert needed == 73  # (1.99 + 0.85)² · 9
    assert Difference(0.01, 0.3, 10).tasks_needed() is None  # p = 0.92: nothing is known about it
    assert Difference(0.0, 0.3, 10).tasks_needed() is None


def test_one_of_several_comparisons_needs_more_tasks() -> None:
    found = Difference(0.1, 0.3, 10)  # p = 0.32
    (alone,), (first, *_others) = corrected([0.02]), corrected([0.02, 0.6, 0.7, 0.8, 0.9, 0.95])
    assert found.tasks_needed(alone) == found.tasks_needed() == 73
    assert found.tasks_needed(first) == 113  # (2.69 + 0.85)² · 9: of 0.05 there is a sixth for each of six
    assert found.tasks_needed(first._replace(p_value=0.6)) is None
