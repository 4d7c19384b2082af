"""The conversations of this process: created, loaded when needed, unloaded when idle; and where a rewind cuts a log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, assert_never
from weakref import WeakValueDictionary

from msgspec.structs import replace

from harness.clients import commands
from harness.clients.commands import Command
from harness.clients.conversations.backend import ConversationStatus, Setup
from harness.clients.conversations.conversation import HostedConversation, check_prompt, setup_of
from harness.clients.conversations.presets import checked
from harness.contracts.request import OWN_AGENT
from harness.errors import LogLocked, UsageError
from harness.events import Event, FollowUpsChanged, Message, SessionStart, ThreadCreated
from harness.log.clock import new_clock
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.query import waits
from harness.log.run_tree import RunTree
from harness.log.store import Fork, Metadata, Store, read_all
from harness.session.bus import Bus
from harness.session.mcp_servers import McpStatus
from harness.session.open_thread import complete

_NO_CHANGES: Mapping[str, Any] = MappingProxyType({})
_IDLE_S = 300.0
_SHARED_IDLE_S = 30.0
_MOST_IDLE = 16
"""How many idle, unwatched conversations stay loaded: each takes a file and memory."""


class LocalBackend:
    """A `Backend`. `default`: the setup for what a request leaves open. `is_shared`: other servers have the same store:
    an idle conversation is unloaded soon, even while it is watched, so that they can load it.
    """

    def __init__(
        self, store: Store, default: Setup, *, idle_s: float | None = None, is_shared: bool = False
    ) -> None:
        self._store = store
        self._default = default
        self._is_shared = is_shared
        self._idle_s = (_SHARED_IDLE_S if is_shared else _IDLE_S) if idle_s is None else idle_s
        self._clock = new_clock()
        self._open: dict[str, HostedConversation] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By log id; each exists only while it is held or waited for."""
        self._listeners: list[Callable[[str], None]] = []
        self._replacement_listeners: list[Callable[[str], None]] = []

    async def create(self, setup: Setup, log_id: str = "") -> str:
        before = self._store.metadata(setup.continues) if setup.continues else None
        setup = self._completed(setup, before)
        if setup.before and setup.agent != OWN_AGENT:
            raise UsageError(
                f"{setup.agent} has its own memory of the conversation: it cannot go back to an earlier message",
                hint="continue the whole session, or start a new one",
            )
        log_id = log_id or new_run_id(self._clock())
        conversation = HostedConversation(self._store, setup, lambda: self._changed(log_id))
        if before is None:
            await conversation.create(log_id)
        else:
            await asyncio.to_thread(self._fork, before, log_id, setup)
            await conversation.open(log_id, is_new=True)
        self._open[log_id] = conversation
        self._changed(log_id)
        return log_id

    def check(self, setup: Setup, prompt: commands.Submit | None = None) -> None:
        before = self._store.metadata(setup.continues) if setup.continues else None
        agent = self._completed(setup, before).agent
        if prompt is not None:
            check_prompt(agent, prompt)

    def _completed(self, setup: Setup, before: Metadata | None) -> Setup:
        """The setup with missing values filled in. Raises UsageError when it is invalid."""
        fallbacks = [self._default] if before is None else [setup_of(before), self._default]
        for fallback in fallbacks:
            setup = _filled(setup, fallback)
        return checked(setup)

    def _check_ended(self, log_id: str) -> None:
        """Raises LogLocked while it runs."""
        conversation = self._open.get(log_id)
        is_live = self._store.is_live(log_id) if conversation is None else conversation.is_running
        if is_live:
            raise LogLocked("the session is still being written", hint="wait until it has ended")

    def _fork(self, before: Metadata, log_id: str, setup: Setup) -> None:
        """Create a log that continues another one. Raises LogLocked while that one runs."""
        self._check_ended(before.session_id)
        complete(self._store, before.session_id)
        events = read_all(self._store, before.session_id)
        if setup.before:
            end = place_before(events, setup.before)
        else:
            end = max((event.seq + 1 for event in events), default=0)
        metadata = Metadata(
            session_id=log_id,
            kind="thread",
            name=setup.title or before.name,
            cwd=setup.cwd,
            prompt="" if setup.before else before.prompt,
            fork=Fork(before.session_id, end),
        )
        hub = Hub(self._store, log_id, self._store.create(metadata), self._clock)
        created = ThreadCreated(id=log_id, title=metadata.name, cloned_from=before.session_id)
        hub.source(log_id).append([created])
        hub.close()

    async def carry_out(self, log_id: str, command: Command) -> None:
        async with self._locks.setdefault(log_id, asyncio.Lock()):
            conversation = await self._conversation(log_id)
            match command:
                case commands.Submit():
                    await conversation.submit(command)
                case commands.Resume():
                    await self._resume(log_id, conversation, command)
                case commands.Cancel():
                    conversation.cancel(command.queue)
                case commands.Continue():
                    await conversation.send_queued()
                case commands.Steer():
                    conversation.steer(command.message)
                case commands.Approve() | commands.Deny() | commands.AnswerCommand():
                    await conversation.answer(command)
                case commands.Revoke():
                    conversation.revoke(command.grant_id)
                case commands.Configure():
                    await conversation.configure(command.config)
                case commands.Compact():
                    await conversation.compact(command.focus)
                case commands.Withdraw():
                    conversation.withdraw(command.follow_up_id)
                case commands.Rename():
                    await conversation.rename(command.title)
                case _:
                    assert_never(command)

    async def _resume(self, log_id: str, conversation: HostedConversation, command: commands.Resume) -> None:
        prompt = commands.Submit(id=command.id, prompt=command.prompt)
        if command.session_id not in ("", log_id):
            check_prompt(conversation.setup.agent, prompt)
            conversation = await self._continuing(log_id, conversation, command.session_id)
        await conversation.submit(prompt)

    async def _continuing(
        self, log_id: str, empty: HostedConversation, session_id: str
    ) -> HostedConversation:
        """Replace an empty conversation by one that continues a session that has ended."""
        before = self._store.metadata(session_id)
        if empty.has_messages:
            raise UsageError(
                "this conversation has messages already, so it cannot start with another session's history",
                hint="resume that session in a new conversation, or submit the prompt here",
            )
        self._check_ended(session_id)
        await empty.close()
        del self._open[log_id]
        await asyncio.to_thread(self._store.delete, log_id)
        await asyncio.to_thread(self._fork, before, log_id, empty.setup)
        conversation = HostedConversation(self._store, empty.setup, lambda: self._changed(log_id))
        await conversation.open(log_id, is_new=True)
        self._open[log_id] = conversation
        for listener in self._replacement_listeners:
            listener(log_id)
        self._changed(log_id)
        return conversation

    async def load(self, log_id: str) -> None:
        async with self._locks.setdefault(log_id, asyncio.Lock()):
            await self._conversation(log_id)

    async def change(self, log_id: str, changes: Mapping[str, Any]) -> None:
        """Load a conversation at rest, with these fields of its setup instead of what is stored. Raises HarnessError."""
        async with self._locks.setdefault(log_id, asyncio.Lock()):
            await self._conversation(log_id, changes)

    def is_busy(self, log_id: str) -> bool:
        conversation = self._open.get(log_id)
        return conversation is not None and conversation.is_busy

    def status(self, log_id: str) -> ConversationStatus:
        conversation = self._open.get(log_id)
        if conversation is not None:
            return conversation.status
        metadata = self._store.metadata(log_id)
        is_free = metadata.kind == "thread" and not self._store.is_live(log_id)
        return ConversationStatus(
            is_ours=is_free,
            is_waiting=is_free and waits(metadata),
            can_submit=is_free,
            can_answer=is_free,
            can_branch=is_free and metadata.agent_name == OWN_AGENT,
        )

    async def mcp_servers(self, log_id: str) -> dict[str, McpStatus]:
        """Those of the built-in agent, by name: of a conversation at rest, which is then loaded, as well."""
        return (await self._conversation(log_id)).mcp_servers()

    def hub(self, log_id: str) -> Hub | None:
        conversation = self._open.get(log_id)
        return conversation.hub if conversation is not None else None

    def bus(self, log_id: str) -> Bus | None:
        conversation = self._open.get(log_id)
        return conversation.bus if conversation is not None else None

    def listen(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def listen_to_replacements(self, listener: Callable[[str], None]) -> None:
        self._replacement_listeners.append(listener)

    async def unload_idle(self, is_watched: Callable[[str], bool]) -> None:
        now_s = asyncio.get_running_loop().time()
        idle = [
            (conversation.idle_since_s, log_id)
            for log_id, conversation in self._open.items()
            if not conversation.is_busy
        ]
        unwatched = sorted(conversation for conversation in idle if not is_watched(conversation[1]))
        surplus = [log_id for _since_s, log_id in unwatched[: max(0, len(unwatched) - _MOST_IDLE)]]
        old = [log_id for since_s, log_id in idle if now_s - since_s >= self._idle_s]
        for log_id in dict.fromkeys([*surplus, *old]):
            if self._is_shared or not is_watched(log_id):
                await self._unload(log_id, only_idle=True)

    async def unload(self, log_id: str) -> None:
        await self._unload(log_id)

    async def _unload(self, log_id: str, *, only_idle: bool = False) -> None:
        async with self._locks.setdefault(log_id, asyncio.Lock()):
            conversation = self._open.get(log_id)
            if conversation is None or (only_idle and conversation.is_busy):
                return
            del self._open[log_id]
            await conversation.close()
            self._changed(log_id)

    async def close(self) -> None:
        for log_id in list(self._open):
            await self.unload(log_id)

    async def _conversation(
        self, log_id: str, changes: Mapping[str, Any] = _NO_CHANGES
    ) -> HostedConversation:
        """The conversation, loaded if necessary. Raises HarnessError."""
        if log_id not in self._open:
            metadata = self._store.metadata(log_id)
            if metadata.kind != "thread":
                raise UsageError(
                    "this run was started by another program: it can only be watched",
                    hint="start a conversation that continues it",
                )
            setup = setup_of(metadata)
            later = {
                name: changes[name] for name in commands.Configuration.__struct_fields__ if name in changes
            }
            at_once = {name: value for name, value in changes.items() if name not in later}
            setup = checked(replace(setup, agent=setup.agent or self._default.agent, **at_once))
            conversation = HostedConversation(self._store, setup, lambda: self._changed(log_id))
            await conversation.open(log_id)
            if changes:
                await self._configured(conversation, commands.Configuration(**later))
            self._open[log_id] = conversation
            self._changed(log_id)
        return self._open[log_id]

    async def _configured(self, conversation: HostedConversation, config: commands.Configuration) -> None:
        try:
            await conversation.configure(config)
        except BaseException:
            await conversation.close()
            raise

    def _changed(self, log_id: str) -> None:
        for listener in self._listeners:
            listener(log_id)


def _filled(setup: Setup, fallback: Setup) -> Setup:
    """Missing fields are taken from the other setup; the model only if the agent is the same."""
    names = [name for name in setup.__struct_fields__ if not getattr(setup, name)]
    if setup.agent and setup.agent != fallback.agent:
        names = [name for name in names if name != "model"]
    return replace(setup, **{name: getattr(fallback, name) for name in names})


def place_before(events: Iterable[Event], message_id: str) -> int:
    """The `seq` of the first event that a user message led to, or with which that run began. Raises UsageError."""
    beginnings: dict[str, int] = {}
    """Of the runs of the conversation itself: where each was taken from the queue, or began."""
    addressed: set[str] = set()
    tree = RunTree()
    for event in events:
        run = tree.feed(event)
        if isinstance(event, FollowUpsChanged) and event.taken_by:
            beginnings.setdefault(event.taken_by, event.seq)
        elif isinstance(event, SessionStart) and not run.depth:
            beginnings.setdefault(event.run_id, event.seq)
            if event.run_id == message_id:
                return beginnings[event.run_id]
        elif isinstance(event, Message) and event.role == "user" and event.run_id in beginnings:
            if event.id == message_id:
                return event.seq if event.run_id in addressed else beginnings[event.run_id]
            addressed.add(event.run_id)
    raise UsageError(
        "the session has no user message with this id", hint="`before` is the id of a user's message"
    )
