"""Conversations that several servers share: the server that has one loaded carries out the commands of the others'
clients, too.

Rules
1. A command for a conversation that this server has loaded, or that no server has, is carried out here.
2. Every other command is put into the database for the server that has the conversation, and its result is awaited.
   The client gets the error message of that server.
3. When that server dies: a command that it did not take is carried out by the server that sent it. One that it took
   and did not answer is carried out again only if the log does not show that it was carried out.
4. A command that no server takes in time is withdrawn, and the client gets an error.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from harness import errors
from harness.agents.registry import load
from harness.clients import commands
from harness.clients.commands import Command, Submit
from harness.clients.conversations.backend import Backend, ConversationStatus, Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.clients.conversations.local_socket import LiveLinks
from harness.contracts.agent import Agent
from harness.contracts.request import OWN_AGENT, REMOTE_AGENT
from harness.errors import HarnessError, LogLocked, StoreError, UnknownSession, UsageError
from harness.events import Event, FollowUpsChanged, Message, SteeringQueued
from harness.log.hub import Hub
from harness.log.ids import is_log_id
from harness.log.query import waits
from harness.log.store import Store, read_all
from harness.log.stores.files import FileStore
from harness.log.stores.postgres.commands import PostgresCommands, TakenCommand
from harness.log.stores.postgres.store import PostgresStore
from harness.session.bus import Bus

# The backend of a server that has its files for itself: sessions of other programs of the user take commands, too.


class LinkedBackend:
    """A `Backend` around the conversations of this server. A command for a session that `harness chat` or `harness
    run` has is sent there.
    """

    def __init__(self, own: LocalBackend, store: FileStore) -> None:
        self._own = own
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._listeners: list[Callable[[str], None]] = []
        self._links = LiveLinks(self._changed)

    def check(self, setup: Setup, prompt: Submit | None = None) -> None:
        self._own.check(setup, prompt)

    async def create(self, setup: Setup, log_id: str = "") -> str:
        return await self._own.create(setup, log_id)

    async def carry_out(self, log_id: str, command: Command) -> None:
        is_ours = self._own.hub(log_id) is not None
        if not is_ours and await asyncio.to_thread(self._is_reached, log_id):
            await asyncio.to_thread(self._links.send, log_id, command)
        else:
            await self._own.carry_out(log_id, command)

    def _is_reached(self, log_id: str) -> bool:
        return is_log_id(log_id) and self._store.is_live(log_id) and self._links.reaches(log_id)

    async def load(self, log_id: str) -> None:
        await self._own.load(log_id)

    def status(self, log_id: str) -> ConversationStatus:
        status = self._own.status(log_id)
        if status.is_ours or not is_log_id(log_id):
            return status
        return self._links.status(log_id) or status

    def hub(self, log_id: str) -> Hub | None:
        return self._own.hub(log_id)

    def bus(self, log_id: str) -> Bus | None:
        return self._own.bus(log_id)

    def listen(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)
        self._own.listen(listener)

    def listen_to_replacements(self, listener: Callable[[str], None]) -> None:
        self._own.listen_to_replacements(listener)

    async def unload_idle(self, is_watched: Callable[[str], bool]) -> None:
        await self._own.unload_idle(is_watched)

    async def unload(self, log_id: str) -> None:
        await self._own.unload(log_id)

    async def close(self) -> None:
        self._links.close()
        await self._own.close()

    def _changed(self, log_id: str) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._notify, log_id)

    def _notify(self, log_id: str) -> None:
        for listener in self._listeners:
            listener(log_id)


_POLL_S = 1.0
_KINDS: dict[str, type[HarnessError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, HarnessError)
}
_TAKEN_WITHIN_S = 15.0
_ANSWERED_WITHIN_S = 45.0
"""Both since the command was sent."""


class Release(msgspec.Struct, frozen=True, tag_field="type", tag="let_go"):
    """Sent by another server, never by a client: unload the conversation unless it runs."""


Wanted: TypeAlias = Command | Release
_decoder = msgspec.json.Decoder(Wanted)


class SharedBackend:
    """A `Backend` around the conversations of this server."""

    def __init__(
        self,
        own: LocalBackend,
        store: PostgresStore,
        *,
        taken_within_s: float = _TAKEN_WITHIN_S,
        answered_within_s: float = _ANSWERED_WITHIN_S,
    ) -> None:
        self._own = own
        self._store = store
        self._mailbox = store.commands
        self._taken_within_s = taken_within_s
        self._answered_within_s = answered_within_s
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking = asyncio.Lock()
        self._stop_listening = self._mailbox.listen(self._woken)

    def check(self, setup: Setup, prompt: commands.Submit | None = None) -> None:
        self._own.check(setup, prompt)

    async def create(self, setup: Setup, log_id: str = "") -> str:
        if setup.continues:
            await self._release_elsewhere(setup.continues)
        return await self._own.create(setup, log_id)

    async def carry_out(self, log_id: str, command: Command) -> None:
        if isinstance(command, commands.Resume) and command.session_id not in ("", log_id):
            await self._release_elsewhere(command.session_id)
        await self._carry_out(log_id, command)

    async def _carry_out(self, log_id: str, sent_command: Wanted) -> None:
        """Here, or by the server that has it, which may change meanwhile."""
        now_s = self._loop.time()
        deadlines = Deadlines(now_s + self._taken_within_s, now_s + self._answered_within_s)
        asking = RemoteCommand(self._mailbox, log_id, secrets.token_hex(16), deadlines)
        command, seen_seq = msgspec.json.encode(sent_command), None
        await self._unload_lost(log_id)
        while True:
            if await self._is_elsewhere(log_id):
                outcome = await asking.ask(command, seen_seq)
                if isinstance(outcome, CommandOutcome):
                    return outcome.check()
                seen_seq = outcome.seen_seq
            try:
                return await self._carry_out_here(log_id, sent_command, seen_seq)
            except LogLocked:
                if self._loop.time() > deadlines.taken_s or not await self._is_elsewhere(log_id):
                    raise
                # another server was faster: it gets the command

    async def _is_elsewhere(self, log_id: str) -> bool:
        """Whether another process has it."""
        return self._own.hub(log_id) is None and await asyncio.to_thread(self._store.is_live, log_id)

    async def _carry_out_here(self, log_id: str, sent_command: Wanted, seen_seq: int | None) -> None:
        """`seen_seq`: a server that died may have carried it out already; the log from there on shows that."""
        if seen_seq is not None and await asyncio.to_thread(self._is_logged, log_id, sent_command, seen_seq):
            return
        if isinstance(sent_command, Release):
            if self._own.status(log_id).is_running:
                raise LogLocked(
                    "a run is in progress in the session", hint="wait until it has ended, or stop it"
                )
            await self._own.unload(log_id)
        elif seen_seq is not None and isinstance(
            sent_command, commands.Approve | commands.Deny | commands.AnswerCommand | commands.Withdraw
        ):
            with suppress(UsageError):  # nothing waits for it any more: it was carried out
                await self._own.carry_out(log_id, sent_command)
        else:
            await self._own.carry_out(log_id, sent_command)

    def _is_logged(self, log_id: str, sent_command: Wanted, seen_seq: int) -> bool:
        if isinstance(sent_command, commands.Submit | commands.Resume):
            text = sent_command.prompt
        elif isinstance(sent_command, commands.Steer):
            text = sent_command.message
        else:
            return False  # it changes nothing to do it twice
        return any(_has_text(event, text) for event in read_all(self._store, log_id, seen_seq))

    async def _release_elsewhere(self, log_id: str) -> None:
        """Release it there, unless it runs: then opening it here fails."""
        with suppress(HarnessError):
            if await self._is_elsewhere(log_id):
                await self._carry_out(log_id, Release())

    async def load(self, log_id: str) -> None:
        await self._own.load(log_id)

    def status(self, log_id: str) -> ConversationStatus:
        status = self._own.status(log_id)
        if status.is_ours:
            return status
        metadata = self._store.metadata(log_id)
        if metadata.kind != "thread":
            return status
        agent = load(metadata.agent_name) if metadata.agent_name else None
        return replace(
            status,
            is_elsewhere=True,
            is_waiting=waits(metadata),
            can_submit=True,
            can_steer=metadata.agent_name in (OWN_AGENT, REMOTE_AGENT) or _takes_steering(agent),
            can_answer=agent is not None and (agent.work is not None or agent.two_way is not None),
            can_cancel=True,
            can_branch=metadata.agent_name == OWN_AGENT,
        )

    def hub(self, log_id: str) -> Hub | None:
        return self._own.hub(log_id)

    def bus(self, log_id: str) -> Bus | None:
        return self._own.bus(log_id)

    def listen(self, listener: Callable[[str], None]) -> None:
        self._own.listen(listener)

    def listen_to_replacements(self, listener: Callable[[str], None]) -> None:
        self._own.listen_to_replacements(listener)

    async def unload_idle(self, is_watched: Callable[[str], bool]) -> None:
        await self._unload_lost()
        await self._own.unload_idle(is_watched)

    async def _unload_lost(self, log_id: str = "") -> None:
        """Unload what another server took while we had lost the database."""
        if log_id and self._own.hub(log_id) is None:
            return
        try:
            lost = await asyncio.to_thread(self._store.lost)
        except StoreError:
            return  # no server can take anything while the database is away
        for conversation in lost:
            if log_id in ("", conversation) and self._own.hub(conversation) is not None:
                await self._own.unload(conversation)

    async def unload(self, log_id: str) -> None:
        await self._own.unload(log_id)
        await self._release_elsewhere(log_id)

    async def close(self) -> None:
        self._stop_listening()
        for task in list(self._tasks):
            task.cancel()
        await self._own.close()

    def _woken(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(lambda: self._start(self._take()))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self) -> None:
        """Take commands of other servers for conversations that are loaded here."""
        async with self._taking:  # so that what was taken first is started first
            try:
                taken_commands = await asyncio.to_thread(self._mailbox.take)
            except StoreError:
                return  # the other server reminds us
            for command in taken_commands:
                self._start(self._answer(command))

    async def _answer(self, command: TakenCommand) -> None:
        outcome = CommandOutcome()
        try:
            await self._carry_out_here(command.log_id, _decoder.decode(command.command), command.seen_seq)
        except HarnessError as error:
            if isinstance(error, LogLocked) and self._own.hub(command.log_id) is None:
                await self._quietly(lambda: self._mailbox.give_back(command.key))
                return
            outcome = CommandOutcome(type(error).__name__, error.message, error.hint)
        except msgspec.DecodeError as error:
            outcome = CommandOutcome(
                "UsageError", f"the server that runs it does not know this command: {error}"
            )
        except Exception as error:  # noqa: BLE001 # the other server waits for an outcome
            outcome = CommandOutcome("HarnessError", "an internal error of the server that runs it")
            self._loop.call_exception_handler({"message": "a command of another server", "exception": error})
        await self._quietly(lambda: self._mailbox.answer(command.key, msgspec.json.encode(outcome)))

    async def _quietly(self, work: Callable[[], None]) -> None:
        with suppress(StoreError):  # the other server checks whether we are still there
            await asyncio.to_thread(work)


def open_backend(store: Store, default: Setup) -> Backend:
    """The backend for a store: one server with its files, or one of several servers."""
    if isinstance(store, FileStore):
        return LinkedBackend(LocalBackend(store, default), store)
    if not isinstance(store, PostgresStore):
        return LocalBackend(store, default)
    return SharedBackend(LocalBackend(store, default, is_shared=True), store)


def _takes_steering(agent: Agent | None) -> bool:
    return agent is not None and agent.two_way is not None and "steer" in agent.two_way.capabilities


def _has_text(event: Event, text: str) -> bool:
    """Whether the event is a user message with this text, or a queue with it."""
    if isinstance(event, Message):
        return event.role == "user" and text in event.text
    if isinstance(event, SteeringQueued):
        return event.text == text
    return isinstance(event, FollowUpsChanged) and any(
        isinstance(message, dict) and message.get("text") == text for message in event.pending
    )


class CommandOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a command: all empty when it was carried out."""

    kind: str = ""
    message: str = ""
    hint: str = ""

    def check(self) -> None:
        """Raises the error that the other server found."""
        if self.kind:
            raise _KINDS.get(self.kind, UsageError)(self.message, hint=self.hint)


class Lost(NamedTuple):
    """The command was not carried out: the server that had the log has released it, or died."""

    seen_seq: int | None
    """A server that died may have carried it out; the log from there on shows that."""


class Deadlines(NamedTuple):
    """By the loop's clock."""

    taken_s: float
    answered_s: float


class RemoteCommand:
    """One command for one log. Contract: lives in one event loop."""

    def __init__(self, mailbox: PostgresCommands, log_id: str, key: str, deadlines: Deadlines) -> None:
        self._mailbox = mailbox
        self._log_id = log_id
        self._key = key
        self._deadlines = deadlines
        self._loop = asyncio.get_running_loop()

    async def ask(self, command: bytes, seen_seq: int | None) -> CommandOutcome | Lost:
        """Raises LogLocked when it was not taken in time, StoreError when it was not answered, UnknownSession."""
        woken = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(woken.set)

        stop = await asyncio.to_thread(self._mailbox.listen_for_result, self._key, wake)
        try:
            within_s = max(0.0, self._deadlines.taken_s - self._loop.time())
            await asyncio.to_thread(self._leave, command, within_s, seen_seq)
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), _POLL_S)
                woken.clear()
                try:
                    outcome = await asyncio.to_thread(self._look, seen_seq, self._loop.time())
                except LogLocked:
                    raise
                except StoreError:
                    if self._loop.time() > self._deadlines.answered_s:
                        raise
                    continue  # the database may come back
                if outcome is not None:
                    return outcome
        finally:
            stop()

    def _leave(self, command: bytes, within_s: float, seen_seq: int | None) -> None:
        self._mailbox.leave(self._log_id, self._key, command, within_s=within_s, seen_seq=seen_seq)

    def _look(self, seen_seq: int | None, now_s: float) -> CommandOutcome | Lost | None:
        mailbox, key = self._mailbox, self._key
        state = mailbox.look(key)
        if state is None:
            raise UnknownSession(f"session {self._log_id} was deleted meanwhile")
        if state.has_result:
            result = mailbox.fetch(key)
            return None if result is None else msgspec.json.decode(result, type=CommandOutcome)
        if state.taken_by and not state.is_being_done:
            taken_seq = mailbox.take_back(key, state.taken_by)
            seqs = [seq for seq in (seen_seq, taken_seq) if seq is not None]
            return None if taken_seq is None else Lost(min(seqs))
        if state.taken_by:
            self._check_answered(state.taken_by, now_s)
        elif not state.is_held:
            return Lost(seen_seq) if mailbox.withdraw(key) else None
        elif now_s > self._deadlines.taken_s:
            self._give_up()
        else:
            mailbox.remind()
        return None

    def _give_up(self) -> None:
        if self._mailbox.withdraw(self._key):
            raise LogLocked(
                f"session {self._log_id} is open in another process, which does not take commands: nothing was done",
                hint="wait until it has ended, or stop it",
            )

    def _check_answered(self, taken_by: str, now_s: float) -> None:
        if now_s > self._deadlines.answered_s:
            raise StoreError(
                f"process {taken_by} took the command and has not answered",
                hint="look at the conversation before you send it again",
            )
