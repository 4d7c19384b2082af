"""Numbers of a report and of a comparison as words: the same on a terminal and in HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.fleet.compare import Comparison, SideTrouble
from harness.fleet.report import VariantReport


def counted(count: int, noun: str) -> str:
    """1 task, 2 tasks."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def interval(one: VariantReport) -> str:
    return "–" if one.low is None or one.high is None else f"{one.low:.0%}–{one.high:.0%}"


def money(one: VariantReport, amount_usd: float | None) -> str:
    """`≥`: of some attempts it is not known what they used, or what that costs."""
    return "–" if amount_usd is None else f"{'≥ ' if one.unpriced else ''}{amount_usd:.4f}"


def score_names(variants: Sequence[VariantReport]) -> list[str]:
    """Of all scores that a variant has, in the order in which they appear."""
    return list(dict.fromkeys(name for one in variants for name in one.scores))


def score_text(one: VariantReport, name: str) -> str:
    """0.62 [0.40, 0.84]."""
    score = one.scores.get(name)
    if score is None:
        return "–"
    if score.low is None or score.high is None:
        return f"{score.mean:.3g}"
    return f"{score.mean:.3g} [{score.low:.3g}, {score.high:.3g}]"


def difference_text(one: Comparison) -> str:
    """+12.0 % [+3.0 %, +21.0 %]; where one task is all there is, no interval."""
    if one.tasks < 2:
        return f"{one.difference:+.1%}"
    return f"{one.difference:+.1%} [{one.low:+.1%}, {one.high:+.1%}]"


def notes_of(one: Comparison) -> Iterator[str]:
    """What must be known to read a comparison, a sentence each."""
    if one.tasks < 2:
        yield "one task says nothing about others: there is no interval"
    if one.comparisons > 1:
        yield f"corrected for {one.comparisons} comparisons (Holm): the interval has {one.confidence:.1%} confidence"
    if any((one.trouble_a.crashed, one.trouble_b.crashed, one.trouble_a.errors, one.trouble_b.errors)):
        yield f"{_trouble_text(one.a, one.trouble_a)}; {_trouble_text(one.b, one.trouble_b)}"
    if one.tasks_needed:
        yield (
            f"a difference of {one.difference:+.1%} would be found in 80 % of fleets with about {one.tasks_needed} tasks"
        )
    if one.left_out:
        yield f"{counted(one.left_out, 'task')} not the same on both sides, or without a verdict: not counted"
    for name, score in one.scores.items():
        bounds = (
            f" [{score.low:+.3g}, {score.high:+.3g}]"
            if score.low is not None and score.high is not None
            else ""
        )
        yield f"{name}: {score.a:.3g} → {score.b:.3g}, {score.difference:+.3g}{bounds}"


def _trouble_text(title: str, trouble: SideTrouble) -> str:
    crashed, errors = counted(trouble.crashed, "crashed run"), counted(trouble.errors, "error")
    return f"{title}: {crashed}, not passed, and {errors}, not counted"
