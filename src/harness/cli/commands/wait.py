"""Wait until sessions need you, or end: for scripts.

Without ID: until the first of all sessions that run now, or are started meanwhile. With several: for `end` until all have
ended, else until the first. What happened is printed: id, state and title, separated by tabs.

Exit codes: 0 it ended well (with `--for needs-you`: it needs you), 1 it failed or its process died, 3 it needs you,
124 the time is over, 130 it was interrupted, 2 no such session, or nothing to wait for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.cli.console import Console
from harness.cli.output import write_json, write_text
from harness.cli.parser import completes, positive
from harness.clients.server_address import add_server
from harness.errors import UnknownSession, UsageError
from harness.formatting.escapes import single_line

if TYPE_CHECKING:
    from harness.clients.inbox.contract import Sessions
    from harness.folds.inbox.row import InboxRow

SUMMARY = "wait until sessions need you, or end"
_ENDED = ("succeeded", "failed", "interrupted", "lost", "idle")
_NEEDS_YOU, _TIMED_OUT = 3, 124
_CODES = {"succeeded": 0, "idle": 0, "failed": 1, "lost": 1, "interrupted": 130}
_LOOKS_EVERY_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ids = parser.add_argument("ids", metavar="ID", nargs="*", help="of a session, its beginning, or `last`")
    completes(ids, "sessions")
    help_text = "what to wait for: needs-you, end, or any of both (default)"
    choices = ("needs-you", "end", "any")
    parser.add_argument("--for", dest="event", choices=choices, default="any", help=help_text)
    help_text = "give up after so many seconds"
    parser.add_argument("--timeout", type=positive, default=None, metavar="SECONDS", help=help_text)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    add_server(parser)


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli.preferences import open_sessions

    with open_sessions(arguments, console) as inbox:
        ids = _meant(arguments.ids, inbox)
        session = _wait(inbox, ids, arguments.event, arguments.timeout)
    if not session:
        console.say(f"nothing happened within {arguments.timeout:g} s")
        return _TIMED_OUT
    _print(session, is_json=arguments.json)
    return max((_code(row, arguments.event) for row in session), default=0)


def _meant(ids: Sequence[str], inbox: Sessions) -> set[str]:
    """Empty: any. Raises UnknownSession, UsageError."""
    from harness.folds.inbox.row import NEEDS_YOU, WORKS

    rows = inbox.page(10_000).rows
    if not ids:
        if not any(row.state in NEEDS_YOU or row.state in WORKS for row in rows):
            raise UsageError("nothing runs and nothing waits", hint="name a session")
        return set()
    session_ids: set[str] = set()
    for text in ids:
        newest = max(rows, key=lambda row: row.started_ms, default=None)
        fitting = [row.id for row in rows if row.id.startswith(text)]
        if text == "last" and newest is not None:
            fitting = [newest.id]
        if len(fitting) != 1 and text not in fitting:
            problem = "unknown session" if not fitting else f"{len(fitting)} sessions begin with"
            raise UnknownSession(f"{problem}: {text!r}", hint="`harness sessions list` lists them")
        session_ids.add(text if text in fitting else fitting[0])
    return session_ids


def _wait(inbox: Sessions, ids: set[str], event: str, timeout_s: float | None) -> list[InboxRow]:
    """The rows that were waited for; none: the time is over."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    before = {row.id for row in inbox.page(10_000).rows if row.state in _ENDED}
    version = 0
    while True:
        rows = inbox.page(10_000).rows
        if ids:
            rows = tuple(row for row in rows if row.id in ids)
        else:
            before &= {row.id for row in rows if row.state in _ENDED}  # what runs again counts again
            rows = tuple(row for row in rows if row.id not in before)
        fitting = [row for row in rows if _fits(row, event)]
        if fitting and (event != "end" or not ids or len(fitting) == len(ids)):
            return fitting
        rest_s = _LOOKS_EVERY_S if deadline_s is None else min(_LOOKS_EVERY_S, deadline_s - time.monotonic())
        if rest_s <= 0:
            return []
        version = inbox.wait(version, rest_s)


def _fits(row: InboxRow, event: str) -> bool:
    from harness.folds.inbox.row import NEEDS_YOU

    has_ended = row.state in _ENDED
    if event == "needs-you":
        return row.state in NEEDS_YOU or has_ended
    return has_ended or (event == "any" and row.state in NEEDS_YOU)


def _code(row: InboxRow, event: str) -> int:
    if event == "needs-you":
        return 1 if row.state in _ENDED else 0
    return _CODES.get(row.state, _NEEDS_YOU)


def _print(rows: Sequence[InboxRow], *, is_json: bool) -> None:
    if is_json:
        write_json([msgspec.to_builtins(row) for row in rows])
    else:
        write_text("".join(f"{row.id}\t{row.state}\t{single_line(row.title)}\n" for row in rows))
