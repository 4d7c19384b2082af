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


def interval(variant: VariantReport) -> str:
    return "–" if variant.low is None or variant.high is None else f"{variant.low:.0%}–{variant.high:.0%}"


def money(variant: VariantReport, amount_usd: float | None) -> str:
    """`≥`: of some attempts it is not known what they used, or what that costs."""
    return "–" if amount_usd is None else f"{'≥ ' if variant.unpriced else ''}{amount_usd:.4f}"


def score_names(variants: Sequence[VariantReport]) -> list[str]:
    """Of all scores that a variant has, in the order in which they appear."""
    return list(dict.fromkeys(name for variant in variants for name in variant.scores))


def score_text(variant: VariantReport, name: str) -> str:
    """0.62 [0.40, 0.84]."""
    score = variant.scores.get(name)
    if score is None:
        return "–"
    if score.low is None or score.high is None:
        return f"{score.mean:.3g}"
    return f"{score.mean:.3g} [{score.low:.3g}, {score.high:.3g}]"


def difference_text(comparison: Comparison) -> str:
    """+12.0 % [+3.0 %, +21.0 %]; where one task is all there is, no interval."""
    if comparison.tasks < 2:
        return f"{comparison.difference:+.1%}"
    return f"{comparison.difference:+.1%} [{comparison.low:+.1%}, {comparison.high:+.1%}]"


def notes_of(comparison: Comparison) -> Iterator[str]:
    """What must be known to read a comparison, a sentence each."""
    if comparison.tasks < 2:
        yield "one task says nothing about others: there is no interval"
    if comparison.comparisons > 1:
        yield f"corrected for {comparison.comparisons} comparisons (Holm): the interval has {comparison.confidence:.1%} confidence"
    if any(
        (
            comparison.trouble_a.crashed,
            comparison.trouble_b.crashed,
            comparison.trouble_a.errors,
            comparison.trouble_b.errors,
        )
    ):
        yield f"{_trouble_text(comparison.a, comparison.trouble_a)}; {_trouble_text(comparison.b, comparison.trouble_b)}"
    if comparison.tasks_needed:
        yield (
            f"a difference of {comparison.difference:+.1%} would be found in 80 % of fleets with about {comparison.tasks_needed} tasks"
        )
    if comparison.left_out:
        yield f"{counted(comparison.left_out, 'task')} not the same on both sides, or without a verdict: not counted"
    for name, score in comparison.scores.items():
        bounds = (
            f" [{score.low:+.3g}, {score.high:+.3g}]"
            if score.low is not None and score.high is not None
            else ""
        )
        yield f"{name}: {score.a:.3g} → {score.b:.3g}, {score.difference:+.3g}{bounds}"


def _trouble_text(title: str, trouble: SideTrouble) -> str:
    crashed, errors = counted(trouble.crashed, "crashed run"), counted(trouble.errors, "error")
    return f"{title}: {crashed}, not passed, and {errors}, not counted"
