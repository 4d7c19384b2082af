"""Taking a thread in hand and letting it go: create, select, switch, clone, rename, delete.

Rules
1. The new thread is held before the old one is let go; what fails in between leaves the old one in hand.
2. Nobody is told of a thread before it can be used.
3. One after the other: who comes while another thread is being taken in hand waits for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError, LogLocked, UnknownSession, UsageError
from harness.events import ModeChanged, StateChanged, ThreadCreated, ThreadRenamed
from harness.log.codec import spelled_out
from harness.log.ids import is_log_id
from harness.log.store import Fork, Metadata, Query
from harness.rendering.session.events import HarnessThread, ThreadChanged, ThreadDeleted
from harness.rendering.session.events import StateChanged as StateRestored
from harness.session.child_threads import HIDDEN
from harness.session.locking import call
from harness.session.open_thread import BoundThread, create_bound, open_bound, thread_of
from harness.session.thread_fold import rest
from harness.session.threads import quietly_release

if TYPE_CHECKING:
    from harness.session.session import Session

_logger = logging.getLogger("harness.session")
_MEMORY_KEYS = ("observerModelId", "reflectorModelId", "observationThreshold", "reflectionThreshold")
_LEFT_TO_THE_SOURCE = "It is answered in the thread that this one was cloned from."
_FORGOTTEN_BY_CLONES = ("tokenUsage", "forkedSubagent", "parentThreadId", "goalJudge", "goalId")


class Binding:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = asyncio.Lock()

    async def select_or_create(self) -> HarnessThread:
        """The thread of this resource that was last changed and that nobody else has in hand, or a new one.
        Nobody is told of a selection.
        """
        session = self._session
        async with self._turn:
            for thread in session.thread.list():
                if thread.id == session.thread.get_id() or await self._has_taken(thread.id):
                    return thread
            return await self._create("", "")

    async def _has_taken(self, thread_id: str) -> bool:
        """False when somebody else has it in hand, or has just deleted it."""
        await self._session.runs.stop()
        try:
            await self._take(thread_id, lambda: self._open(thread_id))
        except (LogLocked, UnknownSession):
            return False
        self._load()
        return True

    async def create(self, *, title: str = "", thread_id: str = "") -> HarnessThread:
        """Raises UsageError for an id that cannot be one, and StoreError."""
        async with self._turn:
            return await self._create(title, thread_id)

    async def ensure(self) -> None:
        """A new thread if none is in hand."""
        async with self._turn:
            if not self._session.thread.is_set():
                await self._create("", "")

    async def switch(self, *, thread_id: str) -> None:
        """Raises UnknownSession, and LogLocked when somebody else has it."""
        session = self._session
        async with self._turn:
            previous = session.thread.get_id()
            await session.runs.stop()
            self._check_there(thread_id)
            if thread_id != previous:
                await self._take(thread_id, lambda: self._open(thread_id))
                self._load()
            else:
                rest(session.bus.fold, is_running=False)
            session.bus.tell(ThreadChanged(thread_id=thread_id, previous_thread_id=previous))

    async def clone(
        self, *, source_thread_id: str = "", title: str = "", resource_id: str = ""
    ) -> HarnessThread:
        """A thread that begins with everything the other one has said so far."""
        session = self._session
        async with self._turn:
            source_id = source_thread_id or session.thread.get_id()
            if source_id is None:
                raise UsageError("No source thread to clone", hint="name one, or select a thread first")
            await session.harness.require_memory()
            await session.runs.stop()
            self._check_there(source_id)
            metadata = self._metadata_of_clone(source_id, title, resource_id)
            store, thread_id = session.harness.store, metadata.session_id
            secrets = session.harness.secrets
            bound = await self._take(thread_id, lambda: create_bound(store, metadata, secrets))
            created = ThreadCreated(
                id=thread_id,
                resource_id=metadata.resource_id,
                title=metadata.name,
                cloned_from=source_id,
                metadata=metadata.settings,
            )
            session.append_all([created], thread_id)
            bound.close_inherited(_LEFT_TO_THE_SOURCE)
            session.bus.deliver()
            self._load()
            return thread_of(bound.metadata)

    async def rename(self, *, title: str, cycle_id: str = "") -> None:
        """Without a thread nothing happens."""
        bound = self._session.thread.bound
        if bound is None:
            return
        title = bound.title_as_kept(title)
        if bound.metadata.name == title:
            return
        old_title, bound.metadata.name = bound.metadata.name, title
        bound.metadata.updated_ms = bound.hub.clock()
        bound.save()
        self._session.append(ThreadRenamed(title=title, old_title=old_title, cycle_id=cycle_id))

    async def delete(self, *, thread_id: str) -> None:
        """Raises UnknownSession, and LogLocked when somebody else has it."""
        session = self._session
        if not session.harness.has_storage:
            return
        async with self._turn:
            self._check_there(thread_id)
            was_current = session.thread.get_id() == thread_id
            if was_current:
                await self._let_go()
            try:
                self._remove(thread_id)
            except HarnessError:
                if was_current:
                    await self._take_back(thread_id)
                raise
            session.bus.tell(ThreadDeleted(thread_id=thread_id, was_current=was_current))

    async def let_go(self) -> None:
        """No thread is in hand any more; whoever takes it up next may answer what waits."""
        async with self._turn:
            await self._session.runs.leave()
            await self._let_go()

    async def _create(self, title: str, thread_id: str) -> HarnessThread:
        session = self._session
        await session.runs.stop()
        thread_id = thread_id or session.harness.new_id()
        if not is_log_id(thread_id):
            raise UsageError(
                f"no thread can be named {thread_id!r}", hint="use 1 to 128 letters, digits, - and _"
            )
        mode = session.mode.resolve()
        model_id = session.model.get() or mode.default_model_id
        settings: dict[str, Any] = {"currentModeId": mode.id}
        if model_id:
            settings |= {"currentModelId": model_id, f"modeModelId_{mode.id}": model_id}
        if project := session.state.peek("projectPath"):
            settings["projectPath"] = project
        metadata = self._metadata(thread_id, title, settings)
        store, secrets = session.harness.store, session.harness.secrets
        bound = await self._take(thread_id, lambda: create_bound(store, metadata, secrets))
        session.append(
            ThreadCreated(
                id=thread_id,
                resource_id=metadata.resource_id,
                title=metadata.name,
                state=session.state.stored() or None,
                metadata=metadata.settings,
            )
        )
        return thread_of(bound.metadata)

    def _remove(self, thread_id: str) -> None:
        """With the threads beside it, of its sub-agents and judges: nobody else knows of them, and while they are
        there, what they began with is. Raises LogLocked before anything is gone.
        """
        store = self._session.harness.store
        if not store.is_live(thread_id):
            sides = store.find(Query(kind="thread", settings={HIDDEN: True, "parentThreadId": thread_id}))
            for side in sides:
                self._remove(side.session_id)
        store.delete(thread_id)

    async def _let_go(self) -> None:
        session = self._session
        await session.runs.stop()
        bound, session.thread.bound = session.thread.bound, None
        if bound is not None:
            try:
                session.use_no_thread()
            finally:
                await self._close(bound)

    async def _take(self, thread_id: str, open_thread: Callable[[], BoundThread]) -> BoundThread:
        session = self._session
        lock, old = session.harness.thread_lock, session.thread.bound
        await call(lock.acquire, thread_id)
        try:
            bound = open_thread()
        except BaseException:
            await quietly_release(lock, thread_id)
            raise
        try:
            session.use(bound)
        except BaseException:
            await self._close(bound)
            raise
        if old is not None:
            await self._close(old)
        return bound

    async def _close(self, bound: BoundThread) -> None:
        """Whatever fails on the way, nobody holds it afterwards."""
        try:
            bound.close()
        except Exception:
            _logger.exception("thread %s could not be closed in order", bound.id)
        finally:
            await quietly_release(self._session.harness.thread_lock, bound.id)

    async def _take_back(self, thread_id: str) -> None:
        """It could not be deleted: whoever worked in it goes on there, if that is possible."""
        try:
            await self._take(thread_id, lambda: self._open(thread_id))
        except Exception:
            _logger.warning("thread %s could not be taken in hand again", thread_id, exc_info=True)

    def _open(self, thread_id: str) -> BoundThread:
        return open_bound(self._session.harness.store, thread_id, self._session.harness.secrets)

    def _check_there(self, thread_id: str) -> None:
        if not self._session.harness.holds(thread_id):
            raise UnknownSession(f"Thread not found: {thread_id}", hint="session.thread.list() shows them")

    def _metadata(self, thread_id: str, title: str, settings: dict[str, Any]) -> Metadata:
        return Metadata(
            session_id=thread_id,
            kind="thread",
            start_time=str(self._session.harness.clock() // 1000),
            name=title,
            agent=self._session.harness.id,
            resource_id=self._session.identity.get_resource_id(),
            cwd=self._session.cwd,
            settings=settings,
        )

    def _metadata_of_clone(self, source_id: str, title: str, resource_id: str) -> Metadata:
        harness = self._session.harness
        source = harness.store.metadata(source_id)
        settings = {k: v for k, v in source.settings.items() if k not in _FORGOTTEN_BY_CLONES}
        metadata = self._metadata(harness.new_id(), title or source.name or "Cloned Thread", settings)
        metadata.resource_id = spelled_out(resource_id) or source.resource_id
        metadata.fork = Fork(source_id, harness.end_of(source_id))
        return metadata

    def _load(self) -> None:
        """Mode, model and the rest as the thread had them. What cannot be read is left as it is."""
        try:
            self._restore()
        except Exception:
            thread_id = self._session.thread.get_id()
            _logger.warning("not all that thread %s had could be restored", thread_id, exc_info=True)

    def _restore(self) -> None:
        session = self._session
        bound = session.thread.bound
        assert bound is not None, "a thread was taken"
        # The log is the truth: a process may have died before it could save the setting.
        saved_mode = bound.fold.facts.mode_id or bound.setting("currentModeId")
        if saved_mode in session.harness.mode_ids and saved_mode != session.mode.get():
            previous = session.mode.enter(saved_mode)
            session.append(ModeChanged(mode_id=saved_mode, previous_mode_id=previous))
        if bound.setting("currentModeId") not in (None, session.mode.get()):
            session.thread.save_setting("currentModeId", session.mode.get())
        mode = session.mode.resolve()
        model_id = session.model.resolve_for_mode(mode) or bound.setting("currentModelId")
        if model_id:
            session.model.select(str(model_id))
        memory = {key: value for key in _MEMORY_KEYS if (value := bound.setting(key)) is not None}
        changed, unsaid = session.state.restore(bound.fold.facts.state, memory)
        if unsaid:
            session.append(StateChanged(changes=unsaid))
        if news := [key for key in changed if key not in unsaid]:
            state = {**bound.fold.facts.state, **memory}
            session.bus.emit(StateRestored(state=state, changed_keys=news))
        thresholds = {
            "observationThreshold": session.om.observer.threshold(),
            "reflectionThreshold": session.om.reflector.threshold(),
        }
        missing = {key: value for key, value in thresholds.items() if bound.setting(key) is None}
        if missing:
            bound.save_settings(missing)
        target = session.harness.plan_target(mode)
        if bound.fold.facts.is_plan_approved and not bound.fold.facts.open_run and target.id != mode.id:
            session.mode.change(target.id)  # whoever approved the plan was stopped before he could do it
