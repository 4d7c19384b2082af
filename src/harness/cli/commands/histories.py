"""What the agents on this machine have stored of their sessions themselves, and when they delete it.

Nothing of it is copied or changed. `harness sessions` lists and shows the sessions.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from harness.cli.console import Console
from harness.formatting.escapes import single_line

if TYPE_CHECKING:
    from harness.clients.sessions.histories import HistorySessions
    from harness.contracts.history import AgentHistory

SUMMARY = "what agents have stored of their sessions themselves"
_HEADINGS = ("AGENT", "SESSIONS", "SIZE", "OLDEST", "NEWEST", "DELETED", "LIVE", "PLACE")
_RIGHT = frozenset({"SESSIONS", "SIZE", "LIVE"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.cli.output import write_json, write_text
    from harness.cli.session_keep import keep_expiring, warn_of_expiring
    from harness.clients.sessions.histories import HistorySessions
    from harness.histories.registry import load_all

    settings = preferences.load(console, has_verbose=arguments.verbose)
    store = preferences.open_store(settings)
    histories = HistorySessions(say=console.warning)
    keep_expiring(histories, store, settings, console)
    data = [_about(history, histories) for history in load_all()]
    if arguments.json:
        write_json(data)
        return 0
    for agent, problem in histories.problems().items():
        console.warning(f"the sessions of {agent} cannot be listed: {problem}")
    rows = [entry for entry in data if entry["sessions"]]
    if not rows:
        console.say("no agent has stored a session here")
        return 0
    write_text(_table([_HEADINGS, *map(_row, rows)]))
    warn_of_expiring(histories, store, console)
    return 0


def _about(history: AgentHistory, histories: HistorySessions) -> dict[str, Any]:
    from harness.histories.catalogue_filter import SessionFilter

    sums = histories.sums(SessionFilter(agent=history.agent, with_deleted=False))
    days = history.deleted_after_days(histories.home) if history.deleted_after_days is not None else None
    live = [session_id for agent, session_id in histories.live() if agent == history.agent]
    return {
        "agent": history.agent,
        "sessions": sums.sessions - sums.sub_agents,
        "sub_agents": sums.sub_agents,
        "bytes": sums.size or _size_of_database(history, histories),
        "oldest_ms": sums.oldest_ms,
        "newest_ms": sums.newest_ms,
        "deleted_after_days": days,
        "live": live,
        "path": history.place(histories.home),
        "problem": (history.problem(histories.home) if history.problem is not None else "") or None,
    }


def _size_of_database(history: AgentHistory, histories: HistorySessions) -> int:
    """That of its files."""
    from harness.protocols.reading.store_files import look_at

    place = history.place(histories.home)
    parts = [look_at(f"{place}{suffix}") for suffix in ("", "-wal")]
    return sum(part.size for part in parts if part is not None)


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    days = entry["deleted_after_days"]
    return (
        entry["agent"],
        str(entry["sessions"]),
        _size(entry["bytes"]),
        _day(entry["oldest_ms"]),
        _day(entry["newest_ms"]),
        "never" if days is None else f"after {days} days",
        str(len(entry["live"])) if entry["live"] else "",
        single_line(entry["path"]),
    )


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "".join(
        "  ".join(
            cell.rjust(width) if heading in _RIGHT else cell.ljust(width)
            for cell, width, heading in zip(row, widths, _HEADINGS, strict=True)
        ).rstrip()
        + "\n"
        for row in rows
    )


def _size(count: int) -> str:
    for factor, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def _day(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at_ms / 1000))
