"""A report as one HTML file: tables, and plots as inline SVG. It loads nothing, runs nothing, and all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from harness.fleet.compare import Comparison
from harness.fleet.overview import CaseOverview
from harness.fleet.records.attempt import Attempt
from harness.fleet.report import FleetReport, VariantReport
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

_MARKS = {"passed": "✓", "failed": "✗", "done": "•", "error": "!", "running": "…", "waiting": "·"}
_COLORS = ("#3b6fb6", "#c7662b", "#4a8f4a", "#8a5aa8", "#b03a48", "#5b6770")
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 100rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: 13.5px; } th, td { padding: .25rem .5rem; text-align: left; border-bottom: 1px solid var(--line); }
td { white-space: nowrap; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 6rem; } ul { margin: .2rem 0 .8rem; }
.dim { color: var(--dim); } .passed { color: #2e7d32; } .failed { color: #c62828; } .error { color: #b26a00; }
.scroll { overflow-x: auto; } details { margin: .3rem 0; } summary { cursor: pointer; }
pre { background: #8881; padding: .6rem; overflow-x: auto; font-size: 12.5px; max-height: 30rem; }
svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
.add { color: #2e7d32; } .del { color: #c62828; }
"""
_LONGEST_DIFF = 200_000
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html_report(
    report: FleetReport,
    cases: Sequence[CaseOverview],
    comparisons: Sequence[Comparison],
    diffs: dict[str, str],
) -> str:
    """`diffs`: the patch of each case."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>{escape(report.name)}: fleet</title><style>{_STYLE}</style>",
        f"<h1>{escape(report.name)}</h1><p class=dim>{_subtitle(report)}</p>",
        "<h2>Variants</h2><div class=scroll>",
        _variants_table(report),
        "</div><h2>Pass rate</h2>",
        _rate_plot(report.variants),
        "<h2>Pass rate and cost per run</h2>",
        _cost_plot(report.variants),
    ]
    if comparisons:
        parts += ["<h2>Comparison</h2>", *map(_comparison, comparisons)]
    parts += ["<h2>Tasks</h2><div class=scroll>", _task_table(cases), "</div>"]
    parts += ["<h2>Cases</h2>", *(_case(case, diffs.get(case.case.id, "")) for case in cases), "</html>\n"]
    return "\n".join(parts)


def _subtitle(report: FleetReport) -> str:
    budget = f" of ${report.budget_usd:g}" if report.budget_usd else ""
    runs = sum(variant.runs for variant in report.variants)
    return (
        f"{report.tasks} tasks × {len(report.variants)} variants × {report.repeats}; {runs} runs; "
        f"${report.cost_usd:.4f}{budget}. Intervals: 95 %, over tasks. Crashed: the agent ended with an error of its own, "
        "which is not passed. Errors: something else failed, and the case is in no rate. $/solved: for each run that passed."
    )


def _variants_table(report: FleetReport) -> str:
    ks = sorted({k for variant in report.variants for k in variant.pass_at})
    names = score_names(report.variants)
    heads = ["variant", "runs", "pass rate", "95 %", *(f"pass@{k}" for k in ks), *(f"pass^{k}" for k in ks)]
    heads += [escape(name) for name in names]
    heads += ["solved", "crashed", "errors", "left", "$", "$/solved", "median s"]
    heads += ["tokens in", "cached", "tokens out"]
    rows = []
    for variant in report.variants:
        usage = variant.usage
        row = [escape(variant.variant), str(variant.runs), percent(variant.pass_rate), interval(variant)]
        row += [percent(variant.pass_at.get(k)) for k in ks] + [percent(variant.pass_all.get(k)) for k in ks]
        row += [score_text(variant, name) for name in names]
        row += [
            f"{variant.solved}/{variant.tasks}",
            str(variant.crashed),
            str(variant.errors),
            str(variant.left),
        ]
        row += [
            money(variant, variant.cost_usd),
            money(variant, variant.cost_per_solved_usd),
            _number(variant.median_s, 1),
        ]
        row += [_count(usage.input), _count(usage.cache_read), _count(_sum(usage.output, usage.reasoning))]
        rows.append(row)
    return _table(heads, rows)


def _rate_plot(variants: Sequence[VariantReport]) -> str:
    """One line for each variant: the rate, and its interval."""
    x0, width, step = 180, 480, 30
    height = step * len(variants) + 30
    drawn = [
        f"<line x1={x0 + width * tick / 4} y1=0 x2={x0 + width * tick / 4} y2={height - 25} stroke='#8884'/>"
        f"<text x={x0 + width * tick / 4} y={height - 8} text-anchor=middle>{tick * 25} %</text>"
        for tick in range(5)
    ]
    for number, variant in enumerate(variants):
        y = step * number + 16
        drawn.append(f"<text x={x0 - 10} y={y + 4} text-anchor=end>{escape(_short(variant.variant))}</text>")
        if variant.pass_rate is None or variant.low is None or variant.high is None:
            continue
        color = _COLORS[number % len(_COLORS)]
        x, low, high = (
            x0 + width * value for value in (variant.pass_rate, max(0, variant.low), min(1, variant.high))
        )
        drawn.append(
            f"<line x1={low:.1f} y1={y} x2={high:.1f} y2={y} stroke='{color}' stroke-width=3 opacity=.5 />"
        )
        drawn.append(
            f"<circle cx={x:.1f} cy={y} r=6 fill='{color}'><title>{percent(variant.pass_rate)}</title></circle>"
        )
    return _svg(x0 + width + 40, height, drawn)


def _cost_plot(variants: Sequence[VariantReport]) -> str:
    plotted = [variant for variant in variants if variant.pass_rate is not None and variant.runs]
    dearest = max((variant.cost_usd / variant.runs for variant in plotted), default=0.0)
    if not dearest:
        return "<p class=dim>No cost is known.</p>"
    x0, width, height = 60, 560, 260
    drawn = [
        f"<line x1={x0} y1={height - 40} x2={x0 + width} y2={height - 40} stroke='#888'/>",
        f"<line x1={x0} y1=10 x2={x0} y2={height - 40} stroke='#888'/>",
        f"<text x={x0} y={height - 20}>$0</text>",
        f"<text x={x0 + width} y={height - 20} text-anchor=end>${dearest:.4f} per run</text>",
        f"<text x={x0 - 8} y=18 text-anchor=end>100 %</text>",
        f"<text x={x0 - 8} y={height - 40} text-anchor=end>0 %</text>",
    ]
    for number, variant in enumerate(variants):
        if variant not in plotted:
            continue
        x = x0 + width * (variant.cost_usd / variant.runs) / dearest
        y = height - 40 - (height - 55) * (variant.pass_rate or 0.0)
        color, anchor = _COLORS[number % len(_COLORS)], "end" if x > x0 + width / 2 else "start"
        drawn.append(f"<circle cx={x:.1f} cy={y:.1f} r=7 fill='{color}'/>")
        label_x = x + (-11 if anchor == "end" else 11)
        drawn.append(
            f"<text x={label_x:.1f} y={y + 4:.1f} text-anchor={anchor}>{escape(_short(variant.variant))}</text>"
        )
    return _svg(x0 + width + 20, height, drawn)


def _comparison(comparison: Comparison) -> str:
    text = (
        f"<p><b>{escape(comparison.verdict)}</b>: {escape(comparison.b)} − {escape(comparison.a)} = {difference_text(comparison)} "
        f"over {counted(comparison.tasks, 'task')}; better on {comparison.better}, worse on {comparison.worse}, p = {comparison.p_value:.3f}.</p>"
    )
    if notes := "".join(f"<li>{escape(note)}</li>" for note in notes_of(comparison)):
        text += f"<ul class=dim>{notes}</ul>"
    if not comparison.changed:
        return text
    rows = [[escape(task.task), percent(task.a), percent(task.b)] for task in comparison.changed]
    return text + _table(["task", escape(comparison.a), escape(comparison.b)], rows)


def _task_table(cases: Sequence[CaseOverview]) -> str:
    variants = list(dict.fromkeys(case.case.variant.name for case in cases))
    cells: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        mark = f"<a href='#{case.case.id}' class={case.state}>{_MARKS[case.state]}</a>"
        cells.setdefault((case.case.task.id, case.case.variant.name), []).append(mark)
    rows = [
        [escape(task), *(" ".join(cells.get((task, variant), ())) for variant in variants)]
        for task in dict.fromkeys(case.case.task.id for case in cases)
    ]
    return _table(["task", *map(escape, variants)], rows, numeric=False)


def _case(case: CaseOverview, diff: str) -> str:
    result = case.result
    cost, seconds = f"${case.cost_usd:.4f}", f"{result.run_s:.1f} s" if result else ""
    title = f"<span class={case.state}>{_MARKS[case.state]}</span> {escape(case.case.title)}"
    cost = cost if case.is_cost_complete else f"≥ {cost}"
    scored = ", ".join(f"{name} {value:g}" for name, value in result.score.items()) if result else ""
    ending = "the agent crashed" if result and result.crashed else result.outcome if result else ""
    about = " · ".join(filter(None, (case.state, ending, scored, seconds, cost)))
    inner = [f"<p class=dim>session {escape(case.log_id)} · case {case.case.id}</p>"]
    inner += [_fault(fault) for fault in case.faults]
    if result is not None and result.detail:
        inner.append(f"<pre class=error>{escape(result.detail)}</pre>")
    if result is not None and result.check_output.strip():
        inner.append(f"<p>Check (exit code {result.check_exit}):</p><pre>{escape(result.check_output)}</pre>")
    if diff:
        inner.append(f"<p>Changes:</p><pre>{_colored(diff[:_LONGEST_DIFF])}</pre>")
    return f"<details id='{case.case.id}'><summary>{title} <span class=dim>{escape(about)}</span></summary>{''.join(inner)}</details>"


def _fault(fault: Attempt) -> str:
    detail = f"<pre>{escape(fault.detail)}</pre>" if fault.detail else ""
    return f"<p class=error>attempt {fault.number}: {escape(fault.fault)}</p>{detail}"


def _colored(diff: str) -> str:
    kinds = {"+": "add", "-": "del"}
    return "\n".join(
        f"<span class={kinds[line[0]]}>{escape(line)}</span>" if line[:1] in kinds else escape(line)
        for line in diff.split("\n")
    )


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], *, numeric: bool = True) -> str:
    kind = " class=n" if numeric else ""
    head = "".join(f"<th{kind if number else ''}>{text}</th>" for number, text in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind if number else ''}>{text}</td>" for number, text in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _svg(width: float, height: float, drawn: Iterable[str]) -> str:
    return (
        f"<svg width={width} height={height} viewBox='0 0 {width} {height}' role=img>{''.join(drawn)}</svg>"
    )


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)


def _short(text: str) -> str:
    return text if len(text) <= 26 else f"{text[:25]}…"
