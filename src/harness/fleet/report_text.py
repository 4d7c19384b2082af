"""Cases, reports and comparisons of a fleet as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from harness.fleet.compare import Comparison
from harness.fleet.report import VariantReport
from harness.fleet.report_words import (
    counted,
    difference_text,
    interval,
    money,
    notes_of,
    percent,
    score_names,
    score_text,
)
from harness.formatting.columns import aligned
from harness.formatting.escapes import single_line

CASE_SIGNS = {
    "passed": ("green", "✓"),
    "failed": ("red", "✗"),
    "done": ("", "•"),
    "error": ("yellow", "!"),
    "running": ("cyan", "…"),
    "waiting": ("dim", "·"),
}
"""Style and sign of each state of a case."""
_MOST_PAIRS = 30


def elapsed(seconds: float) -> str:
    """42s, 2m 05s, 1h 02m."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


def report_text(variants: Sequence[VariantReport]) -> str:
    ks = sorted({k for variant in variants for k in variant.pass_at})[:2]
    names = score_names(variants)
    heads = ["variant", "runs", "pass rate", "95 %", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks)]
    heads += [single_line(name) for name in names]
    heads += ["solved", "crashed", "errors", "left", "$", "$/solved", "median s"]
    rows = [heads]
    for variant in variants:
        row = [single_line(variant.variant), str(variant.runs), percent(variant.pass_rate), interval(variant)]
        row += [percent(variant.pass_at.get(k)) for k in ks] + [percent(variant.pass_all.get(k)) for k in ks]
        row += [score_text(variant, name) for name in names]
        row += [
            f"{variant.solved}/{variant.tasks}",
            str(variant.crashed),
            str(variant.errors),
            str(variant.left),
        ]
        row += [money(variant, variant.cost_usd), money(variant, variant.cost_per_solved_usd)]
        row.append("–" if variant.median_s is None else f"{variant.median_s:.1f}")
        rows.append(row)
    return aligned(rows)


def comparison_text(comparison: Comparison) -> str:
    names = [single_line(name) for name in (comparison.a, comparison.b)]
    size = f"{difference_text(comparison)} over {counted(comparison.tasks, 'task')}"
    where = f"better on {comparison.better}, worse on {comparison.worse}, p = {comparison.p_value:.3f}"
    lines = [f"{names[1]} − {names[0]}: {size}; {where}: {single_line(comparison.verdict)}"]
    lines += [f"  {single_line(note)}" for note in notes_of(comparison)]
    return "\n".join(lines) + "\n"


def comparisons_text(comparisons: Sequence[Comparison]) -> str:
    """All of them; of very many, those that are clear."""
    rows = (
        comparisons
        if len(comparisons) <= _MOST_PAIRS
        else [comparison for comparison in comparisons if comparison.is_clear]
    )
    text = "".join(map(comparison_text, rows))
    if hidden := len(comparisons) - len(rows):
        text += f"{counted(hidden, 'pair')} without a clear winner; --json has all of them\n"
    return text
