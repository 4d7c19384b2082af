"""The threads of a session: which one is in hand, how that is changed, and what can be read of all of them."""

from __future__ import annotations

import logging
from builtins import list as List  # noqa: N812
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from harness.errors import UnknownSession, UsageError
from harness.log.store import Query, read_all
from harness.rendering.session.events import FilePart, HarnessMessage, HarnessThread, ImagePart, TextPart
from harness.rendering.session.translation import history_messages
from harness.session.open_thread import BoundThread, known_thread, thread_of

if TYPE_CHECKING:
    from harness.session.session import Session

_logger = logging.getLogger("harness.session")
_FORK_MARK = "forkedSubagent"
_FIRST_EVENTS = 64
_SAID = (TextPart, ImagePart, FilePart)


class Threads:
    """`session.thread`. Without storage there is nothing to be read, and nothing is kept."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.bound: BoundThread | None = None

    def get_id(self) -> str | None:
        return self.bound.id if self.bound is not None else None

    def is_set(self) -> bool:
        return self.bound is not None

    def require_id(self) -> str:
        if self.bound is None:
            raise UsageError("No active thread on here", hint="call select_or_create_thread() first")
        return self.bound.id

    async def select_or_create(self) -> HarnessThread:
        """Take the one in hand that was last changed and that no other session has, or a new one. Nobody is told of
        a selection.
        """
        return await self._session.binding.select_or_create()

    async def create(self, *, title: str = "", id: str = "") -> HarnessThread:
        """Raises UsageError for an id that cannot be one, and StoreError."""
        return await self._session.binding.create(title=title, thread_id=id)

    async def switch(self, *, thread_id: str) -> None:
        """Raises UnknownSession, and LogLocked when somebody else has it."""
        await self._session.binding.switch(thread_id=thread_id)

    async def clone(
        self, *, source_thread_id: str = "", title: str = "", resource_id: str = ""
    ) -> HarnessThread:
        """Begin a thread with everything that another one, or the one in hand, has said so far."""
        return await self._session.binding.clone(
            source_thread_id=source_thread_id, title=title, resource_id=resource_id
        )

    async def rename(self, *, title: str) -> None:
        """The one in hand; without one nothing happens."""
        await self._session.binding.rename(title=title)

    async def delete(self, *, thread_id: str) -> None:
        """Raises UnknownSession, and LogLocked when somebody else has it."""
        await self._session.binding.delete(thread_id=thread_id)

    def list(
        self, *, all_resources: bool = False, include_forked_subagents: bool = False
    ) -> List[HarnessThread]:
        """The last changed first. Raises StoreError."""
        harness = self._session.harness
        if not harness.has_storage:
            return []
        query = Query(
            kind="thread",
            resource_id=None if all_resources else self._session.identity.get_resource_id(),
            without_settings=() if include_forked_subagents else (_FORK_MARK,),
        )
        return [thread_of(metadata) for metadata in harness.store.find(query)]

    def get_by_id(self, *, thread_id: str) -> HarnessThread | None:
        harness = self._session.harness
        try:
            metadata = known_thread(harness.store, thread_id) if harness.has_storage else None
        except UnknownSession:
            return None
        return thread_of(metadata) if metadata is not None and not metadata.deleted else None

    def list_messages(self, *, thread_id: str, limit: int | None = None) -> List[HarnessMessage]:
        """The newest `limit`, the oldest of them first."""
        harness = self._session.harness
        if not harness.has_storage or limit == 0:
            return []
        try:
            start = 0 if limit is None else harness.store.messages(thread_id, limit)
            messages = history_messages(read_all(harness.store, thread_id, start))
        except UnknownSession:
            return []
        return messages if limit is None else messages[-limit:]

    def list_active_messages(self, *, limit: int | None = None) -> List[HarnessMessage]:
        thread_id = self.get_id()
        return [] if thread_id is None else self.list_messages(thread_id=thread_id, limit=limit)

    def first_user_message(self, *, thread_id: str) -> HarnessMessage | None:
        harness = self._session.harness
        if not harness.has_storage:
            return None
        try:
            reader = harness.store.reader(thread_id)
        except UnknownSession:
            return None
        try:
            while batch := reader.read(_FIRST_EVENTS):
                said = (message for message in history_messages(batch) if _is_said(message))
                if (first := next(said, None)) is not None:
                    return first
        finally:
            reader.close()
        return None

    def first_user_messages(self, *, thread_ids: Iterable[str]) -> dict[str, HarnessMessage]:
        found = {thread_id: self.first_user_message(thread_id=thread_id) for thread_id in thread_ids}
        return {thread_id: message for thread_id, message in found.items() if message is not None}

    async def get_setting(self, *, key: str) -> Any:
        """Of the thread in hand; None when it has none of that name."""
        return self.setting(key) if self._session.harness.has_storage else None

    async def set_setting(self, *, key: str, value: Any) -> None:
        """Keep something with the thread in hand. Best effort."""
        if self._session.harness.has_storage:
            self.save_setting(key, value)

    async def delete_setting(self, *, key: str) -> None:
        await self.set_setting(key=key, value=None)

    def setting(self, key: str) -> Any:
        return None if self.bound is None else self.bound.setting(key)

    def save_setting(self, key: str, value: Any) -> None:
        if self.bound is not None:
            self.bound.save_settings({key: value})


def _is_said(message: HarnessMessage) -> bool:
    """Whether a person said it: signals look like messages of the user's as well."""
    return message.role == "user" and any(isinstance(part, _SAID) for part in message.content)


async def quietly_release(lock: Any, thread_id: str) -> None:
    """Let a lock go whatever happens: the thread it belongs to is being left anyway."""
    from harness.session.locking import call

    try:
        await call(lock.release, thread_id)
    except Exception:
        _logger.warning("the lock of thread %s could not be released", thread_id, exc_info=True)
