"""All rows of a store, up to date: of logs at rest from the index, of logs that change from a fold."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from harness.clients.conversations.local_socket import reachable_ids
from harness.clients.inbox.present_texts import PresentTexts
from harness.clients.inbox.projects import Projects
from harness.clients.inbox.stored_rows import StoredRow, StoredRows
from harness.config import data_directory
from harness.errors import HarnessError, UnknownSession
from harness.events import Event
from harness.folds.inbox.fold import InboxFold, Surroundings
from harness.folds.inbox.row import NEEDS_YOU, WORKS, InboxRow, RowAsk, RowCan
from harness.log.event_file import SIDECAR
from harness.log.hub import Hub
from harness.log.private_files import make_private_directory, open_private, replace_private
from harness.log.query import is_active, waits
from harness.log.store import Metadata, Query, Store
from harness.log.stores.files import FileStore
from harness.usage.prices import Prices

# Which sessions a person has opened, and when: a private file beside the logs, shared by all programs of the user.


_FILE = "inbox-seen.json"
_MOST = 5_000


class _Seen(msgspec.Struct):
    since_ms: int = 0
    """What ended before counts as seen."""
    sessions: dict[str, int] = {}
    reviewed: dict[str, int] | None = None
    """When what a session had changed was committed, or called reviewed. None, of an earlier version: when opened."""


class SeenMarks:
    """Contract: thread-safe. When the file cannot be read or written, marks last as long as this object."""

    def __init__(self, store: Store) -> None:
        folder = store.directory if isinstance(store, FileStore) else data_directory()
        self._path = os.path.join(folder, _FILE)
        self._lock = threading.Lock()
        self._mark: tuple[int, int] | None = None
        self._marks = _Seen(since_ms=_now_ms())
        with self._lock:
            if not self._read():
                self._write()

    def at(self, log_id: str) -> int:
        """When it was opened last, as far as it matters."""
        marks = self._marks
        return max(marks.since_ms, marks.sessions.get(log_id, 0))

    def reviewed_at(self, log_id: str) -> int:
        """When its changes were reviewed last, as far as it matters."""
        marks = self._marks
        return max(
            marks.since_ms, (marks.sessions if marks.reviewed is None else marks.reviewed).get(log_id, 0)
        )

    def mark_reviewed(self, log_id: str) -> None:
        with self._lock:
            self._read()
            before = self._marks.sessions if self._marks.reviewed is None else self._marks.reviewed
            reviewed = {key: at for key, at in before.items() if key != log_id} | {log_id: _now_ms()}
            latest = dict(list(reviewed.items())[-_MOST:])
            self._marks = _Seen(self._marks.since_ms, self._marks.sessions, latest)
            self._write()

    def mark(self, log_id: str) -> None:
        with self._lock:
            self._read()
            sessions = {key: at for key, at in self._marks.sessions.items() if key != log_id}
            sessions[log_id] = _now_ms()
            latest = list(sessions.items())[-_MOST:]
            reviewed = self._marks.sessions if self._marks.reviewed is None else self._marks.reviewed
            self._marks = _Seen(self._marks.since_ms, dict(latest), reviewed)
            self._write()

    def refresh(self) -> bool:
        """Whether another program has marked something."""
        with self._lock:
            before = self._marks
            self._read()
            return (self._marks.sessions, self._marks.reviewed) != (before.sessions, before.reviewed)

    def _read(self) -> bool:
        try:
            with os.fdopen(open_private(self._path, os.O_RDONLY), "rb") as file:
                status = os.fstat(file.fileno())
                if self._mark == (status.st_ino, status.st_mtime_ns):
                    return True
                self._marks = msgspec.json.decode(file.read(), type=_Seen)
                self._mark = status.st_ino, status.st_mtime_ns
        except (OSError, msgspec.MsgspecError):
            return False
        return True

    def _write(self) -> None:
        try:
            make_private_directory(os.path.dirname(self._path))
            replace_private(self._path, msgspec.json.encode(self._marks))
        except OSError:
            return


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_AT_ONCE = 2_000
_MOST_WITHOUT_INDEX = 500
"""Rows that are read of a store without a local index."""
_BETWEEN_S = 0.2
"""Between two rows of one session, unless its state has changed."""
_STATUS_KNOWN_S = 1.0
_FOLLOWED_S = 30.0
"""How long a log without a process stays open after its last change."""
HIDDEN_SETTING = "forkedSubagent"
"""The setting of logs that are part of another session."""


class RowStatus(NamedTuple):
    """What the reader knows of a session now."""

    is_live: bool = False
    """A process runs it, or has it open and waits for a message."""
    can: RowCan = RowCan()
    is_working: bool = False
    """A message was given to it, and a run begins or goes on."""
    is_held: bool = False
    """A process has its log open, also when nothing runs in it: it lives while it has a run."""


def held_status(metadata: Metadata, *, is_reachable: bool) -> RowStatus:
    """The status of a session whose log a process of this machine has open. `is_reachable`: over a local socket.

    A conversation without a socket is one of a server, which has many of them open while nothing runs in them.
    """
    is_served = metadata.kind == "thread" and not is_reachable
    return RowStatus(is_held=True) if is_served else RowStatus(is_live=True)


class RowCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    needs_you: int = 0
    running: int = 0
    failed: int = 0
    """Unseen ones, with those that ended because their program was closed."""
    to_review: int = 0
    """At rest, with changed files that were neither committed nor called reviewed."""


class InboxPage(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[InboxRow, ...]
    total: int
    counts: RowCounts


class _Reader(Protocol):
    def poll(self) -> list[Event]: ...

    def close(self) -> None: ...


class _StoreReader:
    def __init__(self, store: Store, log_id: str, cursor: int) -> None:
        self._reader = store.reader(log_id, cursor)

    def poll(self) -> list[Event]:
        return self._reader.read(_AT_ONCE)

    def close(self) -> None:
        self._reader.close()


class _Followed:
    """A log that changes, and its fold."""

    def __init__(self, fold: InboxFold) -> None:
        self.fold = fold
        self.changed_s = time.monotonic()
        self.hub: Hub | None = None
        self.file_mark: tuple[int, ...] = ()
        """Of the file of its metadata, when that was read."""
        self.status: RowStatus | None = None
        self.status_s = 0.0
        self._last_shown: tuple[float, object] = 0.0, None
        self._reader: _Reader | None = None

    def is_due(self) -> bool:
        """Whether its row is made now: not too often, unless its state has changed."""
        now_s, urgent = time.monotonic(), self.fold.urgent
        if now_s - self._last_shown[0] < _BETWEEN_S and self._last_shown[1] == urgent:
            return False
        self._last_shown = now_s, urgent
        return True

    def read_on(self, store: Store, hub: Hub | None) -> None:
        """Raises HarnessError, OSError."""
        if self._reader is None or hub is not self.hub:
            self.close()
            self.hub = hub
            at = self.fold.next_seq
            log_id = self.fold.metadata.session_id
            self._reader = hub.follower(at) if hub is not None else _StoreReader(store, log_id, at)
        while events := self._reader.poll():
            self.changed_s = time.monotonic()
            for event in events:
                self.fold.feed(event)
        if hub is None and not self.fold.is_open:
            self.close()  # it may never change again, and there may be more of them than open files

    def close(self) -> None:
        if self._reader is not None:
            with suppress(OSError):
                self._reader.close()
        self._reader = self.hub = None


class InboxRows:
    """Contract: thread-safe. `status` and `find_hub` are called with the lock held, and must be quick."""

    def __init__(
        self,
        store: Store,
        prices: Prices,
        *,
        status: Callable[[Metadata], RowStatus],
        find_hub: Callable[[str], Hub | None] = lambda _log_id: None,
        can_continue: bool = False,
    ) -> None:
        """`can_continue`: the reader can send a prompt to a conversation at rest."""
        self._store = store
        self._stored_rows = StoredRows(store, prices)
        self._status = status
        self._find_hub = find_hub
        self._can_continue = can_continue
        self._reachable: set[str] = set()
        """Sessions that had a socket when all was read."""
        self.seen = SeenMarks(store)
        self._projects = Projects()
        self._texts = PresentTexts()
        self._lock = threading.RLock()
        self._base: dict[str, StoredRow] = {}
        self._followed: dict[str, _Followed] = {}
        self.rows: dict[str, InboxRow] = {}
        """The current ones."""
        self._tally = [0, 0, 0, 0]
        self._others: dict[str, InboxRow] = {}
        """Rows of sessions that are not in the store."""
        self._is_closed = False
        self._late: set[str] = set()

    def load(self) -> None:
        """Read and show all. Raises StoreError."""
        self.show(self.read())

    def read(self) -> list[StoredRow]:
        """What the store has. Raises StoreError."""
        self._reachable = reachable_ids()
        limit = None if self._store.version() is not None else _MOST_WITHOUT_INDEX
        return self._stored_rows.of(self._store.find(Query(without_settings=(HIDDEN_SETTING,), limit=limit)))

    def of(self, sessions: Iterable[Metadata]) -> dict[str, InboxRow]:
        """The rows of these logs alone. Raises StoreError."""
        self._reachable = reachable_ids()
        self.show(self._stored_rows.of(sessions))
        return self.rows

    def show(self, rows: list[StoredRow]) -> None:
        """Instead of what was shown. Logs that have come since they were read stay."""
        with self._lock:
            newer = self._followed.keys() - {stored_row.metadata.session_id for stored_row in rows}
            self._base = {stored_row.metadata.session_id: stored_row for stored_row in rows}
            self.rows, self._tally = {}, [0, 0, 0, 0]
            for stored_row in rows:
                self._show(stored_row.metadata, stored_row.row, is_unfinished=stored_row.is_unfinished)
            for log_id in newer:
                self._update(log_id)
            for log_id, row in self._others.items():
                self._put(log_id, row)

    def show_others(self, rows: Mapping[str, InboxRow]) -> list[str]:
        """Replace the rows of sessions that are not in the store; returns the ids of those that changed."""
        with self._lock:
            changed = [log_id for log_id, row in rows.items() if self._others.get(log_id) != row]
            removed = [log_id for log_id in self._others if log_id not in rows]
            self._others = dict(rows)
            for log_id in (*changed, *removed):
                self._put(log_id, rows.get(log_id))
            return [*changed, *removed]

    @property
    def logs(self) -> list[Metadata]:
        """Of the sessions that the store has."""
        with self._lock:
            return [row.metadata for row in self._base.values()]

    def update(self, log_ids: Iterable[str]) -> list[str]:
        """Read what is new in these logs; returns those whose row has changed or was removed."""
        with self._lock:
            return [] if self._is_closed else [log_id for log_id in log_ids if self._update(log_id)]

    def take_late(self) -> set[str]:
        """Logs that were read, and whose rows come later: `update` them again soon."""
        with self._lock:
            late, self._late = self._late, set()
            return late

    def prepare(self, log_id: str) -> None:
        """Open a log whose first reading may take long, so that `update` is quick."""
        if log_id in self._followed:
            return
        with suppress(HarnessError):
            followed = _Followed(self._stored_rows.fold(self._store.metadata(log_id)))
            with self._lock:
                self._followed.setdefault(log_id, followed)

    def is_followed(self, log_id: str) -> bool:
        return log_id in self._followed

    def refresh_status(self, log_id: str) -> bool:
        """Ask for its status again; returns whether its row has changed."""
        with self._lock:
            base, followed = self._base.get(log_id), self._followed.get(log_id)
            if base is None:
                return False
            if followed is None:
                return self._show(base.metadata, base.row, is_unfinished=base.is_unfinished)
            followed.status = None
            fold = followed.fold
            return self._show(fold.metadata, base.row, is_unfinished=fold.is_open)

    def refresh_open(self) -> list[str]:
        """Refresh the rows of sessions that live or have changed lately, whose end and whose sockets are not notified;
        returns those that changed.
        """
        with self._lock:
            live = {log_id for log_id, row in self.rows.items() if row.is_live}
            log_ids = live | self._followed.keys()
        return [log_id for log_id in log_ids if self.refresh_status(log_id)]

    def release_idle(self) -> list[str]:
        """Close logs without a process that have not changed for a while; returns rows that changed by it."""
        now_s = time.monotonic()
        changed: list[str] = []
        with self._lock:
            for log_id, followed in list(self._followed.items()):
                if now_s - followed.changed_s < _FOLLOWED_S:
                    continue
                if self.refresh_status(log_id):
                    changed.append(log_id)
                row = self.rows.get(log_id)
                if row is None or not row.is_live:
                    self._forget(log_id)
        return changed

    def mark_seen(self, log_id: str) -> bool:
        """Whether that changes its row."""
        self.seen.mark(log_id)
        return self.refresh_status(log_id)

    def mark_reviewed(self, log_id: str) -> bool:
        """Whether that changes its row."""
        self.seen.mark_reviewed(log_id)
        return self.refresh_status(log_id)

    def page(self, limit: int) -> InboxPage:
        with self._lock:
            rows = in_order(self.rows.values())
            return InboxPage(rows=tuple(rows[:limit]), total=len(rows), counts=self.counts)

    @property
    def counts(self) -> RowCounts:
        needs_you, running, failed, to_review = self._tally
        return RowCounts(needs_you=needs_you, running=running, failed=failed, to_review=to_review)

    def whole_ask(self, log_id: str, ask_id: str) -> RowAsk | None:
        """An open question of a session with all that it is about; None: it is not open. Raises HarnessError."""
        with self._lock:
            followed = self._followed.get(log_id)
            fold = self._stored_rows.fold(self._store.metadata(log_id)) if followed is None else followed.fold
            return fold.whole_ask(ask_id, self._around(fold.metadata, is_unfinished=fold.is_open))

    def changed_paths(self, log_id: str) -> list[str]:
        """The files that the edits of a session changed. Raises HarnessError."""
        followed = self._followed.get(log_id)
        fold = self._stored_rows.fold(self._store.metadata(log_id)) if followed is None else followed.fold
        return fold.changed_paths

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for log_id in list(self._followed):
                self._forget(log_id)

    def _forget(self, log_id: str) -> None:
        followed = self._followed.pop(log_id, None)
        if followed is not None:
            followed.close()
            fold = followed.fold
            self._base[log_id] = StoredRow(fold.metadata, fold.value, fold.is_open)

    def _metadata(self, log_id: str) -> Metadata:
        """Read again only when its file has changed. Raises HarnessError."""
        followed = self._followed.get(log_id)
        if followed is None or not isinstance(self._store, FileStore):
            return self._store.metadata(log_id)
        try:
            status = os.stat(self._store.path(log_id, SIDECAR), follow_symlinks=False)
        except OSError:
            return self._store.metadata(log_id)
        mark = status.st_ino, status.st_size, status.st_mtime_ns
        if mark != followed.file_mark:
            metadata = self._store.metadata(log_id)
            followed.file_mark = mark
            return metadata
        return followed.fold.metadata

    def _update(self, log_id: str) -> bool:
        try:
            metadata = self._metadata(log_id)
        except HarnessError:
            return self._remove(log_id)
        if metadata.settings.get(HIDDEN_SETTING):
            return False
        followed = self._followed.get(log_id)
        if followed is not None and followed.fold.metadata.created_ms != metadata.created_ms:
            self._forget(log_id)  # another log with the same id
            followed = None
        if followed is None:
            followed = self._followed[log_id] = _Followed(self._stored_rows.fold(metadata))
        followed.fold.metadata = metadata
        try:
            followed.read_on(self._store, self._find_hub(log_id))
        except UnknownSession:
            return self._remove(log_id)
        except (HarnessError, OSError):
            self._forget(log_id)
            return False
        fold = followed.fold
        if not followed.is_due() and log_id in self.rows:
            self._late.add(log_id)
            return False
        base = self._base.get(log_id)
        row = fold.value if base is None else base.row
        self._base[log_id] = StoredRow(metadata, row, fold.is_open)
        return self._show(metadata, row, is_unfinished=fold.is_open)

    def _remove(self, log_id: str) -> bool:
        self._forget(log_id)
        self._late.discard(log_id)
        self._base.pop(log_id, None)
        return self._put(log_id, None)

    def _show(self, metadata: Metadata, row: InboxRow, *, is_unfinished: bool) -> bool:
        """Whether the row has changed."""
        log_id = metadata.session_id
        around = self._around(metadata, is_unfinished=is_unfinished)
        followed = self._followed.get(log_id)
        if followed is None and is_unfinished and around.is_live:
            followed = self._followed[log_id] = _Followed(self._stored_rows.fold(metadata))
        row_shown = _completed(row, metadata, around) if followed is None else followed.fold.row(around)
        if self.rows.get(log_id) == row_shown:
            return False
        self._put(log_id, row_shown)
        return True

    def _put(self, log_id: str, row: InboxRow | None) -> bool:
        """Whether there was one before."""
        before = self.rows.pop(log_id, None)
        for row_of_log, sign in ((before, -1), (row, 1)):
            if row_of_log is not None:
                self._tally = [
                    count + sign * is_counted
                    for count, is_counted in zip(self._tally, _counted(row_of_log), strict=True)
                ]
        if row is not None:
            self.rows[log_id] = row
        return before is not None

    def _status_of(self, metadata: Metadata) -> RowStatus:
        followed, now_s = self._followed.get(metadata.session_id), time.monotonic()
        if followed is None:
            return self._status(metadata)
        if followed.status is None or now_s - followed.status_s > _STATUS_KNOWN_S or followed.hub is not None:
            followed.status, followed.status_s = self._status(metadata), now_s
        return followed.status

    def _around(self, metadata: Metadata, *, is_unfinished: bool) -> Surroundings:
        log_id = metadata.session_id
        is_asked = is_unfinished or is_active(metadata) or log_id in self._followed
        is_asked = is_asked or log_id in self._reachable
        status = RowStatus(can=RowCan(submit=self._can_continue and metadata.kind == "thread"))
        with suppress(HarnessError):
            status = self._status_of(metadata) if is_asked else status
        is_live = status.is_live or (status.is_held and (is_unfinished or waits(metadata)))
        place = self._projects.of(metadata.cwd)
        settings = metadata.settings
        return Surroundings(
            is_live=is_live,
            is_working=status.is_working,
            can=status.can,
            project=place.project,
            branch=str(settings.get("branch") or (place.branch if is_live else "")),
            worktree=str(settings.get("worktree") or place.worktree),
            seen_ms=self.seen.at(log_id),
            reviewed_ms=self.seen.reviewed_at(log_id),
            text_of=partial(self._texts.of, metadata.cwd),
        )


def _completed(row: InboxRow, metadata: Metadata, around: Surroundings) -> InboxRow:
    """A saved row with what the reader knows."""
    is_resting = row.state == "succeeded" and around.is_live and metadata.kind == "thread"
    is_over = row.state in ("succeeded", "failed", "lost") or row.failure is not None
    is_over = is_over and not around.is_working
    changes = row.changes
    return replace(
        row,
        state="running" if around.is_working else "idle" if is_resting else row.state,
        is_live=around.is_live,
        project=around.project,
        branch=around.branch,
        worktree=around.worktree,
        changes=changes and replace(changes, is_reviewed=changes.changed_ms <= around.reviewed_ms),
        is_unseen=is_over and not is_resting and row.state_since_ms > around.seen_ms,
        can=around.can,
    )


def _counted(row: InboxRow) -> tuple[bool, ...]:
    """As in `RowCounts`."""
    is_at_rest = row.state not in NEEDS_YOU and row.state not in WORKS
    return (
        row.state in NEEDS_YOU,
        row.state in WORKS,
        row.is_unseen and (row.state == "failed" or (row.state == "interrupted" and row.failure is not None)),
        is_at_rest and row.changes is not None and not row.changes.is_reviewed,
    )


def in_order(rows: Iterable[InboxRow]) -> list[InboxRow]:
    return sorted(rows, key=_order)


def _order(row: InboxRow) -> tuple[int, int, str]:
    """Needs you, longest wait first; running, the longest first; the rest, last changed first."""
    if row.state in NEEDS_YOU:
        return 0, row.state_since_ms, row.id
    if row.state in WORKS:
        return 1, row.state_since_ms, row.id
    return 2, -row.updated_ms, row.id
