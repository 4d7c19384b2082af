"""Which session is meant (`last`, a whole id, or the beginning of one), and the table that shows them.

An id is looked up in the listing of the folder, and never used as a path before it was found there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from harness.errors import StoreError, UnknownSession
from harness.folds.inbox.row import InboxRow, state_words
from harness.formatting.amounts import duration, money
from harness.formatting.columns import columns, cut
from harness.formatting.escapes import single_line
from harness.log.ids import is_log_id, is_run_id
from harness.log.query import age
from harness.log.store import Metadata
from harness.log.stores.files import FileStore

LAST = "last"
MARK = "*"
"""Behind the agent of a session that the agent itself has stored."""
_LOG_SUFFIX = ".ndjson"
_BEGINNING = re.compile(r"[A-Za-z0-9_-]{1,128}")
_AGENT_AND_ID = re.compile(r"(?:[A-Za-z0-9_-]{1,64}:)?[A-Za-z0-9_-]{1,128}")
_SHORTEST = 8
_LONGEST_SHOWN = 60
_HEADINGS = ("ID", "STARTED", "AGENT", "STATE", "TIME", "COST", "TASK")
_LONGEST_TASK = 60
_SHORTEST_TASK = 12


def all_ids(store: FileStore) -> list[str]:
    """The newest first; then those with ids of an application, which have no time."""
    try:
        entries = os.listdir(store.directory)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"cannot list {store.directory}: {error.strerror}") from error
    ids = (entry.removesuffix(_LOG_SUFFIX) for entry in entries if entry.endswith(_LOG_SUFFIX))
    return in_order(filter(is_log_id, ids))


def find_ours(store: FileStore, text: str) -> str | None:
    """The session of the store that is meant; None if none is. Raises UnknownSession when it may be several."""
    ids = all_ids(store)
    wanted_id = text.strip()
    if wanted_id in ids:
        return wanted_id
    if wanted_id.lower() == LAST and ids:
        return ids[0]
    matches = _beginning_with(wanted_id, ids) or _beginning_with(wanted_id.lower(), ids)
    if len(matches) > 1:
        some = ", ".join(matches[:3]) + (" …" if len(matches) > 3 else "")
        raise UnknownSession(
            f"{len(matches)} sessions begin with {wanted_id}: {some}", hint="give more characters of the id"
        )
    return next(iter(matches), None)


def find(store: FileStore, text: str) -> str:
    """Raises UnknownSession when it is none, or not only one."""
    log_id = find_ours(store, text)
    if log_id is None:
        raise unknown(store, text)
    return log_id


def unknown(store: FileStore, text: str) -> UnknownSession:
    """The error for an unknown session, with a hint."""
    ids, wanted_id = all_ids(store), text.strip()
    hint = (
        "`harness sessions list` lists them"
        if ids
        else f"`harness run` creates one; searched in {store.directory}"
    )
    if wanted_id.lower() == LAST:
        return UnknownSession("there is no session yet", hint=hint)
    shown_text = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
    return UnknownSession(f"unknown session: {shown_text!r}", hint=hint)


def may_be_of_history(text: str) -> bool:
    """Whether a text may be `ID` or `AGENT:ID` of a session that an agent has stored: else none is looked for."""
    return _AGENT_AND_ID.fullmatch(text.strip()) is not None


def _beginning_with(beginning: str, ids: list[str]) -> list[str]:
    return (
        [log_id for log_id in ids if log_id.startswith(beginning)] if _BEGINNING.fullmatch(beginning) else []
    )


def abbreviated(log_id: str, ids: list[str]) -> str:
    """As short as it can be and still mean one session. `ids`: as `all_ids` gives them."""
    position = ids.index(log_id)
    neighbours = [*ids[max(0, position - 1) : position], *ids[position + 1 : position + 2]]
    length = _SHORTEST
    while any(other.startswith(log_id[:length].rstrip("-")) for other in neighbours):
        length += 1
    return log_id[:length].rstrip("-")


def in_order(ids: Iterable[str]) -> list[str]:
    """As `all_ids` gives them."""
    return sorted({*ids}, key=lambda log_id: (is_run_id(log_id), log_id), reverse=True)


def table(
    sessions: Sequence[Metadata],
    ids: list[str],
    width: int = 0,
    marked: Collection[str] = (),
    rows: Mapping[str, InboxRow] | None = None,
    partial: Collection[str] = (),
) -> str:
    """`ids`: all ids there are, so that the shown ones are as short as they can be. `width`: of the screen.
    `marked`: ids of sessions that are not stored by Harness. `rows`: what the others do, by id. `partial`: ids of sessions that cost more than is known.
    """
    inbox_rows = rows or {}
    lines = [
        _HEADINGS,
        *(
            _row(
                session,
                ids,
                inbox_rows.get(session.session_id),
                is_marked=session.session_id in marked,
                is_partial=session.session_id in partial,
            )
            for session in sessions
        ),
    ]
    *widths, longest = [max(columns(line[position]) for line in lines) for position in range(len(_HEADINGS))]
    room = max(_SHORTEST_TASK, width - sum(widths) - 2 * len(widths)) if width else longest
    return "".join(_line((*line[:-1], cut(line[-1], room)), (*widths, min(room, longest))) for line in lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True))
    return "  ".join(cells).rstrip() + "\n"


def _row(
    session: Metadata, ids: list[str], row: InboxRow | None, *, is_marked: bool, is_partial: bool
) -> tuple[str, ...]:
    started_ms, _ = age(session)
    cost_usd = session.total_cost_usd
    if cost_usd is None and row is not None:
        cost_usd, is_partial = (
            row.cost_usd,
            not row.is_cost_complete,
        )  # of a conversation: the sum of its runs
    task = session.name or session.prompt
    agent = session.agent_name or session.agent
    return (
        abbreviated(session.session_id, ids),
        _when(started_ms),
        single_line(f"{agent}{MARK}" if is_marked else agent),
        state_words(row) if row is not None else _state_of(session.outcome),
        "" if session.duration_ms is None else duration(session.duration_ms),
        "" if cost_usd is None else f"{'≥ ' if is_partial else ''}{money(cost_usd)}",
        cut(single_line(task[:1000]), _LONGEST_TASK),
    )


def _when(started_ms: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(started_ms // 1000)) if started_ms else ""
    except (ValueError, OverflowError, OSError):
        return ""  # a damaged file may state any number


def _state_of(outcome: str) -> str:
    """The state of a session that has no row: the same words."""
    return "succeeded" if outcome == "completed" else single_line(outcome).replace("_", " ")
