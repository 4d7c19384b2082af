"""`harness resume --due`: conversations whose window should be open again are continued, one after the other."""

from __future__ import annotations

import threading
import time

from harness.cli.console import Console
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.backend_thread import BackendThread
from harness.clients.inbox.listing import known_prices, rows_of
from harness.clients.sessions.ids import all_ids
from harness.contracts.request import OWN_AGENT
from harness.errors import HarnessError
from harness.folds.inbox.row import InboxRow
from harness.formatting.escapes import single_line
from harness.log.stores.files import FileStore

_POLL_S = 0.2


def continue_due(store: FileStore, console: Console) -> int:
    """Each is waited for. What another process has, or does not want to be continued, is left alone."""
    due = [row for row in rows_of(store, known_prices(), all_ids(store)).values() if _is_due(row)]
    changed = threading.Event()
    code = 0
    for row in due:
        backend = BackendThread(store, Setup(agent=row.agent_name or OWN_AGENT), lambda _id: changed.set())
        try:
            code = max(code, _continue(backend, row, changed, console))
        finally:
            backend.close()
    if not due:
        console.say("no session waits for a window that is open again")
    return code


def _continue(backend: BackendThread, row: InboxRow, changed: threading.Event, console: Console) -> int:
    name = f"{row.id[:8]} {single_line(row.title)[:60]}".rstrip()
    try:
        backend.load(row.id)
    except HarnessError as error:
        console.warning(f"{name}: {error.words}")
        return 1
    hub = backend.hub(row.id)
    if hub is None or not backend.is_busy(row.id):
        console.say(f"{name}: is not to be continued by itself any more (see limits.at_limit)")
        return 0
    console.say(f"{name}: continues")
    while backend.is_busy(row.id) and not backend.status(row.id).is_running:
        _pause(changed)
    while backend.status(row.id).is_running:  # what it waits for after that is the next timer's
        _pause(changed)
    return 0


def _pause(changed: threading.Event) -> None:
    changed.wait(_POLL_S)
    changed.clear()


def _is_due(row: InboxRow) -> bool:
    at_ms = row.limit.continues_at_ms if row.limit is not None else None
    return row.state == "parked" and not row.is_live and at_ms is not None and at_ms <= time.time() * 1000
