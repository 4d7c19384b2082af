"""Which session is meant (`last`, a whole id, or the beginning of one), and the table that shows them.

A name only ever leads to a session of the store: an id is looked up in the folder's listing, and never made into a
path before it was found there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from harness.errors import StoreError, UnknownSession
from harness.log.ids import is_log_id, is_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.views.formatting.amounts import duration, money
from harness.views.formatting.columns import columns, cut
from harness.views.formatting.escapes import single_line

LAST = "last"
_LOG_SUFFIX = ".ndjson"
_BEGINNING = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SHORTEST = 8
_LONGEST_SHOWN = 60
_HEADINGS = ("ID", "STARTED", "AGENT", "OUTCOME", "TIME", "COST", "TASK")
_LONGEST_TASK = 60
_SHORTEST_TASK = 12


def all_ids(store: FileStore) -> list[str]:
    """The newest first; then those whose ids an application made, which say nothing of time."""
    try:
        entries = os.listdir(store.directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"cannot list {store.directory}: {error.strerror}") from error
    ids = (entry.removesuffix(_LOG_SUFFIX) for entry in entries if entry.endswith(_LOG_SUFFIX))
    return sorted(filter(is_log_id, ids), key=lambda log_id: (is_run_id(log_id), log_id), reverse=True)


def find(store: FileStore, text: str) -> str:
    """Raises UnknownSession when it is none, or not only one."""
    known = all_ids(store)
    wanted = text.strip()
    if wanted in known:
        return wanted
    if wanted.lower() == LAST and known:
        return known[0]
    found = _beginning_with(wanted, known) or _beginning_with(wanted.lower(), known)
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(found[:3]) + (" …" if len(found) > 3 else "")
        raise UnknownSession(
            f"{len(found)} sessions begin with {wanted}: {some}", hint="give more characters of the id"
        )
    hint = (
        "`harness sessions list` lists them"
        if known
        else f"`harness run` creates one; searched in {store.directory}"
    )
    if wanted.lower() == LAST:
        raise UnknownSession("there is no session yet", hint=hint)
    shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
    raise UnknownSession(f"unknown session: {shown!r}", hint=hint)


def _beginning_with(wanted: str, known: list[str]) -> list[str]:
    return [log_id for log_id in known if log_id.startswith(wanted)] if _BEGINNING.fullmatch(wanted) else []


def abbreviated(log_id: str, known: list[str]) -> str:
    """As short as it can be and still mean one session. `known`: as `all_ids` gives them."""
    position = known.index(log_id)
    neighbours = [*known[max(0, position - 1) : position], *known[position + 1 : position + 2]]
    length = _SHORTEST
    while any(other.startswith(log_id[:length].rstrip("-")) for other in neighbours):
        length += 1
    return log_id[:length].rstrip("-")


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
