"""Copies of stored sessions in the store of Harness, so that they outlive what the agent deletes.

Beside the log lie the raw entries of each run, from which `harness sessions check` proves it, and `<id>.store`: the
records of the agent's store as they were, one for each line. Secrets are masked in all of them. The id of the copy
follows from the agent, its id of the session and the time of its start, so a session has one copy, however often it
is copied; one that has grown since is copied again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from harness.agents.registry import load
from harness.contracts.history import AgentHistory, StoredRecord
from harness.errors import UnknownSession
from harness.events import Event
from harness.histories.catalogue_rows import CataloguedSession
from harness.histories.stored_log import StoredLog
from harness.log.codec import storable
from harness.log.ids import derived_run_id
from harness.log.private_files import append_all, open_private
from harness.log.raw import RawEntry, RawStart, RawWriter
from harness.log.redact.redactor import Redactor, secrets_in
from harness.log.store import KEPT, LogWriter, Metadata, Query
from harness.log.stores.files import FileStore

STORE_SUFFIX = ".store"
_BYTES_IN_A_WRITE = 1024 * 1024


class SessionCopy(NamedTuple):
    log_id: str
    status: Literal["copied", "current", "empty"]
    """`current`: there is a copy of this version. `empty`: the session has no prompt, or was deleted."""


def keep(history: AgentHistory, session: CataloguedSession, store: FileStore) -> SessionCopy:
    """Copy a session into the store, unless there is a copy of this version. Raises StoreError, OSError."""
    start = _first_start(history, session)
    if start is None:
        return SessionCopy("", "empty")
    names = session.agent, session.session_id
    log_id = derived_run_id(start.at_ms, *names)
    copy = _copy_of(store, log_id)
    if copy is not None and copy.get("mark") != session.mark and _has_forks(store, log_id):
        log_id = derived_run_id(start.at_ms, *names, session.mark)  # what was continued stays as it began
        copy = _copy_of(store, log_id)
    if copy is not None:
        if copy.get("mark") == session.mark:
            return SessionCopy(log_id, "current")
        store.delete(log_id)
    _Copy(history, session, store, log_id, start.at_ms).write()
    return SessionCopy(log_id, "copied")


def _first_start(history: AgentHistory, session: CataloguedSession) -> RawStart | None:
    entries = StoredLog(history, session.stored).entries()
    return next((entry for entry in entries if isinstance(entry, RawStart)), None)


def _has_forks(store: FileStore, log_id: str) -> bool:
    return bool(store.find(Query(fork_of=log_id, limit=1)))


def _copy_of(store: FileStore, log_id: str) -> dict[str, Any] | None:
    """What is known of the copy; None if there is none."""
    try:
        copy = store.metadata(log_id).settings.get(KEPT)
    except UnknownSession:
        return None
    return copy if isinstance(copy, dict) else {}


class _Copy:
    def __init__(
        self, history: AgentHistory, session: CataloguedSession, store: FileStore, log_id: str, at_ms: int
    ) -> None:
        self._session = session
        self._store = store
        self._log_id = log_id
        self._at_ms = at_ms
        self._records = _RecordFile(store.path(log_id, STORE_SUFFIX))
        self._raw: RawWriter | None = None
        self._log = StoredLog(
            msgspec.structs.replace(history, records=self._records.copied(history.records)),
            session.stored,
            on_entry=self._write_raw,
        )

    def write(self) -> None:
        """The mark of its origin is stored last: a copy that is not complete is written again."""
        session, metadata = self._session, self._metadata()
        origin = {"agent": session.agent, "session_id": session.session_id, "path": session.path}
        metadata.settings = {KEPT: origin}
        writer = self._store.create(metadata)
        try:
            self._write_events(writer)
        finally:
            writer.close()
            self._records.close()
            if self._raw is not None:
                self._raw.close()
        metadata.settings = {KEPT: {**origin, "mark": session.mark}}
        self._store.save_metadata(metadata)

    def _write_events(self, writer: LogWriter) -> None:
        for batch in self._log.batches():
            writer.append(list[Event](batch))

    def _write_raw(self, run_id: str, entry: RawEntry) -> None:
        if isinstance(entry, RawStart) or self._raw is None:
            if self._raw is not None:
                self._raw.close()
            self._raw = RawWriter(self._store.path(self._log_id, f".{run_id}{RawWriter.suffix}"))
        self._raw.write(entry)

    def _metadata(self) -> Metadata:
        session = self._session
        return Metadata(
            session_id=self._log_id,
            agent=load(session.agent).title,
            agent_name=session.agent,
            prompt=session.prompt,
            name=session.title,
            model=session.model,
            cwd=session.cwd,
            start_time=str(self._at_ms // 1000),
            duration_ms=max(0, session.ended_ms - self._at_ms),
            success=session.outcome == "completed",
            outcome=session.outcome or "unknown",
            agent_session_id=session.session_id,
            version=session.version,
            kind="thread",
            created_ms=self._at_ms,
            updated_ms=max(session.ended_ms, self._at_ms),
        )


class _RecordFile:
    """The records of a store as they pass by, one for each line."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._redactor = Redactor(secrets_in(os.environ))
        self._lines: list[bytes] = []
        self._size = 0

    def copied(
        self, records: Callable[[Any], Iterator[StoredRecord]]
    ) -> Callable[[Any], Iterator[StoredRecord]]:
        def passing(session: Any) -> Iterator[StoredRecord]:
            for record in records(session):
                self._add(record)
                yield record

        return passing

    def close(self) -> None:
        self._write()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _add(self, record: StoredRecord) -> None:
        try:
            line = msgspec.json.encode(record)
        except (UnicodeEncodeError, OverflowError, RecursionError):
            line = msgspec.json.encode(storable(record))
        self._lines.append(line + b"\n")
        self._size += len(line)
        if self._size >= _BYTES_IN_A_WRITE:
            self._write()

    def _write(self) -> None:
        if not self._lines:
            return
        if self._fd < 0:
            self._fd = open_private(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        append_all(self._fd, [self._redactor.feed(b"".join(self._lines))])
        self._lines, self._size = [], 0
