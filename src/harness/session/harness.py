"""What an application is built on: modes, threads, state, permissions and memory around agents of any kind.

    harness = Harness(id="my-agent", storage=FileStore("./data"), modes=[Mode(id="build")])
    harness.subscribe(print)
    await harness.init()
    await harness.select_or_create_thread()
    await harness.send_message(content="Hello!")

One harness has many sessions, one per user and scope; its own is `harness.session`, and the methods that
name no session work on that one.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.errors import HarnessError, UnknownSession, UsageError
from harness.events import Event
from harness.log.clock import new_clock
from harness.log.ids import new_run_id
from harness.log.redact.redactor import secrets_in
from harness.log.store import Store
from harness.log.stores.memory import MemoryStore
from harness.session.bus import Listener
from harness.session.catalogue import CustomCatalogue, ModelCatalogue
from harness.session.checks import checked
from harness.session.config import (
    BUILTIN_TOOLS,
    AgentInput,
    BackingAgent,
    HeartbeatHandler,
    MemoryDefaults,
    Mode,
    RequestContext,
    Subagent,
    ToolCategory,
    ToolsInput,
    check_modes,
    default_mode,
)
from harness.session.facade import Facade
from harness.session.heartbeats import Heartbeats
from harness.session.locking import NoLock
from harness.session.mcp_servers import McpInput, McpServers
from harness.session.modes import unknown_mode
from harness.session.notification_delivery import EVERY_MS, dispatch
from harness.session.open_thread import folded, known_thread
from harness.session.permissions import CategoryResolver, check_resolver
from harness.session.services import (
    Browser,
    Gateway,
    ModelAuthChecker,
    Observability,
    PubSub,
    ResolveModel,
    Services,
    ThreadLock,
    UseCounts,
    UseTracker,
)
from harness.session.session import Session
from harness.session.thread_memory import Memory
from harness.session.workspaces import WorkspaceInput, Workspaces

_logger = logging.getLogger("harness.session")
_DISPATCHER = "harness.notifications"

MemoryInput = Memory | Callable[[RequestContext], Memory | Awaitable[Memory]]


class Harness(Facade):
    def __init__(
        self,
        *,
        id: str,
        modes: Sequence[Mode],
        resource_id: str = "",
        storage: Store | None = None,
        state_schema: Any = None,
        initial_state: Mapping[str, Any] | None = None,
        memory: MemoryInput | None = None,
        agent: AgentInput | None = None,
        default_mode_id: str = "",
        instructions: str = "",
        tools: ToolsInput = (),
        mcp_servers: McpInput = (),
        workspace: WorkspaceInput | None = None,
        browser: Browser | Callable[[RequestContext], Browser | Awaitable[Browser]] | None = None,
        heartbeat_handlers: Iterable[HeartbeatHandler] = (),
        id_generator: Callable[[], str] | None = None,
        model_auth_checker: ModelAuthChecker | None = None,
        model_use_count_provider: UseCounts | None = None,
        model_use_count_tracker: UseTracker | None = None,
        custom_model_catalog_provider: CustomCatalogue | None = None,
        subagents: Iterable[Subagent] = (),
        gateways: Sequence[Gateway] = (),
        resolve_model: ResolveModel | None = None,
        om_config: MemoryDefaults | None = None,
        disable_builtin_tools: Iterable[str] = (),
        tool_category_resolver: CategoryResolver | None = None,
        pubsub: PubSub | None = None,
        thread_lock: ThreadLock | None = None,
        observability: Observability | None = None,
        cwd: str = "",
        redact: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Raises UsageError on what cannot be. Nothing is opened before `init`."""
        lists = checked(locals())
        self.id, self._resource_id, self._cwd = id, resource_id or id, os.path.abspath(cwd or os.getcwd())
        self.environ = os.environ if environ is None else environ
        self.secrets = secrets_in(self.environ) if redact else None
        self._take_modes(lists["modes"], default_mode_id, agent, instructions)
        self.tools, self.mcp = tools, McpServers(mcp_servers, self._cwd, self.environ)
        self._take_rules(lists["subagents"], lists["disable_builtin_tools"], tool_category_resolver)
        self._take_state(state_schema, initial_state, memory, om_config)
        self._take_services(storage, thread_lock, pubsub, observability, workspace)
        who = (resolve_model, model_auth_checker, model_use_count_provider, custom_model_catalog_provider)
        self.catalogue = ModelCatalogue(*who, lists["gateways"], self.environ)
        self.use_tracker, self._new_id, self._browser_input = model_use_count_tracker, id_generator, browser
        self._heartbeat_handlers, self.session = lists["heartbeat_handlers"], self._new_session()

    # What it is made of

    def _take_modes(
        self, modes: Sequence[Mode], default_mode_id: str, agent: AgentInput | None, instructions: str
    ) -> None:
        check_modes(modes, default_mode_id)
        self.modes = {mode.id: mode for mode in modes}
        self.default_mode = default_mode(modes, default_mode_id)
        self.default_mode_id = default_mode_id
        self.agent = agent
        self.instructions = instructions

    def _take_rules(
        self,
        subagents: Iterable[Subagent],
        disabled: Iterable[str],
        category_resolver: CategoryResolver | None,
    ) -> None:
        self.definitions = _definitions(subagents)
        self.disabled_tools = _disabled(disabled)
        check_resolver(category_resolver)
        self.category_resolver = category_resolver

    def _take_state(
        self,
        schema: Any,
        initial: Mapping[str, Any] | None,
        memory: MemoryInput | None,
        om_config: MemoryDefaults | None,
    ) -> None:
        self.state_schema, self.initial_state = schema, initial
        self.memory_input = memory
        self.om_config = om_config or MemoryDefaults()

    def _take_services(
        self,
        storage: Store | None,
        thread_lock: ThreadLock | None,
        pubsub: PubSub | None,
        observability: Observability | None,
        workspace: WorkspaceInput | None,
    ) -> None:
        self.workspaces = Workspaces(workspace, self._tell_all)
        self.has_storage = storage is not None
        self.store: Store = storage if storage is not None else MemoryStore()
        self.thread_lock: ThreadLock = thread_lock or NoLock()
        self.pubsub, self.observability = pubsub, observability
        self.services: Services | None = None
        """None before `init`."""
        self.browser: Browser | None = None
        self.heartbeats = Heartbeats()
        self.clock = new_clock()
        self._sessions: dict[tuple[str, str], Session] = {}

    # Life

    async def init(self) -> None:
        """Make everything ready. A workspace that fails is told of, and is no reason to stop."""
        if self.services is not None:
            return
        self.services = Services(
            store=self.store,
            resolve_model=self.catalogue.resolve,
            gateways=self.catalogue.gateways,
            pubsub=self.pubsub,
            observability=self.observability,
        )
        if self._browser_input is not None:
            self.set_browser(await _made(self._browser_input))
        await self.workspaces.init()
        await self.mcp.start()
        self.heartbeats.start((*self._heartbeat_handlers, _dispatcher(self)))

    async def destroy(self) -> None:
        """Stop everything that goes on, and let go of everything. What fails is reported, and holds up nothing."""
        sessions = self.sessions()
        for session in sessions:
            await _quietly(session.binding.let_go, "a thread could not be let go")
        await self.heartbeats.stop()
        await self.workspaces.destroy()
        await _quietly(self.mcp.close, "the MCP servers could not be closed")
        for session in sessions:
            await _quietly(session.destroy, "a session could not be closed")
        self._sessions.clear()
        browser, self.browser = self.browser, None
        if browser is not None:
            await _quietly(browser.close, "the browser could not be closed")
        self.services = None

    def create_session(self, *, resource_id: str = "", scope: str = "", cwd: str = "") -> Session:
        """The session of this resource and scope: the one there is, or a new one. Without a scope, the harness's
        own resource is that of its own session.
        """
        own = self.session.identity.get_resource_id()
        key = (resource_id or own, scope)
        if key in self._sessions:
            return self._sessions[key]
        if key == (own, ""):
            return self.session
        self._sessions[key] = self._new_session(key[0], cwd)
        return self._sessions[key]

    async def close_session(self, session: Session) -> None:
        """Let go of a session that nobody needs any more."""
        for key, known in list(self._sessions.items()):
            if known is session:
                del self._sessions[key]
        await session.destroy()

    def sessions(self) -> list[Session]:
        return [self.session, *self._sessions.values()]

    # What sessions ask

    def mode(self, mode_id: str) -> Mode:
        """Raises UsageError `Mode not found: …`."""
        if mode_id not in self.modes:
            raise unknown_mode(mode_id, list(self.modes))
        return self.modes[mode_id]

    @property
    def mode_ids(self) -> frozenset[str]:
        return frozenset(self.modes)

    def list_modes(self) -> list[Mode]:
        return list(self.modes.values())

    def instructions_for(self, agent: BackingAgent | None, mode: Mode) -> str:
        own = agent.instructions if agent is not None else ""
        return "\n".join(text for text in (own, self.instructions, mode.instructions) if text)

    def plan_target(self, mode: Mode) -> Mode:
        """Where an approved plan leads to."""
        if mode.transitions_to:
            return self.modes[mode.transitions_to]
        return self.default_mode

    def get_tool_category(self, tool_name: str) -> ToolCategory | None:
        """Of the tool that has that name now, in the harness's own session."""
        return self.session.permissions.category(tool_name)

    def new_id(self) -> str:
        return self._new_id() if self._new_id is not None else self.new_run_id()

    def new_run_id(self) -> str:
        return new_run_id(self.clock())

    def holds(self, thread_id: str) -> bool:
        """Whether the thread is known, also where nothing is kept."""
        try:
            return not known_thread(self.store, thread_id).deleted
        except UnknownSession:
            return False

    def end_of(self, thread_id: str) -> int:
        """The `seq` of the next event of a thread."""
        for session in self.sessions():
            if session.thread.get_id() == thread_id:
                session.bus.deliver()
                return session.bus.fold.next_seq
        return folded(self.store, thread_id).next_seq

    async def get_resolved_memory(self, context: RequestContext | None = None) -> Memory | None:
        given = self.memory_input
        if given is None or isinstance(given, Memory):
            return given
        made = given(context or RequestContext())
        resolved = await made if inspect.isawaitable(made) else made
        if resolved is None:
            raise UsageError("Dynamic memory factory returned empty value", hint="return a Memory")
        return resolved

    async def require_memory(self) -> Memory:
        memory = await self.get_resolved_memory()
        if memory is None:
            raise UsageError("Memory is not configured on this Harness", hint="give memory=Memory()")
        return memory

    def set_browser(self, browser: Browser | None) -> None:
        self.browser = browser

    def get_known_resource_ids(self) -> list[str]:
        return self.store.resource_ids() if self.has_storage else []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self.session.subscribe(listener)

    def _tell_all(self, event: Event) -> None:
        """Put a fact that concerns every session into the log of each."""
        for session in self.sessions():
            try:
                session.append(event)
            except HarnessError:
                _logger.warning("a session could not be told of %s", type(event).__name__, exc_info=True)

    def _new_session(self, resource_id: str = "", cwd: str = "") -> Session:
        directory = os.path.abspath(cwd) if cwd else self._cwd
        return Session(
            self, resource_id=resource_id or self._resource_id, session_id=self.new_run_id(), cwd=directory
        )


def _dispatcher(harness: Harness) -> HeartbeatHandler:
    """Tells of notifications when they are due."""

    async def tell() -> None:
        posts = [session.extras.signalling.post for session in harness.sessions() if session.thread.is_set()]
        await dispatch(posts, harness.clock())

    return HeartbeatHandler(id=_DISPATCHER, interval_ms=EVERY_MS, handler=tell, immediate=False)


async def _made(given: Any) -> Any:
    made = given(RequestContext()) if callable(given) else given
    return await made if inspect.isawaitable(made) else made


async def _quietly(close: Callable[[], Awaitable[None]], problem: str) -> None:
    try:
        await close()
    except Exception:
        _logger.exception(problem)


def _definitions(subagents: Iterable[Subagent]) -> dict[str, Subagent]:
    found: dict[str, Subagent] = {}
    for definition in subagents:
        if definition.id in found:
            raise UsageError(f'Duplicate subagent id "{definition.id}" found when creating the Harness')
        found[definition.id] = definition
    return found


def _disabled(names: Iterable[str]) -> frozenset[str]:
    disabled = frozenset(names)
    if unknown := sorted(disabled - set(BUILTIN_TOOLS)):
        raise UsageError(
            f"unknown built-in tools: {', '.join(unknown)}", hint=f"there are: {', '.join(BUILTIN_TOOLS)}"
        )
    return disabled
