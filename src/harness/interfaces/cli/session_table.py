"""Sessions as a table for people."""

from __future__ import annotations

import time
from collections.abc import Sequence

from harness.interfaces.cli.session_ids import abbreviated
from harness.log.store import Metadata
from harness.rendering.amounts import duration, money
from harness.rendering.columns import columns, cut
from harness.rendering.escapes import single_line

_HEADINGS = ("ID", "STARTED", "AGENT", "OUTCOME", "TIME", "COST", "TASK")
_LONGEST_TASK = 60
_SHORTEST_TASK = 12


def table(sessions: Sequence[Metadata], known: list[str], width: int = 0) -> str:
    """`known`: all ids there are, so that the shown ones are as short as they can be. `width`: of the screen."""
    rows = [_HEADINGS, *(_row(session, known) for session in sessions)]
    *widths, longest = [max(columns(row[position]) for row in rows) for position in range(len(_HEADINGS))]
    room = max(_SHORTEST_TASK, width - sum(widths) - 2 * len(widths)) if width else longest
    return "".join(_line((*row[:-1], cut(row[-1], room)), (*widths, min(room, longest))) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True))
    return "  ".join(cells).rstrip() + "\n"


def _row(session: Metadata, known: list[str]) -> tuple[str, ...]:
    task = session.name or session.prompt
    return (
        abbreviated(session.session_id, known),
        _when(session.start_time),
        single_line(session.agent_name or session.agent),
        single_line(session.outcome).replace("_", " "),
        "" if session.duration_ms is None else duration(session.duration_ms),
        "" if session.total_cost_usd is None else money(session.total_cost_usd),
        cut(single_line(task[:1000]), _LONGEST_TASK),
    )


def _when(start_time: str) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(float(start_time)))
    except (ValueError, OverflowError, OSError):
        return ""
