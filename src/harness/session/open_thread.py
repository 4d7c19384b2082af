"""An open thread of a session: its log, locked for writing, and the state folded from it.

Also completes the logs of processes that died, before they are read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from harness.errors import HarnessError, UnknownSession
from harness.events import Event, FollowUpsChanged, Relay, ThreadCreated, Warning
from harness.folds.session.events import HarnessThread
from harness.folds.session.usage import read_usage
from harness.log.hub import Hub
from harness.log.store import Metadata, Store, read_all
from harness.log.stores.files import FileStore
from harness.runs.audit import closing_of_loop, recover, recover_thread, runs_in
from harness.session.config import Secrets, mask, storable_settings, storable_text
from harness.session.thread_fold import ThreadFold

_logger = logging.getLogger("harness.session")
_SNAPSHOT = "session"
_BYTES_PER_EVENT = 500
_LEAST_FRESH = 500
"""Events that are read again as fast as a snapshot is: fewer are no reason to save one."""
_SOON_S = 0.05


class OpenThread:
    """Contract: until it is closed, no other process writes the log."""

    def __init__(
        self, store: Store, metadata: Metadata, hub: Hub, fold: ThreadFold, secrets: Secrets = None
    ) -> None:
        self.store = store
        self.metadata = metadata
        self.hub = hub
        self.fold = fold
        fold.read_log = self._read_log
        self.cursor: int = hub.next_seq
        """The first event that listeners are notified of."""
        self._secrets = secrets
        self._snapshot_seq, self._snapshot_bytes = 0, 0
        """Sequence number and size of the last snapshot that was saved here."""
        self._masked_texts: bytes | None = None
        """Those of the metadata, as they were after they were last masked."""
        self._saving: asyncio.TimerHandle | None = None
        """When the metadata will be saved, if they are to be."""
        self.is_saved: bool = True
        """Whether the metadata could be saved when that was last tried."""
        self.last_summary: tuple[str, str, Any] | None = None
        """What the metadata were given when the last run ended: outcome, first message and usage."""
        self.agent_sessions: dict[str, str] = {}
        """What agents call their sessions, as the metadata have it."""

    @property
    def id(self) -> str:
        """The id of its log."""
        return self.metadata.session_id

    def _read_log(self, cursor: int) -> Iterator[Event]:
        follower = self.hub.follower(cursor)
        try:
            while batch := follower.poll():
                yield from batch
        finally:
            follower.close()

    def append(self, event: Event, run_id: str = "") -> None:
        """Append an event to its log."""
        self.hub.source(run_id or self.fold.facts.open_run or self.id).append([event])

    def setting(self, key: str) -> Any:
        """The setting of that name; None: there is none."""
        return self.metadata.settings.get(key)

    def save_settings(self, changes: dict[str, Any]) -> None:
        """Change the settings stored with the thread; None removes a key.

        Best effort: the log is the truth, and a change that could not be saved is undone here too. Raises
        UsageError for values that no store can hold.
        """
        before = self.metadata.settings
        self.change_settings(changes)
        if not self.save():
            self.metadata.settings = before

    def change_settings(self, changes: dict[str, Any]) -> None:
        """The same, and leave the saving to the caller."""
        settings = {**self.metadata.settings, **changes}
        self.metadata.settings = storable_settings(
            {key: value for key, value in settings.items() if value is not None}, self._secrets
        )

    def save_soon(self) -> None:
        """Save the metadata in a moment, unless they are saved before: what begins and ends at once is written once."""
        if self._saving is None:
            self._saving = asyncio.get_running_loop().call_later(_SOON_S, self.save)

    def save(self) -> bool:
        """Save the metadata; False if that failed. Tags are given from outside, and are kept as they are there."""
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        with suppress(HarnessError, OSError):
            self.metadata.tags = self.store.metadata(self.id).tags
        self._mask()
        try:
            self.store.save_metadata(self.metadata)
        except (HarnessError, OSError) as error:
            if self.is_saved:  # it is tried again with each message: what was said once is known
                why = error.message if isinstance(error, HarnessError) else error.strerror or str(error)
                _logger.warning("what is listed of session %s could not be saved: %s", self.id, why)
            self.is_saved = False
        else:
            self.is_saved = True
        return self.is_saved

    def _mask(self) -> None:
        """Mask secrets, unless nothing has changed since that was last done: it costs as much as half of a write."""
        texts = self._texts()
        if texts is None or texts != self._masked_texts:
            mask(self.metadata, self._secrets)
            self._masked_texts = self._texts()

    def _texts(self) -> bytes | None:
        """What may have secrets in it; None where only masking finds out how it can be written."""
        metadata = self.metadata
        try:
            return msgspec.json.encode((metadata.name, metadata.prompt, metadata.settings))
        except (TypeError, ValueError, OverflowError, RecursionError):
            return None

    def storable_title(self, title: str) -> str:
        """The title as it is stored: with secrets masked."""
        return storable_text(title, self._secrets)

    def save_snapshot(self) -> None:
        """Save a snapshot, so that opening the thread again reads only later events."""
        data = self.fold.snapshot()
        try:
            self.store.save_snapshot(self.id, _SNAPSHOT, self.fold.next_seq, data)
        except (HarnessError, OSError):
            _logger.warning("no snapshot of thread %s could be saved", self.id, exc_info=True)
        self._snapshot_seq, self._snapshot_bytes = self.fold.next_seq, len(data)

    def save_snapshot_in_time(self) -> None:
        """The same after many new events, and a large one only after more of them: it costs no more than the log does."""
        fresh = self.fold.next_seq - self._snapshot_seq
        if fresh >= _LEAST_FRESH and fresh * _BYTES_PER_EVENT >= self._snapshot_bytes:
            self.save_snapshot()

    def close_inherited(self, reason: str) -> None:
        """End in a clone what is queued, running or waiting in its source: it continues only there."""
        if self.fold.facts.follow_ups:
            self.append(FollowUpsChanged(pending=[]), self.id)
        if self.fold.facts.open_run:
            self.close_runs(reason)

    def close_runs(self, reason: str) -> None:
        """Write the end of every unfinished run; a waiting question counts as refused, with `reason`."""
        from harness.conversation.history import history
        from harness.conversation.suspended_run import closing_events

        logged = list(read_all(self.store, self.id))
        pending = history(logged).pending
        for run in runs_in(logged):
            if pending is not None and run.id == pending.run_id:
                self.hub.source(run.id).append(closing_events(pending, reason, self.hub.clock()))
            elif not run.has_ended:
                self.hub.append(*closing_of_loop(run.events, run.id))

    def close(self) -> None:
        """Release the log even if something fails; else not even this process could reopen it."""
        if self._saving is not None:
            self.save()
        try:
            self.save_snapshot()
        except Exception:
            _logger.exception("no snapshot of thread %s could be made", self.id)
        finally:
            self.hub.close()


def create_thread(store: Store, metadata: Metadata, secrets: Secrets = None) -> OpenThread:
    """Create a thread. Raises StoreError, and then leaves none behind."""
    mask(metadata, secrets)
    thread_id, writer = metadata.session_id, store.create(metadata)
    try:
        fold = ThreadFold() if metadata.fork is None else folded(store, thread_id)
    except BaseException:
        writer.close()
        _remove(store, thread_id)
        raise
    return OpenThread(store, metadata, Hub(store, thread_id, writer), fold, secrets)


def reopen_thread(store: Store, thread_id: str, secrets: Secrets = None) -> OpenThread:
    """Open an existing thread. A run that died in it is closed, or waits for its answer.

    Raises UnknownSession, LogLocked, StoreError.
    """
    metadata = known_thread(store, thread_id)
    writer = store.open(thread_id)
    saved, relays = _snapshot_of(store, thread_id), list[Relay]()
    if saved is None or saved[0] != writer.next_seq:
        # The last process did not close it properly: a run may have died in it.
        writer.close()
        relays = list(folded(store, thread_id).facts.relays.values())
        recover_thread(store, thread_id)
        writer = store.open(thread_id)
    try:
        fold = folded(store, thread_id)
    except BaseException:
        writer.close()
        raise
    thread = OpenThread(store, metadata, Hub(store, thread_id, writer), fold, secrets)
    for relay in relays:
        if relay.id not in fold.facts.relays:
            thread.append(Warning(message=_lost(relay), code="question_lost"), thread_id)
    return thread


def _lost(relay: Relay) -> str:
    """An agent program that asked has died with the process that held it: nobody can answer it any more."""
    what = relay.question or (f"to use {relay.tool_name}" if relay.tool_name else "something")
    return f"it had asked, and ended before there was an answer: {what}. Send a message to continue."


def known_thread(store: Store, thread_id: str) -> Metadata:
    """The metadata of a thread, or what its log says if they are damaged. Raises UnknownSession."""
    metadata = store.metadata(thread_id)
    if metadata.kind == "thread":
        return metadata
    first = next(read_all(store, thread_id), None)
    if not isinstance(first, ThreadCreated):
        raise UnknownSession(f"Thread not found: {thread_id}", hint="it is the log of a single run")
    metadata.kind, metadata.resource_id, metadata.name = "thread", first.resource_id, first.title
    metadata.settings = {**(first.metadata or {}), **metadata.settings}
    return metadata


def folded(store: Store, thread_id: str) -> ThreadFold:
    """The state of a thread: the latest snapshot, and the events after it."""
    fold, cursor = ThreadFold(), 0
    saved = _snapshot_of(store, thread_id)
    if saved is not None and fold.restore(saved[1]):
        cursor = fold.next_seq = saved[0]
    for event in read_all(store, thread_id, cursor):
        fold.take(event)
    return fold


def _snapshot_of(store: Store, thread_id: str) -> tuple[int, bytes] | None:
    """The snapshot is only a cache: without it the whole log is read."""
    try:
        return store.snapshot(thread_id, _SNAPSHOT)
    except HarnessError:
        _logger.warning("the snapshot of thread %s could not be read", thread_id, exc_info=True)
        return None


def thread_of(metadata: Metadata) -> HarnessThread:
    """The thread as the application sees it."""
    settings = dict(metadata.settings)
    usage = settings.pop("tokenUsage", None)
    return HarnessThread(
        id=metadata.session_id,
        resource_id=metadata.resource_id,
        title=metadata.name,
        created_at=metadata.created_ms,
        updated_at=metadata.updated_ms,
        activity=metadata.activity,
        token_usage=None if usage is None else read_usage(usage),
        metadata=settings or None,
    )


def _remove(store: Store, thread_id: str) -> None:
    """Remove a thread whose creation failed."""
    try:
        store.delete(thread_id)
    except (HarnessError, OSError):
        _logger.warning("the unfinished thread %s could not be removed", thread_id, exc_info=True)


def complete(store: Store, log_id: str) -> None:
    """End the runs of a log whose process died, in the log itself; a suspended run stays suspended."""
    try:
        recover_any(store, log_id)
    except (HarnessError, OSError):
        return  # it is being written, or cannot be: then it is only shown as interrupted


def recover_any(store: Store, log_id: str) -> bool:
    """The same; False if nothing had to be done. Raises HarnessError, OSError."""
    metadata = store.metadata(log_id)
    if metadata.kind != "thread":
        return isinstance(store, FileStore) and recover(store, log_id)
    has_changed = recover_thread(store, log_id)
    if has_changed or (metadata.activity == "running" and not store.is_live(log_id)):
        facts = folded(store, log_id).facts
        metadata.outcome, metadata.activity = facts.last_outcome, facts.activity
        metadata.success = metadata.outcome == "completed"
        store.save_metadata(metadata)
    return has_changed
