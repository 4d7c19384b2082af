"""Copies of what other programs have stored, before they delete it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.clients.sessions.histories import HistorySessions
    from harness.histories.catalogue_rows import CataloguedSession
    from harness.log.stores.files import FileStore

_DAY_MS = 86_400_000
WARNED_DAYS = 5
"""A session that its agent deletes within so many days is reported."""
_MOST_AT_ONCE = 20
"""Sessions that are copied without being asked for, by one command."""


def copy_expiring(
    histories: HistorySessions, store: FileStore, warn: Callable[[str], object]
) -> tuple[int, int]:
    """Copy some of what agents are about to delete: of how many, how many were copied."""
    expiring = expiring_sessions(histories, store)
    some = histories.read(expiring[:_MOST_AT_ONCE])
    return sum(copied(session, store, warn) == "copied" for session in some), len(expiring)


def expiring_sessions(histories: HistorySessions, store: FileStore) -> list[CataloguedSession]:
    """Those that their agent is about to delete, and of which there is no copy; the oldest first."""
    from harness.clients.sessions.histories import RecordedSessions
    from harness.clients.sessions.named_logs import find_named
    from harness.histories.catalogue_filter import SessionFilter
    from harness.histories.registry import load_all

    sessions: list[CataloguedSession] = []
    for history in load_all():
        days = None if history.deleted_after_days is None else history.deleted_after_days(histories.home)
        if days is None:
            continue
        before_ms = time.time_ns() // 1_000_000 - max(0, days - WARNED_DAYS) * _DAY_MS
        old = SessionFilter(agent=history.agent, with_deleted=False, changed_before_ms=before_ms)
        sessions += histories.sessions(old)
    if not sessions:
        return []
    ours = RecordedSessions.of(find_named(store))
    return [session for session in reversed(sessions) if session not in ours]


def copied(session: CataloguedSession, store: FileStore, warn: Callable[[str], object]) -> str:
    """Copy it: `copied`, `current` if there is one of the same, `empty`, or `failed`, which is warned of."""
    from harness.clients.sessions.histories import history_of
    from harness.errors import StoreError
    from harness.histories.session_copy import keep as keep_one

    try:
        return keep_one(history_of(session), session, store).status
    except (StoreError, OSError) as error:
        warn(f"{session.agent}:{session.session_id} cannot be copied: {error}")
        return "failed"
