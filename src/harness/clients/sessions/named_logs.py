"""What agents call the sessions that a log is about, also where only its events say it.

Conversations of earlier versions have the agents' own ids in their events alone. They are read once; what was found is
stored beside the index.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from harness.log.private_files import open_private
from harness.log.query import grep_events, is_active
from harness.log.store import Metadata, Query
from harness.log.stores.files import FileStore

_STORED_AS = "agent sessions 1"


def find_named(store: FileStore) -> list[Metadata]:
    """All logs of the store, each with the names of its agents' sessions."""
    logs = store.find(Query())
    name_sessions(store, logs)
    return logs


def name_sessions(store: FileStore, logs: Sequence[Metadata]) -> None:
    """Enter into these what agents call their sessions, where it is missing."""
    unnamed = [log for log in logs if log.kind == "thread" and not log.names_of_agents()]
    if not unnamed:
        return
    snapshots = store.snapshots(_STORED_AS)
    new: list[tuple[str, int, bytes]] = []
    for log in unnamed:
        snapshot = snapshots.get(log.session_id)
        if snapshot is not None:
            log.agent_sessions = msgspec.json.decode(snapshot, type=list[str])
        elif not is_active(log):  # what runs enters its own
            log.agent_sessions, seq = _read(store, log)
            new.append((log.session_id, seq, msgspec.json.encode(log.agent_sessions)))
    if new:
        store.save_snapshots(_STORED_AS, new)


def _read(store: FileStore, log: Metadata) -> tuple[list[str], int]:
    from harness.usage.ledger import WORDS, Account

    account = Account(runs=None)
    try:
        with os.fdopen(open_private(store.path(log.session_id), os.O_RDONLY), "rb", buffering=0) as file:
            account.feed(log, grep_events(file, WORDS))
    except OSError:
        return [], 0
    names = (
        f"{invocation.agent}:{invocation.session_id}"
        for invocation in account.invocations
        if invocation.agent and invocation.session_id not in (invocation.run_id, log.session_id)
    )
    return list(dict.fromkeys(names)), account.next_seq
