"""What the sessions of a harness share: configuration, storage, models, tools and ids. Not public."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from harness.contracts.request import OWN_AGENT, GatewayOptions, Limits
from harness.errors import HarnessError, UnknownSession, UsageError
from harness.events import Event
from harness.log.clock import new_clock
from harness.log.ids import new_run_id
from harness.log.redact.redactor import secrets_in
from harness.log.store import Store
from harness.log.stores.memory import MemoryStore
from harness.session.catalogue import ModelCatalogue
from harness.session.checks import another_loop, checked_limits
from harness.session.config import (
    BUILTIN_TOOLS,
    AgentInput,
    BackingAgent,
    HeartbeatHandler,
    MemoryDefaults,
    Mode,
    RequestContext,
    Subagent,
    ToolsInput,
    check_modes,
    default_mode,
    described,
)
from harness.session.guards import Guards, Hooks, check_guards
from harness.session.locking import NoLock
from harness.session.mcp_servers import McpInput, McpServers
from harness.session.memory.config import Memory
from harness.session.notifications import InboxDelivery
from harness.session.open_thread import folded, known_thread
from harness.session.permissions import CategoryResolver, check_resolver
from harness.session.services import (
    Browser,
    Observability,
    PubSub,
    Services,
    ThreadLock,
    UseTracker,
)
from harness.session.workspaces import WorkspaceConfig, WorkspaceInput, Workspaces

# Periodic handlers of a harness. One that fails is logged, and called again at its next interval.


class Heartbeats:
    def __init__(self) -> None:
        self._beating: dict[str, tuple[HeartbeatHandler, asyncio.Task[None]]] = {}

    @property
    def ids(self) -> list[str]:
        return list(self._beating)

    def start(self, handlers: Iterable[HeartbeatHandler]) -> None:
        """Start them all, except those whose id is already running."""
        for handler in handlers:
            if handler.id not in self._beating:
                self._begin(handler)

    async def register(self, handler: HeartbeatHandler) -> None:
        """Start one, in place of one with the same id."""
        await self.remove(handler.id)
        self._begin(handler)

    async def remove(self, handler_id: str) -> None:
        beating = self._beating.pop(handler_id, None)
        if beating is None:
            return
        handler, task = beating
        if not task.done():  # its event loop may be closed
            task.cancel()
            await asyncio.wait((task,))
        if handler.shutdown is not None:
            await _quietly(handler.shutdown, f"the shutdown of heartbeat {handler.id}")

    async def stop(self) -> None:
        for handler_id in list(self._beating):
            await self.remove(handler_id)

    def _begin(self, handler: HeartbeatHandler) -> None:
        task = asyncio.get_running_loop().create_task(_beat(handler), name=f"heartbeat-{handler.id}")
        self._beating[handler.id] = (handler, task)


async def _beat(handler: HeartbeatHandler) -> None:
    if not handler.immediate:
        await asyncio.sleep(handler.interval_ms / 1000)
    while True:
        await _quietly(handler.handler, f"heartbeat {handler.id}")
        await asyncio.sleep(handler.interval_ms / 1000)


async def _quietly(call: Callable[[], Awaitable[None] | None], what: str) -> None:
    try:
        answer = call()
        if answer is not None and inspect.isawaitable(answer):
            await answer
    except Exception:
        _logger.exception("%s failed", what)


_logger = logging.getLogger("harness.session")

MemoryInput: TypeAlias = Memory | Callable[[RequestContext], Memory | Awaitable[Memory]]


class OpenSession(Protocol):
    """What all parts of a harness may ask of each of its sessions."""

    @property
    def inbox(self) -> InboxDelivery | None:
        """That of its thread, and how it is delivered; None without a thread."""
        ...

    def append(self, event: Event) -> Event: ...

    def end_of(self, thread_id: str) -> int | None:
        """The `seq` of the next event of that thread; None where it has another one open, or none."""
        ...


class HarnessParts:
    """Shared by all sessions of one harness."""

    def __init__(
        self,
        id: str,
        cwd: str,
        environ: Mapping[str, str] | None,
        id_generator: Callable[[], str] | None,
        gateway: GatewayOptions | None,
        *,
        redact: bool,
    ) -> None:
        self.id = id
        self.cwd: str = os.path.abspath(cwd or os.getcwd())
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        self.secrets: dict[str, str] | None = secrets_in(self.environ) if redact else None
        self.clock: Callable[[], int] = new_clock()
        self.loop: asyncio.AbstractEventLoop | None = None
        """That of `init`; None before it."""
        self.sessions: list[OpenSession] = []
        self.catalogue: ModelCatalogue
        self.use_tracker: UseTracker | None = None
        self.new_id: Callable[[], str] = id_generator or self.new_run_id
        """A new id for a thread, a message or a signal."""
        self.services: Services | None = None
        """None before `init`."""
        self.browser: Browser | None = None
        self.heartbeats: Heartbeats = Heartbeats()
        self.gateway = gateway
        """Between agent programs and their models."""
        self.limits: Limits
        """Of every run, narrowed by its own."""

    def require_loop(self) -> None:
        """Raises UsageError in another event loop than that of `init`, as long as that one is not closed."""
        loop = self.loop
        if loop is None or loop.is_closed():
            return
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:  # in none at all: then nothing is waited for
            return
        if here is not loop:
            raise another_loop()

    def set_modes(
        self, modes: Sequence[Mode], default_mode_id: str, agent: AgentInput | None, instructions: str
    ) -> None:
        """Raises UsageError for modes that contradict each other."""
        check_modes(modes, default_mode_id)
        self.modes: dict[str, Mode] = {mode.id: mode for mode in modes}
        self.default_mode: Mode = default_mode(modes, default_mode_id)
        self.agent: AgentInput = described(agent or OWN_AGENT)
        self.instructions = instructions

    def set_tools(
        self,
        tools: ToolsInput,
        mcp_servers: McpInput,
        lists: Mapping[str, Any],
        category_resolver: CategoryResolver | None,
    ) -> None:
        """`lists`: sub-agents and disabled tools by the names of their parameters. Raises UsageError for duplicate
        sub-agents and unknown built-in tools.
        """
        self.tools = tools
        self.mcp: McpServers = McpServers(mcp_servers, self.cwd, self.environ)
        self.definitions: dict[str, Subagent] = _definitions(lists["subagents"])
        self.disabled_tools: frozenset[str] = _disabled(lists["disable_builtin_tools"])
        check_resolver(category_resolver)
        self.category_resolver = category_resolver

    def set_state(
        self,
        schema: Any,
        initial: Mapping[str, Any] | None,
        memory: MemoryInput | None,
        om_config: MemoryDefaults | None,
    ) -> None:
        self.state_schema: Any = schema
        self.initial_state: Mapping[str, Any] | None = initial
        self.memory_input = memory
        self.om_config: MemoryDefaults = om_config or MemoryDefaults()

    def _set_bounds(self, limits: Limits | None, guards: Guards | None, hooks: Hooks | None) -> None:
        """Raises UsageError for limits that are none, and for guards and hooks that cannot be called."""
        self.limits = checked_limits(limits) or Limits()
        checked_guards, checked_hooks = check_guards(guards, hooks)
        self.guards: Guards = checked_guards
        self.hooks: Hooks = checked_hooks

    def set_models(self, catalogue: ModelCatalogue, use_tracker: UseTracker | None) -> None:
        self.catalogue, self.use_tracker = catalogue, use_tracker

    def set_services(
        self,
        storage: Store | None,
        thread_lock: ThreadLock | None,
        pubsub: PubSub | None,
        observability: Observability | None,
        workspace: WorkspaceInput | None,
        bounds: tuple[Limits | None, Guards | None, Hooks | None],
    ) -> None:
        self._set_bounds(*bounds)
        self.workspaces: Workspaces = Workspaces(workspace, self._append_to_all)
        if isinstance(workspace, WorkspaceConfig):
            self.mcp.is_confined = workspace.sandbox and workspace.confines_servers
        self.has_storage: bool = storage is not None
        self.store: Store = storage if storage is not None else MemoryStore()
        self.thread_lock: ThreadLock = thread_lock or NoLock()
        self.pubsub: PubSub | None = pubsub
        self.observability: Observability | None = observability

    def mode(self, mode_id: str) -> Mode:
        """Raises UsageError `Mode not found: …`."""
        if mode_id not in self.modes:
            raise UsageError(f"Mode not found: {mode_id}", hint=f"there are: {', '.join(self.modes)}")
        return self.modes[mode_id]

    def instructions_for(self, agent: BackingAgent | None, mode: Mode) -> str:
        """The instructions of the agent, of the harness and of the mode, in this order."""
        own = agent.instructions if agent is not None else ""
        of_mode = "" if mode.keeps_prefix and agent is not None else mode.instructions
        return "\n".join(text for text in (own, self.instructions, of_mode) if text)

    def plan_target(self, mode: Mode) -> Mode:
        """The mode to enter when a plan made in `mode` is approved."""
        return self.modes[mode.transitions_to] if mode.transitions_to else self.default_mode

    def new_run_id(self) -> str:
        return new_run_id(self.clock())

    def holds(self, thread_id: str) -> bool:
        """Whether the thread exists, also in a harness without storage."""
        try:
            return not known_thread(self.store, thread_id).deleted
        except UnknownSession:
            return False

    def end_of(self, thread_id: str) -> int:
        """The `seq` of the next event of a thread."""
        ends = (session.end_of(thread_id) for session in self.sessions)
        end = next((end for end in ends if end is not None), None)
        return folded(self.store, thread_id).next_seq if end is None else end

    async def resolved_memory(self, context: RequestContext | None = None) -> Memory | None:
        """The memory that was given, or what its factory returns for this request."""
        memory_given = self.memory_input
        if memory_given is None or isinstance(memory_given, Memory):
            return memory_given
        memory_made = memory_given(context or RequestContext())
        resolved = await memory_made if inspect.isawaitable(memory_made) else memory_made
        if resolved is None:
            raise UsageError("Dynamic memory factory returned empty value", hint="return a Memory")
        return resolved

    async def require_memory(self) -> Memory:
        """Raises UsageError without one."""
        memory = await self.resolved_memory()
        if memory is None:
            raise UsageError("Memory is not configured on this Harness", hint="give memory=Memory()")
        return memory

    def _append_to_all(self, event: Event) -> None:
        """Append an event that concerns every session to the log of each."""
        for session in list(self.sessions):
            try:
                session.append(event)
            except HarnessError:
                _logger.warning("%s could not be logged in a session", type(event).__name__, exc_info=True)


def _definitions(subagents: Iterable[Subagent]) -> dict[str, Subagent]:
    definitions_by_name: dict[str, Subagent] = {}
    for definition in subagents:
        if definition.id in definitions_by_name:
            raise UsageError(f'Duplicate subagent id "{definition.id}" found when creating the Harness')
        definitions_by_name[definition.id] = definition
    return definitions_by_name


def _disabled(names: Iterable[str]) -> frozenset[str]:
    disabled = frozenset(names)
    if unknown := sorted(disabled - set(BUILTIN_TOOLS)):
        raise UsageError(
            f"unknown built-in tools: {', '.join(unknown)}", hint=f"there are: {', '.join(BUILTIN_TOOLS)}"
        )
    return disabled
