"""The threads of a session: the open one, how another is opened, and what can be read of all of them.

Rules
1. The new thread is locked before the old one is released; a failure in between leaves the old one open.
2. No event names a thread before it can be used.
3. One change at a time: a caller waits while another thread is being opened.
"""

from __future__ import annotations

import asyncio
import logging
from builtins import list as List  # noqa: N812
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from harness.errors import HarnessError, LogLocked, UnknownSession, UsageError
from harness.events import ModeChanged, StateChanged, ThreadCreated, ThreadRenamed
from harness.folds.session.events import (
    FilePart,
    HarnessMessage,
    HarnessThread,
    ImagePart,
    TextPart,
    ThreadChangedEvent,
    ThreadDeletedEvent,
)
from harness.folds.session.events import StateChangedEvent as StateRestored
from harness.folds.session.translation import history_messages
from harness.log.codec import spelled_out
from harness.log.ids import is_log_id
from harness.log.store import Fork, Metadata, Query, read_all
from harness.session.child_threads import HIDDEN
from harness.session.drivers import Drivers
from harness.session.locking import call
from harness.session.open_thread import (
    OpenThread,
    create_thread,
    known_thread,
    reopen_thread,
    thread_of,
)
from harness.session.public_side import public
from harness.session.runs import Runs
from harness.session.session_settings import SessionSettings
from harness.session.thread_fold import rest
from harness.session.thread_log import ThreadLog

_logger = logging.getLogger("harness.session")
_FORK_MARK = "forkedSubagent"
_FIRST_EVENTS = 64
_MEMORY_KEYS = ("observerModelId", "reflectorModelId", "observationThreshold", "reflectionThreshold")
_LEFT_TO_THE_SOURCE = "It is answered in the thread that this one was cloned from."
_FORGOTTEN_BY_CLONES = ("tokenUsage", "forkedSubagent", "parentThreadId", "goalJudge", "goalId")
_SAID = (TextPart, ImagePart, FilePart)


@public("current", "ensure", "is_closed", "release", "save_setting")
class Threads:
    """`session.thread`: the open thread, how to open another, and what can be read of all of them.

    Without storage nothing can be read and nothing is stored.
    """

    def __init__(
        self,
        log: ThreadLog,
        settings: SessionSettings,
        drivers: Drivers,
        runs: Runs,
        *,
        use: Callable[[OpenThread], object],
        use_none: Callable[[], object],
    ) -> None:
        """`use`: work on that thread from now on; `use_none`: on none."""
        self._log, self._settings, self._drivers, self._runs = log, settings, drivers, runs
        self._use, self._use_none = use, use_none
        self.is_closed = False
        """Whether the session was closed: no thread is opened any more."""
        self._turn = asyncio.Lock()

    @property
    def current(self) -> OpenThread | None:
        """The open thread itself."""
        return self._log.thread

    def get_id(self) -> str | None:
        """The id of the open thread; None without one."""
        return self._log.thread_id

    def is_set(self) -> bool:
        """Whether a thread is open."""
        return self._log.thread is not None

    def require_id(self) -> str:
        """The id of the open thread. Raises UsageError without one."""
        return self._log.require_thread().id

    def list(
        self, *, all_resources: bool = False, include_forked_subagents: bool = False
    ) -> List[HarnessThread]:
        """Most recently changed first. Raises StoreError."""
        harness = self._settings.harness
        if not harness.has_storage:
            return []
        query = Query(
            kind="thread",
            resource_id=None if all_resources else self._settings.identity.get_resource_id(),
            without_settings=() if include_forked_subagents else (_FORK_MARK,),
        )
        return [thread_of(metadata) for metadata in harness.store.find(query)]

    def get_by_id(self, *, thread_id: str) -> HarnessThread | None:
        """The thread of that id; None if there is none."""
        harness = self._settings.harness
        try:
            metadata = known_thread(harness.store, thread_id) if harness.has_storage else None
        except UnknownSession:
            return None
        return thread_of(metadata) if metadata is not None and not metadata.deleted else None

    def list_messages(self, *, thread_id: str, limit: int | None = None) -> List[HarnessMessage]:
        """The newest `limit` messages, oldest first."""
        harness = self._settings.harness
        if not harness.has_storage or limit == 0:
            return []
        try:
            start = 0 if limit is None else harness.store.messages(thread_id, limit)
            messages = history_messages(read_all(harness.store, thread_id, start))
        except UnknownSession:
            return []
        return messages if limit is None else messages[-limit:]

    def list_active_messages(self, *, limit: int | None = None) -> List[HarnessMessage]:
        """The newest `limit` messages of the open thread, oldest first."""
        thread_id = self.get_id()
        return [] if thread_id is None else self.list_messages(thread_id=thread_id, limit=limit)

    def first_user_message(self, *, thread_id: str) -> HarnessMessage | None:
        """What the user wrote first in a thread; None if nothing was written."""
        harness = self._settings.harness
        if not harness.has_storage:
            return None
        try:
            reader = harness.store.reader(thread_id)
        except UnknownSession:
            return None
        try:
            while batch := reader.read(_FIRST_EVENTS):
                written = (message for message in history_messages(batch) if _is_said(message))
                if (first := next(written, None)) is not None:
                    return first
        finally:
            reader.close()
        return None

    def first_user_messages(self, *, thread_ids: Iterable[str]) -> dict[str, HarnessMessage]:
        """The same for several threads, by id; those without a message are left out."""
        found = {thread_id: self.first_user_message(thread_id=thread_id) for thread_id in thread_ids}
        return {thread_id: message for thread_id, message in found.items() if message is not None}

    async def get_setting(self, *, key: str) -> Any:
        """A setting of the current thread; None when it has none of that name."""
        return self.setting(key) if self._settings.harness.has_storage else None

    async def set_setting(self, *, key: str, value: Any) -> None:
        """Store a setting with the current thread. Best effort."""
        if self._settings.harness.has_storage:
            self.save_setting(key, value)

    async def delete_setting(self, *, key: str) -> None:
        """Remove a setting of the open thread."""
        await self.set_setting(key=key, value=None)

    def setting(self, key: str) -> Any:
        """A setting of the open thread; None when it has none of that name."""
        return self._log.setting(key)

    def save_setting(self, key: str, value: Any) -> None:
        """Store a setting with the open thread."""
        self._log.save_setting(key, value)

    # Opening and closing

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One change of the open thread after the other. Raises UsageError in a wrong event loop."""
        self._settings.harness.require_loop()
        async with self._turn:
            yield

    async def select_or_create(self) -> HarnessThread:
        """Open a thread of this resource that is not open elsewhere, or a new one.

        A thread that waits for an answer comes first, then the most recently changed one.
        Selecting an existing thread emits no `thread_changed`.
        """
        async with self._alone():
            for thread in sorted(self.list(), key=lambda thread: thread.activity != "waiting"):
                if thread.id == self.get_id() or await self._has_taken(thread.id):
                    return thread
            return await self._create("", "")

    async def _has_taken(self, thread_id: str) -> bool:
        """Open it; False when it is open elsewhere, or was just deleted."""
        await self._runs.stop()
        try:
            await self._take(thread_id, lambda: self._open(thread_id))
        except (LogLocked, UnknownSession):
            return False
        self._load()
        return True

    async def create(self, *, title: str = "", id: str = "") -> HarnessThread:
        """Raises UsageError for an invalid id or title, and StoreError."""
        async with self._alone():
            return await self._create(title, id)

    async def ensure(self) -> None:
        """Create a thread if none is open."""
        if self._log.thread is not None:
            return
        async with self._alone():
            if not self.is_set():
                await self._create("", "")

    async def switch(self, *, thread_id: str) -> None:
        """Raises UnknownSession, and LogLocked when it is open elsewhere."""
        async with self._alone():
            previous = self.get_id()
            await self._runs.stop()
            self._check_there(thread_id)
            if thread_id != previous:
                await self._take(thread_id, lambda: self._open(thread_id))
                self._load()
            else:
                rest(self._log.bus.fold, is_running=False)
            self._log.bus.notify(ThreadChangedEvent(thread_id=thread_id, previous_thread_id=previous))

    async def clone(
        self, *, source_thread_id: str = "", title: str = "", resource_id: str = ""
    ) -> HarnessThread:
        """Open a new thread that begins with everything in another one.

        Args:
            source_thread_id: The other thread; by default the open one.
            title: By default that of the other thread.
            resource_id: Whose thread it is; by default as the other thread.

        Raises:
            UsageError: Without a thread to clone, and without a memory.
            UnknownSession: When there is no such thread.

        """
        async with self._alone():
            source_id = source_thread_id or self.get_id()
            if source_id is None:
                raise UsageError("No source thread to clone", hint="name one, or select a thread first")
            await self._settings.harness.require_memory()
            await self._runs.stop()
            self._check_there(source_id)
            metadata = self._metadata_of_clone(source_id, title, resource_id)
            store, thread_id = self._settings.harness.store, metadata.session_id
            secrets = self._settings.harness.secrets
            opened = await self._take(thread_id, lambda: create_thread(store, metadata, secrets))
            created = ThreadCreated(
                id=thread_id,
                resource_id=metadata.resource_id,
                title=metadata.name,
                cloned_from=source_id,
                metadata=metadata.settings,
            )
            self._log.append_all([created], thread_id)
            opened.close_inherited(_LEFT_TO_THE_SOURCE)
            self._log.bus.deliver()
            self._load()
            return thread_of(opened.metadata)

    async def rename(self, *, title: str) -> None:
        """Does nothing without a thread."""
        opened = self._log.thread
        if opened is None:
            return
        title = opened.storable_title(title)
        if opened.metadata.name == title:
            return
        old_title, opened.metadata.name = opened.metadata.name, title
        opened.metadata.updated_ms = opened.hub.clock()
        opened.save()
        self._log.append(ThreadRenamed(title=title, old_title=old_title))

    async def delete(self, *, thread_id: str) -> None:
        """Raises UnknownSession, and LogLocked when it is open elsewhere."""
        if not self._settings.harness.has_storage:
            return
        async with self._alone():
            self._check_there(thread_id)
            was_current = self.get_id() == thread_id
            if was_current:
                await self._release()
            try:
                self._remove(thread_id)
            except HarnessError:
                if was_current:
                    await self._take_back(thread_id)
                raise
            self._log.bus.notify(ThreadDeletedEvent(thread_id=thread_id, was_current=was_current))

    async def release(self) -> None:
        """Close the current thread. The next session that opens it may answer what waits there."""
        async with self._turn:
            await self._runs.leave()
            await self._release()

    async def _create(self, title: str, thread_id: str) -> HarnessThread:
        await self._runs.stop()
        thread_id = thread_id or self._settings.harness.new_id()
        if not is_log_id(thread_id):
            raise UsageError(
                f"no thread can be named {thread_id!r}", hint="use 1 to 128 letters, digits, - and _"
            )
        mode = self._settings.mode.resolve()
        model_id = self._settings.model.get() or mode.default_model_id
        settings: dict[str, Any] = {"currentModeId": mode.id}
        if model_id:
            settings |= {"currentModelId": model_id, f"modeModelId_{mode.id}": model_id}
        if project := self._settings.state.peek("projectPath"):
            settings["projectPath"] = project
        metadata = self._metadata(thread_id, title, settings)
        store, secrets = self._settings.harness.store, self._settings.harness.secrets
        opened = await self._take(thread_id, lambda: create_thread(store, metadata, secrets))
        self._log.append(
            ThreadCreated(
                id=thread_id,
                resource_id=metadata.resource_id,
                title=metadata.name,
                state=self._settings.state.stored() or None,
                metadata=metadata.settings,
            )
        )
        return thread_of(opened.metadata)

    def _remove(self, thread_id: str) -> None:
        """Delete a thread with the hidden threads of its sub-agents and judges.

        Only this thread refers to them, and as its forks they would prevent the deletion of its log. Raises LogLocked
        before anything is deleted.
        """
        store = self._settings.harness.store
        if not store.is_live(thread_id):
            sides = store.find(Query(kind="thread", settings={HIDDEN: True, "parentThreadId": thread_id}))
            for side in sides:
                self._remove(side.session_id)
        store.delete(thread_id)

    async def _release(self) -> None:
        await self._runs.stop()
        opened, self._log.thread = self._log.thread, None
        if opened is not None:
            try:
                self._use_none()
            finally:
                await self._close(opened)

    async def _take(self, thread_id: str, open_thread: Callable[[], OpenThread]) -> OpenThread:
        if self.is_closed:
            raise UsageError(
                "this session is closed", hint="create another one, or call init() of the harness again"
            )
        lock, old = self._settings.harness.thread_lock, self._log.thread
        await call(lock.acquire, thread_id)
        try:
            await self._runs.stop()  # a run may have begun meanwhile
            opened = open_thread()
        except BaseException:
            await quietly_release(lock, thread_id)
            raise
        try:
            self._use(opened)
        except BaseException:
            await self._close(opened)
            raise
        if old is not None:
            await self._close(old)
        return opened

    async def _close(self, opened: OpenThread) -> None:
        """Close the thread and release its lock, whatever fails."""
        try:
            try:
                await self._drivers.close()
            finally:
                opened.close()
        except Exception:
            _logger.exception("thread %s could not be closed in order", opened.id)
        finally:
            await quietly_release(self._settings.harness.thread_lock, opened.id)

    async def _take_back(self, thread_id: str) -> None:
        """Reopen a thread that could not be deleted, if possible."""
        try:
            await self._take(thread_id, lambda: self._open(thread_id))
        except Exception:
            _logger.warning("thread %s could not be reopened", thread_id, exc_info=True)

    def _open(self, thread_id: str) -> OpenThread:
        return reopen_thread(self._settings.harness.store, thread_id, self._settings.harness.secrets)

    def _check_there(self, thread_id: str) -> None:
        if not self._settings.harness.holds(thread_id):
            raise UnknownSession(f"Thread not found: {thread_id}", hint="session.thread.list() shows them")

    def _metadata(self, thread_id: str, title: str, settings: dict[str, Any]) -> Metadata:
        return Metadata(
            session_id=thread_id,
            kind="thread",
            start_time=str(self._settings.harness.clock() // 1000),
            name=title,
            agent=self._settings.harness.id,
            resource_id=self._settings.identity.get_resource_id(),
            cwd=self._settings.cwd,
            settings=settings,
        )

    def _metadata_of_clone(self, source_id: str, title: str, resource_id: str) -> Metadata:
        harness = self._settings.harness
        source = harness.store.metadata(source_id)
        settings = {k: v for k, v in source.settings.items() if k not in _FORGOTTEN_BY_CLONES}
        metadata = self._metadata(harness.new_id(), title or source.name or "Cloned Thread", settings)
        metadata.resource_id = spelled_out(resource_id) or source.resource_id
        metadata.fork = Fork(source_id, harness.end_of(source_id))
        return metadata

    def _load(self) -> None:
        """Restore mode, model, state and settings of the thread. What cannot be read is left as it is."""
        try:
            self._restore()
        except Exception:
            thread_id = self.get_id()
            _logger.warning("not all that thread %s had could be restored", thread_id, exc_info=True)

    def _restore(self) -> None:
        opened = self._log.thread
        assert opened is not None, "a thread was taken"
        # The log is the truth: a process may have died before it could save the setting.
        saved_mode = opened.fold.facts.mode_id or opened.setting("currentModeId")
        if saved_mode in self._settings.harness.modes and saved_mode != self._settings.mode.get():
            previous = self._settings.mode.enter(saved_mode)
            self._log.append(ModeChanged(mode_id=saved_mode, previous_mode_id=previous))
        if opened.setting("currentModeId") not in (None, self._settings.mode.get()):
            self.save_setting("currentModeId", self._settings.mode.get())
        mode = self._settings.mode.resolve()
        model_id = self._settings.model.resolve_for_mode(mode) or opened.setting("currentModelId")
        if model_id:
            self._settings.model.select(str(model_id))
        memory = {key: value for key in _MEMORY_KEYS if (value := opened.setting(key)) is not None}
        changed, unlogged = self._settings.state.restore(opened.fold.facts.state, memory)
        if unlogged:
            self._log.append(StateChanged(changes=unlogged))
        if news := [key for key in changed if key not in unlogged]:
            state = {**opened.fold.facts.state, **memory}
            self._log.bus.emit(StateRestored(state=state, changed_keys=news))
        thresholds = {
            "observationThreshold": self._settings.om.observer.threshold(),
            "reflectionThreshold": self._settings.om.reflector.threshold(),
        }
        missing = {key: value for key, value in thresholds.items() if opened.setting(key) is None}
        if missing:
            opened.save_settings(missing)
        target = self._settings.harness.plan_target(mode)
        if opened.fold.facts.is_plan_approved and not opened.fold.facts.open_run and target.id != mode.id:
            self._settings.mode.change(target.id)  # the process stopped between the approval and this change


def _is_said(message: HarnessMessage) -> bool:
    """Whether the user wrote it: signals have the role `user` too."""
    return message.role == "user" and any(isinstance(part, _SAID) for part in message.content)


async def quietly_release(lock: Any, thread_id: str) -> None:
    """Release a lock; a failure is only logged, since its thread is being closed anyway."""
    try:
        await call(lock.release, thread_id)
    except Exception:
        _logger.warning("the lock of thread %s could not be released", thread_id, exc_info=True)
