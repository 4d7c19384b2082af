"""Cases, reports and comparisons of a fleet as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from harness.fleet.compare import Comparison
from harness.fleet.html_report import interval, percent
from harness.fleet.report import VariantReport
from harness.views.formatting.columns import aligned
from harness.views.formatting.escapes import single_line

CASE_SIGNS = {
    "passed": ("green", "✓"),
    "failed": ("red", "✗"),
    "done": ("", "•"),
    "error": ("yellow", "!"),
    "running": ("cyan", "…"),
    "waiting": ("dim", "·"),
}
"""Style and sign of each state of a case."""


def elapsed(seconds: float) -> str:
    """42s, 2m 05s, 1h 02m."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


def report_text(variants: Sequence[VariantReport]) -> str:
    ks = sorted({k for one in variants for k in one.pass_at})[:2]
    heads = ["variant", "runs", "pass rate", "95 %", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks)]
    heads += ["solved", "errors", "left", "$", "$/solved", "median s"]
    rows = [heads]
    for one in variants:
        row = [single_line(one.variant), str(one.runs), percent(one.pass_rate), interval(one)]
        row += [percent(one.pass_at.get(k)) for k in ks] + [percent(one.pass_all.get(k)) for k in ks]
        row += [f"{one.solved}/{one.tasks}", str(one.errors), str(one.left), f"{one.cost_usd:.4f}"]
        row.append("–" if one.cost_per_solved_usd is None else f"{one.cost_per_solved_usd:.4f}")
        row.append("–" if one.median_s is None else f"{one.median_s:.1f}")
        rows.append(row)
    return aligned(rows)


def comparison_text(one: Comparison) -> str:
    names = [single_line(name) for name in (one.a, one.b)]
    size = f"{one.difference:+.1%} [{one.low:+.1%}, {one.high:+.1%}] over {one.tasks} tasks"
    where = f"better on {one.better}, worse on {one.worse}, sign test p = {one.p_value:.3f}"
    lines = [f"{names[1]} − {names[0]}: {size}; {where}: {single_line(one.verdict)}"]
    if one.tasks_needed:
        lines.append(f"  about {one.tasks_needed} tasks would be enough to make this difference clear")
    if one.left_out:
        lines.append(
            f"  {one.left_out} tasks are not the same on both sides, or have no verdict, and do not count"
        )
    return "\n".join(lines) + "\n"
