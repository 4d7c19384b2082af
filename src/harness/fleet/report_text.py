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
    ks = sorted({k for one in variants for k in one.pass_at})[:2]
    names = score_names(variants)
    heads = ["variant", "runs", "pass rate", "95 %", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks)]
    heads += [single_line(name) for name in names]
    heads += ["solved", "crashed", "errors", "left", "$", "$/solved", "median s"]
    rows = [heads]
    for one in variants:
        row = [single_line(one.variant), str(one.runs), percent(one.pass_rate), interval(one)]
        row += [percent(one.pass_at.get(k)) for k in ks] + [percent(one.pass_all.get(k)) for k in ks]
        row += [score_text(one, name) for name in names]
        row += [f"{one.solved}/{one.tasks}", str(one.crashed), str(one.errors), str(one.left)]
        row += [money(one, one.cost_usd), money(one, one.cost_per_solved_usd)]
        row.append("–" if one.median_s is None else f"{one.median_s:.1f}")
        rows.append(row)
    return aligned(rows)


def comparison_text(one: Comparison) -> str:
    names = [single_line(name) for name in (one.a, one.b)]
    size = f"{difference_text(one)} over {counted(one.tasks, 'task')}"
    where = f"better on {one.better}, worse on {one.worse}, p = {one.p_value:.3f}"
    lines = [f"{names[1]} − {names[0]}: {size}; {where}: {single_line(one.verdict)}"]
    lines += [f"  {single_line(note)}" for note in notes_of(one)]
    return "\n".join(lines) + "\n"


def comparisons_text(comparisons: Sequence[Comparison]) -> str:
    """All of them; of very many, those that are clear."""
    shown = comparisons if len(comparisons) <= _MOST_PAIRS else [one for one in comparisons if one.is_clear]
    text = "".join(map(comparison_text, shown))
    if hidden := len(comparisons) - len(shown):
        text += f"{counted(hidden, 'pair')} without a clear winner; --json has all of them\n"
    return text
