"""Fleets in the terminal: the list of them; of one, tasks × variants with one mark for each run, what runs now, the
money, and the numbers. It is read again every second while it is shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.strip import Strip

from harness.errors import HarnessError
from harness.fleet.report_text import CASE_SIGNS, comparison_text, elapsed, report_text
from harness.fleet.watching import CaseView, FleetSummary, FleetView
from harness.formatting.columns import columns, cut
from harness.formatting.escapes import single_line
from harness.tui.fleet_data import FleetSource
from harness.tui.lines import (
    LineView,
    StyledPiece,
    TextBlock,
    TextLine,
    aligned,
    fitted,
    length,
    rule,
    strip_of,
)
from harness.tui.screens import Pager

_LOOKS_EVERY_S = 1.0
_AGAIN_S = 5.0
_MOST_TASK, _MOST_VARIANT = 40, 24
STATES = {
    "planned": "not started",
    "running": "running",
    "stopping": "stopping",
    "completed": "done",
    "budget": "budget reached",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "broken": "cannot be read",
}
_MOVES = {"left": -1, "h": -1, "right": 1, "l": 1}
_JUMPS = {"down": 1, "j": 1, "up": -1, "k": -1}


class FleetPane(LineView):
    """Lines with one at the cursor, if any."""

    def __init__(self, styles: dict[str, Style]) -> None:
        super().__init__(styles, id="fleet-pane")
        self._lines: Sequence[TextLine] = ()
        self._cursor = -1

    def show(self, lines: Sequence[TextLine], cursor: int) -> None:
        self._lines, self._cursor = lines, cursor
        if cursor >= 0 and self.size.height:
            self.reveal(cursor, 1)
        self.redraw_changed()

    def count(self) -> int:
        return len(self._lines)

    def make(self, at: int, width: int) -> Strip:
        return strip_of(self._lines[at], width, self.palette)


class FleetScreen(Screen[str | None], inherit_bindings=False):
    """Its result is a session to open, or None."""

    DEFAULT_CSS = "FleetScreen #fleet-pane { height: 1fr; }"

    def __init__(self, source: FleetSource, styles: dict[str, Style]) -> None:
        super().__init__()
        self._source = source
        self._palette = styles
        self._list: Sequence[FleetSummary] | None = None
        self._view: FleetView | None = None
        self._fleet_name = ""
        """Of the fleet that is open; empty: the list is shown."""
        self._cursor = 0
        """A fleet of the list, or a case."""
        self._baseline = ""
        self._problem = ""
        self._message = ""
        self._again: tuple[str, float] = ("", 0.0)
        self._is_reading = False

    def compose(self) -> ComposeResult:
        yield TextBlock(self._palette, id="fleet-head")
        yield FleetPane(self._palette)
        yield TextBlock(self._palette, id="fleet-foot")

    def on_mount(self) -> None:
        self.query_one(FleetPane).focus()
        self.look()
        self.set_interval(_LOOKS_EVERY_S, self.look)

    def on_resize(self) -> None:
        self.draw()

    # What is there

    def look(self) -> None:
        """Read it again, unless that is being done."""
        if not self._is_reading:
            self._is_reading = True
            self.run_worker(self._look(), group="fleet")

    async def _look(self) -> None:
        name = self._fleet_name
        try:
            if name:
                view = await asyncio.to_thread(self._source.view, name)
                self._view = view if name == self._fleet_name else self._view
            else:
                self._list = await asyncio.to_thread(self._source.all)
            self._problem = ""
        except HarnessError as error:
            self._problem = error.words
        finally:
            self._is_reading = False
        if self._list is not None and len(self._list) == 1 and not name and not self._problem:
            self._open(self._list[0].name)
        elif name != self._fleet_name:
            self.look()
        self.draw()

    def _open(self, name: str) -> None:
        self._fleet_name, self._view, self._cursor, self._baseline = name, None, 0, ""
        self.look()

    @property
    def _case(self) -> CaseView | None:
        view = self._view
        return view.cases[self._cursor] if view and self._cursor < len(view.cases) else None

    # Keys

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self._message = ""
        key = event.key
        if key in ("escape", "q", "ctrl+c"):
            self._back()
        elif key == "enter":
            self._enter()
        elif key in _JUMPS or key in _MOVES or key in ("g", "home", "G", "end"):
            self._move(key)
        elif key == "equals_sign" and self._view is not None:
            self._compare()
        elif key in ("x", "X") and self._view is not None:
            self._stop(now=key == "X")
        self.draw()

    def _back(self) -> None:
        if self._fleet_name and self._list is not None and len(self._list) > 1:
            names = [fleet.name for fleet in self._list]
            self._cursor = names.index(self._fleet_name) if self._fleet_name in names else 0
            self._fleet_name, self._view, self._problem = "", None, ""
            self.look()
        else:
            self.dismiss(None)

    def _enter(self) -> None:
        if not self._fleet_name:
            if self._list:
                self._open(self._list[self._cursor].name)
            return
        case = self._case
        if case is None or not case.session:
            self._message = "it has no session yet"
        else:
            self.dismiss(case.session)

    def _move(self, key: str) -> None:
        view = self._view
        many = len(view.cases) if view else len(self._list or ())
        across = len(view.variants) * view.repeats if view else 1
        step = {"g": -many, "home": -many, "G": many, "end": many}.get(key)
        if step is None:
            step = _JUMPS[key] * across if key in _JUMPS else _MOVES[key] * (1 if view else 0)
        moved = self._cursor + step
        if key in _JUMPS and not 0 <= moved < many:
            return
        self._cursor = max(0, min(moved, many - 1))

    def _compare(self) -> None:
        view, case = self._view, self._case
        if view is None or case is None:
            return
        names = [variant.name for variant in view.variants]
        a, b = self._baseline, case.variant
        if len(names) == 2:
            a, b = names
        if len(names) < 2:
            self._message = "there is only one variant"
        elif not a or a == b:
            self._baseline = b
            self._message = f"{single_line(b)} is the baseline: = on another variant compares it"
        else:
            self._baseline = ""
            self.run_worker(self._show_comparison(view.summary.name, a, b), group="compare", exclusive=True)

    async def _show_comparison(self, name: str, a: str, b: str) -> None:
        try:
            comparison = await asyncio.to_thread(self._source.compare, name, a, b)
        except HarnessError as error:
            self._message = error.words
            self.draw()
            return
        lines: list[TextLine] = [[("bold", comparison.verdict)], ()]
        lines += [[("", text)] for text in comparison_text(comparison).split("\n")]
        lines += [
            [
                ("", f"{change.task}  "),
                ("dim", f"{change.a:.0%} → "),
                ("green" if change.b > change.a else "red", f"{change.b:.0%}"),
            ]
            for change in comparison.changed
        ]
        self.app.push_screen(Pager(f"{a} and {b}", lines, self._palette))

    def _stop(self, *, now: bool) -> None:
        what = "X" if now else "x"
        if self._again[0] != what or time.monotonic() > self._again[1]:
            self._again = what, time.monotonic() + _AGAIN_S
            how = "stops it at once" if now else "stops it after the cases that run"
            self._message = f"{what} again {how}"
            return
        self._again = "", 0.0
        self.run_worker(self._request_stop(self._fleet_name, now=now), group="stop", exclusive=True)

    async def _request_stop(self, name: str, *, now: bool) -> None:
        try:
            await asyncio.to_thread(lambda: self._source.stop(name, now=now))
        except HarnessError as error:
            self._message = error.words
        self.look()

    # Drawing

    def draw(self) -> None:
        width = self.size.width
        if not width or not self.is_mounted:
            return
        head: TextLine = [("bold", " Fleets")]
        lines: Sequence[TextLine] = ()
        cursor = -1
        if self._problem:
            lines = [(), [("red", f" {self._problem}")]]
        elif self._fleet_name and self._view is not None:
            head = summary_line(self._view.summary, is_narrow=width < 84)
            lines, cursor = fleet_lines(self._view, self._cursor, width)
        elif not self._fleet_name and self._list is not None:
            lines, cursor = list_lines(self._list, self._cursor, width)
        else:
            lines = [(), [("dim", " Reading …")]]
        back: TextLine = [("key", "esc"), ("dim", " back ")]
        self.query_one("#fleet-head", TextBlock).show([aligned(head, back, width), rule((), width)])
        self.query_one(FleetPane).show(lines, cursor)
        self.query_one("#fleet-foot", TextBlock).show([rule((), width), self._foot(width)])

    def _foot(self, width: int) -> TextLine:
        if self._message:
            return fitted([("yellow", f" {self._message}")], width)
        keys = _KEYS_OF_ONE if self._fleet_name else _KEYS_OF_LIST
        line: list[StyledPiece] = [("", " ")]
        for key, words in keys:
            if length([*line, ("", f"{key} {words}")]) < width:
                line += [("key", key), ("", f" {words}  ")]
        case = self._case
        room = width - length(line) - 1
        if case is not None and room > 20:
            return aligned(line, [("dim", cut(single_line(case_words(case)), room)), ("", " ")], width)
        return line


_KEYS_OF_LIST = (("j k", "move"), ("↵", "open"), ("esc", "back"))
_KEYS_OF_ONE = (("h j k l", "move"), ("↵", "conversation"), ("=", "compare"), ("x", "stop"))


def summary_line(summary: FleetSummary, *, is_narrow: bool = False) -> list[StyledPiece]:
    ended_count = summary.passed + summary.failed + summary.done + summary.errors
    money = f"{'' if summary.is_cost_complete else '≥'}${summary.cost_usd:.2f}"
    budget = f" of ${summary.budget_usd:.2f}" if summary.budget_usd is not None and not is_narrow else ""
    line: list[StyledPiece] = [
        ("bold", f" {single_line(summary.name)}"),
        ("", f"  {STATES[summary.state]} · {ended_count}/{summary.cases} · "),
    ]
    line += [("green", f"{summary.passed}✓ "), ("red" if summary.failed else "dim", f"{summary.failed}✗")]
    line += [("yellow", f" {summary.errors}!")] if summary.errors else []
    line.append(("", f" · {money}{budget}"))
    if summary.left_s is not None and summary.state in ("running", "stopping"):
        line.append(("dim", f" · {'~' if is_narrow else 'about '}{elapsed(summary.left_s)} left"))
    if summary.problem:
        line.append(("red", f" · {single_line(summary.problem)}"))
    return line


def list_lines(fleets: Sequence[FleetSummary], at: int, width: int) -> tuple[list[TextLine], int]:
    if not fleets:
        empty: list[TextLine] = [(), [("dim", " There are no fleets. Start one in a terminal:")], ()]
        return [*empty, [("", " harness fleet run tasks/ -a claude -a codex --repeats 5")]], -1
    lines: list[TextLine] = []
    for number, fleet in enumerate(fleets):
        lead: StyledPiece = ("bold", "▶") if number == at else ("", " ")
        if fleet.state == "broken":
            words: list[StyledPiece] = [
                ("bold", f" {single_line(fleet.name)}"),
                ("red", f"  {single_line(fleet.problem)}"),
            ]
        else:
            words = summary_line(fleet, is_narrow=width < 84)
        lines.append([lead, *words])
    return lines, at


def fleet_lines(view: FleetView, at: int, width: int) -> tuple[list[TextLine], int]:
    """The table, what runs, and the numbers; and the line that the cursor is on."""
    lines = _grid(view, at, width)
    across = max(len(view.variants) * view.repeats, 1)
    cursor = 1 + at // across if view.cases else -1
    running = [case for case in view.cases if case.state == "running"]
    if running:
        lines += [(), rule([("bold", f" Running {len(running)} ")], width)]
        now_ms = time.time_ns() // 1_000_000
        for case in running:
            for_s = "" if case.started_ms is None else f" {elapsed(max(0, now_ms - case.started_ms) / 1000)} "
            what: TextLine = [
                ("cyan", " … "),
                ("", _title(case, view.repeats)),
                ("dim", f"  {case.activity}"),
            ]
            lines.append(aligned(what, [("dim", for_s)], width))
    if any(case.runs for case in view.report):
        lines += [(), rule([("bold", " Report ")], width)]
        lines += [[("", f" {text}")] for text in report_text(view.report).rstrip("\n").split("\n")]
    return lines, cursor


def _grid(view: FleetView, at: int, width: int) -> list[TextLine]:
    """Tasks and variants, one mark for each repeat; the one at the cursor is marked."""
    names = [single_line(variant.name) for variant in view.variants]
    widths = [max(view.repeats, min(_MOST_VARIANT, columns(name))) for name in names]
    widest = max((columns(single_line(task)) for task in view.tasks), default=4)
    first = max(4, min(_MOST_TASK, widest, max(width - sum(widths) - 2 * len(widths) - 3, 8)))
    head = [cut(name, wide) for name, wide in zip(names, widths, strict=True)]
    padded = [text + " " * (wide - columns(text)) for text, wide in zip(head, widths, strict=True)]
    lines: list[TextLine] = [[("dim", f"  {'task'.ljust(first)}  {'  '.join(padded)}")]]
    across = len(view.variants) * view.repeats
    for row, task in enumerate(view.tasks):
        title = cut(single_line(task), first)
        is_here = across > 0 and row == at // across
        line: list[StyledPiece] = [("bold", "▶ ") if is_here else ("", "  ")]
        line.append(("bold" if is_here else "", title + " " * (first - columns(title))))
        for number, wide in enumerate(widths):
            line.append(("", "  "))
            begin = row * across + number * view.repeats
            for place in range(begin, begin + view.repeats):
                style, mark = CASE_SIGNS[view.cases[place].state]
                line.append(("cursor" if place == at else style, mark))
            line.append(("", " " * (wide - view.repeats)))
        lines.append(line)
    return lines


def case_words(case: CaseView) -> str:
    """What came of it."""
    if case.state == "running":
        return f"running: {case.activity}"
    parts = [
        case.state,
        case.fault.replace("_", " "),
        "" if case.cost_usd is None else f"${case.cost_usd:.4f}",
    ]
    parts.append("" if case.run_s is None else f"{case.run_s:.1f}s")
    parts.append(f"{case.attempts} attempts" if case.attempts > 1 else "")
    return " · ".join(filter(None, parts))


def _title(case: CaseView, repeats: int) -> str:
    run = f" · {case.repeat + 1}" if repeats > 1 else ""
    return f"{case.task} · {case.variant}{run}"
