"""The sessions that a client of ACP can open: those of Harness, and those that agents have stored themselves."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec.structs import replace

from harness.clients.acp.options import OptionList
from harness.clients.acp.wire import INVALID_PARAMETERS, NO_SESSION, RpcError
from harness.clients.commands import Command
from harness.clients.conversations.backend import Backend, Setup
from harness.clients.conversations.conversation import setup_of
from harness.clients.conversations.local_socket import LocalSocketServer
from harness.config import Settings
from harness.contracts.request import OWN_AGENT
from harness.errors import HarnessError, UnknownSession
from harness.events import Event
from harness.log.ids import is_log_id
from harness.log.store import Metadata, Query, Store
from harness.log.stores.files import FileStore

if TYPE_CHECKING:
    from harness.clients.sessions.any_session import AnySession
    from harness.clients.sessions.histories import HistorySessions

PAGE = 50
_MOST_LISTED = 2_000
_LONGEST_TITLE = 200
_LOOK_S = 0.1


class SessionClient(Protocol):
    def has_open(self, log_id: str) -> bool: ...


class AcpHost:
    """What all clients of this process share. Contract: lives in one event loop.

    `histories`: whether sessions that agents have stored themselves are offered. `is_reachable`: other programs of the
    user can answer what is asked here, too.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        default: Setup,
        settings: Settings,
        *,
        histories: bool = False,
        is_reachable: bool = False,
    ) -> None:
        self.store, self.backend, self.default = store, backend, default
        self.options = OptionList(settings)
        self.has_histories = histories and isinstance(store, FileStore)
        self._histories: HistorySessions | None = None
        self._lister = ThreadPoolExecutor(1, "session-list")
        """The catalogue of histories is used by the thread that has opened it, and by no other one."""
        self._is_reachable = is_reachable
        self._sockets: dict[str, LocalSocketServer] = {}
        self._loop = asyncio.get_running_loop()
        self._listeners: list[Callable[[str], None]] = []
        self.clients: list[SessionClient] = []
        backend.listen(self._changed)

    def listen(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call it with the id of every conversation that has changed; returns a function that stops it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def has_another(self, client: SessionClient, log_id: str) -> bool:
        """Whether a client besides this one has the session open."""
        return any(other is not client and other.has_open(log_id) for other in self.clients)

    def _changed(self, log_id: str) -> None:
        if (socket := self._sockets.get(log_id)) is not None:
            socket.notify()
        for listener in list(self._listeners):
            listener(log_id)

    async def create(self, cwd: str) -> str:
        return self.opened(await self.backend.create(replace(self.default, cwd=cwd)))

    async def fork(self, session_id: str, cwd: str) -> str:
        """A new conversation with the history of another one. Raises HarnessError."""
        session = await self.open(session_id)
        if session.stored is not None:
            raise RpcError(
                INVALID_PARAMETERS, "a session in the history of an agent is continued, not forked"
            )
        return self.opened(await self.backend.create(Setup(continues=session.log_id, cwd=cwd)))

    async def open(self, session_id: str) -> OpenedSession:
        """Raises RpcError for a session that does not exist."""
        if is_log_id(session_id):
            metadata = await asyncio.to_thread(self._metadata, session_id)
            return OpenedSession(session_id, metadata)
        if not self.has_histories or ":" not in session_id:
            raise RpcError(
                NO_SESSION, f"there is no session {session_id[:80]!r}", {"sessionId": session_id[:200]}
            )
        return await asyncio.to_thread(self._stored, session_id)

    def _metadata(self, session_id: str) -> Metadata:
        try:
            return self.store.metadata(session_id)
        except UnknownSession as error:
            raise RpcError(NO_SESSION, error.words, {"sessionId": session_id}) from error

    def _stored(self, session_id: str) -> OpenedSession:
        from harness.clients.sessions.any_session import find_session

        assert isinstance(self.store, FileStore), "histories are beside files"
        try:
            session = find_session(self.store, session_id)
        except UnknownSession as error:
            raise RpcError(NO_SESSION, error.words, {"sessionId": session_id}) from error
        if session.log_id:
            return OpenedSession(session.log_id, self.store.metadata(session.log_id))
        metadata = Metadata(
            session_id=session_id, agent_name=session.agent, cwd=session.cwd, name=session.title
        )
        return OpenedSession("", metadata, session)

    async def revive(self, session: OpenedSession) -> None:
        """Load a conversation in which a process died: what it asked can be answered then, or is said to be lost."""
        log_id, about = session.log_id, session.metadata
        if not log_id or about.kind != "thread" or not about.activity or self.backend.hub(log_id) is not None:
            return
        if not await asyncio.to_thread(self.store.is_live, log_id):
            with suppress(HarnessError):  # then it is only watched
                await self.backend.load(log_id)
                self.opened(log_id)

    async def wait_for_answers(self, seconds: float) -> None:
        """While programs wait for an answer: they would end with this process. Other clients may give it.

        What the built-in agent asks stays open in the log.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        programs = [log_id for log_id in self._sockets if self.store.metadata(log_id).agent_name != OWN_AGENT]
        asking = [log_id for log_id in programs if self.backend.status(log_id).is_waiting]
        while loop.time() < until_s:
            states = [self.backend.status(log_id) for log_id in asking]
            if not any(state.is_waiting or state.is_running for state in states):
                return
            await asyncio.sleep(_LOOK_S)

    async def continued(self, session: OpenedSession, cwd: str) -> str:
        """The id of the conversation in which prompts for a session are answered. Raises HarnessError."""
        if session.stored is not None:
            setup = Setup(
                agent=session.stored.agent,
                agent_session=session.stored.session_id,
                cwd=session.stored.cwd or cwd,
            )
            return self.opened(await self.backend.create(setup))
        if session.metadata.kind != "thread":
            setup = Setup(continues=session.log_id, cwd=session.metadata.cwd or cwd)
            return self.opened(await self.backend.create(setup))
        return session.log_id

    def opened(self, log_id: str) -> str:
        """A conversation of this process can be answered by other programs."""
        if self._is_reachable and log_id not in self._sockets:
            self._sockets[log_id] = LocalSocketServer(
                log_id, lambda command: self._carry_out(log_id, command), lambda: self.backend.status(log_id)
            )
        return log_id

    def _carry_out(self, log_id: str, command: Command) -> None:
        """From a thread of the socket."""
        work = self.backend.carry_out(log_id, command)
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def carry_out(self, log_id: str, command: Command) -> None:
        """Raises HarnessError."""
        await self.backend.carry_out(log_id, command)
        if self.backend.hub(log_id) is not None:
            self.opened(log_id)

    def setup(self, session: OpenedSession) -> Setup:
        if session.stored is None and session.log_id:
            settings = setup_of(self.store.metadata(session.log_id))
            return settings if settings.agent else replace(settings, agent=self.default.agent)
        return replace(self.default, agent=session.metadata.agent_name or self.default.agent)

    async def forget(self, log_id: str) -> None:
        """Unload it: another process may open it."""
        if (socket := self._sockets.pop(log_id, None)) is not None:
            socket.close()
        await self.backend.unload(log_id)

    async def delete(self, session_id: str) -> None:
        """Raises HarnessError, RpcError."""
        session = await self.open(session_id)
        if session.stored is not None:
            raise RpcError(
                INVALID_PARAMETERS,
                f"this session is in the history of {session.stored.agent}, where Harness changes nothing",
            )
        await self.forget(session.log_id)
        await asyncio.to_thread(self.store.delete, session.log_id)

    async def rows(self, cwd: str, start: int) -> tuple[list[dict[str, Any]], int | None]:
        """A page of all sessions, the last changed first, and where the next one begins."""
        session_rows = await self._loop.run_in_executor(self._lister, self._listed, cwd, start + PAGE + 1)
        page = session_rows[start : start + PAGE]
        return page, start + PAGE if len(session_rows) > start + PAGE else None

    def _listed(self, cwd: str, most: int) -> list[dict[str, Any]]:
        rows = [
            (session.updated_ms, _row(session.session_id, session))
            for session in self.store.find(Query(limit=_MOST_LISTED))
            if session.cwd and (not cwd or session.cwd == cwd)
        ]
        if self.has_histories:
            rows += self._stored_rows(cwd, most)
        rows.sort(key=lambda session: -session[0])
        return [row for _changed_ms, row in rows]

    def _stored_rows(self, cwd: str, most: int) -> Iterator[tuple[int, dict[str, Any]]]:
        from harness.clients.sessions.filters import SessionChoice
        from harness.clients.sessions.histories import HistorySessions

        assert isinstance(self.store, FileStore), "histories are beside files"
        if self._histories is None:
            self._histories = HistorySessions()
        else:
            self._histories.refresh()
        choice = SessionChoice(project=cwd)
        listing = self._histories.listed(choice, self.store, min(most, _MOST_LISTED), lambda _words: None)
        for metadata in listing.sessions:
            if metadata.cwd.startswith("/"):
                name = f"{metadata.agent_name}:{metadata.agent_session_id}"
                yield metadata.updated_ms, _row(name, metadata)

    async def close(self) -> None:
        for socket in self._sockets.values():
            socket.close()
        self._sockets.clear()
        self._lister.shutdown(wait=False, cancel_futures=True)
        await self.backend.close()


class OpenedSession(NamedTuple):
    log_id: str
    """Empty: it is in the history of an agent."""
    metadata: Metadata
    stored: AnySession | None = None

    def batches(self) -> Iterator[Sequence[Event]]:
        """Of a session in the history of an agent: what it has."""
        if self.stored is not None:
            yield from self.stored.current_batches()


def _row(session_id: str, metadata: Metadata) -> dict[str, Any]:
    moment = dt.datetime.fromtimestamp(max(0, metadata.updated_ms) / 1000, dt.UTC)
    words = " ".join((metadata.name or metadata.prompt).split())
    about = {"agent": metadata.agent_name} if metadata.agent_name else {}
    return {
        "sessionId": session_id,
        "cwd": metadata.cwd,
        **({"title": words[:_LONGEST_TITLE]} if words else {}),
        "updatedAt": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        **({"_meta": {"harness": about}} if about else {}),
    }
