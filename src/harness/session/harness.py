"""`Harness`, the base of an application: modes, threads, state, permissions and memory for any agent.

    harness = Harness(id="my-agent", storage=FileStore("./data"), modes=[Mode(id="build")])
    async with harness:
        outcome = await harness.send_message(content="Hello!")

A harness can have many sessions, one per user and scope. Its own is `harness.session`; methods that name no
session work on that one.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.contracts.request import GatewayOptions, Limits
from harness.errors import UsageError
from harness.folds.session.events import HarnessThread, SessionEvent
from harness.log.store import Store
from harness.session.catalogue import CustomCatalogue, ModelCatalogue
from harness.session.checks import checked, checked_limits
from harness.session.config import (
    AgentInput,
    BackingAgent,
    CommandAgent,
    HeartbeatHandler,
    MemoryDefaults,
    Mode,
    RequestContext,
    Subagent,
    ToolCategory,
    ToolsInput,
)
from harness.session.guards import Guards, Hooks
from harness.session.harness_parts import HarnessParts, MemoryInput
from harness.session.mcp_servers import HarnessMcp, McpInput
from harness.session.memory.config import Memory
from harness.session.notifications import EVERY_MS, dispatch
from harness.session.open_thread import known_thread
from harness.session.permissions import CategoryResolver
from harness.session.public_side import public
from harness.session.run_state import StreamState
from harness.session.services import (
    AvailableModel,
    Browser,
    Gateway,
    ModelAuthChecker,
    ModelAuthStatus,
    Observability,
    PubSub,
    ResolveModel,
    Services,
    ThreadLock,
    UseCounts,
    UseTracker,
    Workspace,
)
from harness.session.session import Session
from harness.session.session_core import SessionCore
from harness.session.session_methods import SessionMethods
from harness.session.state import State
from harness.session.sync_harness import SyncHarness
from harness.session.watching import watch_thread
from harness.session.workspaces import WorkspaceInput

_logger = logging.getLogger("harness.session")
_DISPATCHER = "harness.notifications"


@public()
class ThreadMethods:
    """The methods for threads that `Harness` and `harness.memory` share."""

    _core: SessionCore

    async def create_thread(self, *, title: str = "", id: str = "") -> HarnessThread:
        """Create a thread and open it. Raises UsageError for an id that cannot be one, and StoreError."""
        return await self._core.thread.create(title=title, id=id)

    async def switch_thread(self, *, thread_id: str) -> None:
        """Open another thread; the run in the current one is stopped.

        Raises UnknownSession, and LogLocked when another session has it open.
        """
        await self._core.thread.switch(thread_id=thread_id)

    async def rename_thread(self, *, title: str) -> None:
        """Rename the current thread; without one nothing happens."""
        await self._core.thread.rename(title=title)


@public()
class MemoryThreads(ThreadMethods):
    """`harness.memory`: the methods for threads, in one place."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core

    def list_threads(
        self, *, all_resources: bool = False, include_forked_subagents: bool = False
    ) -> list[HarnessThread]:
        """The threads of the resource, or of all; the last changed first. Raises StoreError."""
        return self._core.thread.list(
            all_resources=all_resources, include_forked_subagents=include_forked_subagents
        )

    async def delete_thread(self, *, thread_id: str) -> None:
        """Delete a thread and those of its sub-agents.

        Raises UnknownSession, and LogLocked when it is open elsewhere.
        """
        await self._core.thread.delete(thread_id=thread_id)


@public("internals")
class Harness(SessionMethods[State], ThreadMethods):
    """Agents of any kind with threads, modes, state, permissions and memory around them.

    Open it with `async with`, or call `init()` before anything else and `destroy()` at the end, all within one event
    loop. `sync()` is for programs without one.

    Args:
        id: A name; also the resource of the harness's own session.
        modes: At least one `Mode`. Each has instructions, tools, a default model, and may have an agent.
        resource_id: Whose threads these are, if not `id`'s: a user, a project.
        storage: A store such as `FileStore("./data")` or `open_store("postgresql://…")`; None stores nothing.
        state_schema: The type of the application's state: a pydantic model, a msgspec Struct, a dataclass, a
            TypedDict or a JSON Schema.
        initial_state: The state of a new session.
        memory: `Memory(…)`, or a function of the request context that returns one. Needed to clone and fork
            threads; with `observational` long threads are condensed.
        agent: The agent of modes that name none: `"native"` (the default: the loop of this package), the
            name of an agent program, a `BackingAgent` or a `CommandAgent`.
        default_mode_id: The mode to begin in; else the one with `default=True`, else the first.
        instructions: For every mode, before the mode's own.
        tools: For every mode: tools or typed functions, a mapping from names to them, or a function of the
            request context that returns either.
        mcp_servers: MCP servers whose tools every mode has: a mapping as under `mcpServers`, or paths of such
            files.
        workspace: Where agents work: a `WorkspaceConfig`, your own workspace, or a function that makes one
            per request.
        browser: An object with `tools()` and `close()`, or a function of the request context that makes one.
        heartbeat_handlers: Called periodically from `init()` to `destroy()`.
        id_generator: Makes the ids of threads and messages: letters, digits, `-` and `_`.
        model_auth_checker: From a provider to whether there are credentials; None: look at the environment.
        model_use_count_provider: How often each model was used, for `list_available_models`.
        model_use_count_tracker: Called with each model that is chosen.
        custom_model_catalog_provider: More models for `list_available_models`.
        subagents: What the tool `subagent` may start.
        gateways: Objects that provide models, with `should_enable()`, `models()` and `resolve(model_id)`.
        resolve_model: From any model id to a `Model`: for your own models, or a script in tests.
        om_config: Which models observe and reflect in the observational memory, and from how many tokens on.
        disable_builtin_tools: Of `ask_user`, `submit_plan`, `task_write`, `task_update`, `task_complete`,
            `task_check`, `subagent`.
        tool_category_resolver: From a tool's name to its category, a plain function; permission rules use it.
        pubsub: Gets every event of a thread's log, as JSON, under the topic `id/thread id`.
        thread_lock: Locks threads between processes; stores lock their own, so this is seldom needed.
        observability: Gets one span per run.
        limits: Turns, tokens, money and time of every run; a message's own limits narrow them.
        guards: Functions that look at messages, answers, calls and results, and stop or replace them.
        hooks: Functions that are called before and after model calls and tool calls, and at the end of runs.
        gateway: Put a gateway between agent programs and their models: it holds the keys and records every call,
            so that a run can be played again (`harness.contracts.request.GatewayOptions`).
        cwd: Where programs are started without a workspace; by default the current directory.
        redact: False stores secrets of the environment as they are, instead of masking them in logs.
        environ: Used in place of `os.environ`, for keys of providers and for secrets.

    Attributes:
        id: As given.
        session: The harness's own session; `create_session` makes more.
        internals: The parts that sessions share. Not public: they change without notice.

    Raises:
        UsageError: For an argument of a wrong kind, which it names. Nothing is opened before `init`.

    """

    _sessions: dict[tuple[str, str], Session[State]]
    session: Session[State]

    def __init__(
        self,
        *,
        id: str,
        modes: Sequence[Mode],
        resource_id: str = "",
        storage: Store | None = None,
        state_schema: type[State] | Mapping[str, Any] | None = None,
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
        limits: Limits | None = None,
        guards: Guards | None = None,
        hooks: Hooks | None = None,
        gateway: GatewayOptions | None = None,
        cwd: str = "",
        redact: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        lists = checked(locals())
        parts = HarnessParts(id, cwd, environ, id_generator, gateway, redact=redact)
        parts.set_modes(lists["modes"], default_mode_id, agent, instructions)
        parts.set_tools(tools, mcp_servers, lists, tool_category_resolver)
        parts.set_state(state_schema, initial_state, memory, om_config)
        parts.set_services(storage, thread_lock, pubsub, observability, workspace, (limits, guards, hooks))
        who = resolve_model, model_auth_checker, model_use_count_provider, custom_model_catalog_provider
        parts.set_models(ModelCatalogue(*who, lists["gateways"], parts.environ), model_use_count_tracker)
        self._browser_input, self._heartbeat_handlers = browser, lists["heartbeat_handlers"]
        self._core = self._first_core(parts, id, resource_id or id)

    # Lifecycle

    async def __aenter__(self) -> Harness[State]:
        await self.init()
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.destroy()

    def sync(self) -> SyncHarness[State]:
        """For programs without an event loop: `with harness.sync() as app: app.send_message(content="Hello!")`."""
        return SyncHarness(self)

    async def init(self) -> None:
        """Open what was configured: browser, workspace, MCP servers, heartbeats. Call this first.

        A workspace or an MCP server that fails is reported as an event and left out; everything else works. What a
        function of yours raises that makes a browser is raised here, and nothing is open then.
        """
        parts = self.internals
        parts.require_loop()
        if parts.services is not None:
            return
        parts.loop = asyncio.get_running_loop()
        self.session.thread.is_closed = False
        parts.services = Services(
            store=parts.store,
            resolve_model=parts.catalogue.resolve,
            gateways=parts.catalogue.gateways,
            pubsub=parts.pubsub,
            observability=parts.observability,
        )
        try:
            if self._browser_input is not None:
                self.set_browser(await _made(self._browser_input))
            await parts.workspaces.init()
            await parts.mcp.start()
        except BaseException:  # also when it was cancelled: a later `init` begins afresh
            await self.destroy()
            raise
        parts.heartbeats.start((*self._heartbeat_handlers, _dispatcher(parts)))

    def reconfigure(
        self, *, modes: Sequence[Mode], agent: AgentInput, instructions: str, limits: Limits | None
    ) -> None:
        """Replace a part of what the harness was made with, from the next run on.

        Args:
            modes: All of them, with those that sessions are in.
            agent: For modes that name none.
            instructions: Of every mode.
            limits: Of each run.

        Raises:
            UsageError: For modes that contradict each other or lack a current one, and for invalid limits.

        """
        parts = self.internals
        missing = {session.mode.get() for session in self.sessions()} - {mode.id for mode in modes}
        if missing:
            raise UsageError(
                f"sessions are in modes that are left out: {', '.join(sorted(missing))}",
                hint="switch them to another mode first",
            )
        parts.set_modes(modes, "", agent, instructions)
        parts.limits = checked_limits(limits) or Limits()

    async def destroy(self) -> None:
        """Stop all runs, close all threads, and close what `init` opened.

        What fails on the way is logged, and the rest is closed anyway. `init` may be called again afterwards. Raises
        UsageError in another event loop than that of `init`.
        """
        self.internals.require_loop()
        self._closings += 1
        try:
            await self._close()
        finally:
            self._closings -= 1
        if not self._closings:  # another one that is under way still belongs to this loop
            self.internals.services = self.internals.loop = None

    async def _close(self) -> None:
        parts, sessions = self.internals, self.sessions()
        for session in sessions:
            session.thread.is_closed = True  # at once: who is waiting for something opens none any more
        for session in sessions:
            await _quietly(session.thread.release, "a thread could not be closed")
        await parts.heartbeats.stop()
        await parts.workspaces.destroy()
        await _quietly(parts.mcp.close, "the MCP servers could not be closed")
        for session in sessions:
            await _quietly(session.destroy, "a session could not be closed")
        for session in self._sessions.values():  # also one that was made meanwhile
            session.thread.is_closed = True
        self._sessions.clear()
        parts.sessions[:] = [self._core]
        browser, parts.browser = parts.browser, None
        if browser is not None:
            await _quietly(browser.close, "the browser could not be closed")

    @property
    def mcp(self) -> HarnessMcp:
        """Its MCP servers: `status`, and `add` and `remove` while it runs."""
        return HarnessMcp(self.internals.mcp)

    @property
    def services(self) -> Services | None:
        """Store, models, gateways; None before `init`."""
        return self.internals.services

    @property
    def store(self) -> Store:
        """Where threads are stored; without storage, a store in memory."""
        return self.internals.store

    # Sessions

    def create_session(self, *, resource_id: str = "", scope: str = "", cwd: str = "") -> Session[State]:
        """The session of this resource and scope: the existing one, or a new one.

        Args:
            resource_id: Whose threads; by default the harness's own, whose session without a scope is
                `harness.session`.
            scope: Distinguishes several sessions of one resource.
            cwd: Where programs of a new session are started.

        Raises:
            UsageError: For what is no text.

        """
        own = self.session.identity.get_resource_id()
        key = (resource_id or own, scope)
        if key in self._sessions:
            return self._sessions[key]
        if key == (own, ""):
            return self.session
        self._sessions[key] = self._new_session(key[0], cwd)
        return self._sessions[key]

    async def close_session(self, session: Session[State]) -> None:
        """Stop a session that is not needed any more, and close its thread."""
        for key, other in list(self._sessions.items()):
            if other is session:
                del self._sessions[key]
                self.internals.sessions.remove(session.internals)
                session.thread.is_closed = True
        await session.destroy()

    def sessions(self) -> list[Session[State]]:
        """All open sessions, the harness's own first."""
        return [self.session, *self._sessions.values()]

    async def set_resource_id(self, *, resource_id: str) -> None:
        """Close the thread, and work on those of another resource from now on."""
        await self.session.thread.release()
        self.session.identity.set_resource_id(resource_id=resource_id)

    def get_session(self) -> dict[str, Any]:
        """`currentThreadId`, `currentModeId` and `threads` of the own session."""
        session = self.session
        return {
            "currentThreadId": session.thread.get_id(),
            "currentModeId": session.mode.get(),
            "threads": session.thread.list(),
        }

    def get_known_resource_ids(self) -> list[str]:
        """Whose threads the store has; empty without storage."""
        return self.internals.store.resource_ids() if self.internals.has_storage else []

    @property
    def stream(self) -> StreamState:
        """Call it to send a message to the own session and follow its run: `async with harness.stream(…) as run`."""
        return self.session.stream

    # Threads

    @property
    def memory(self) -> MemoryThreads:
        """Create, switch, list, rename and delete threads."""
        return MemoryThreads(self._core)

    async def select_or_create_thread(self) -> HarnessThread:
        """Open a thread that is not locked by another session, or create one.

        One that waits for an answer comes first, then the one that was changed last.
        No event is emitted for a selection. Raises StoreError.
        """
        return await self.session.thread.select_or_create()

    async def clone_thread(
        self, *, source_thread_id: str = "", title: str = "", resource_id: str = ""
    ) -> HarnessThread:
        """Create a thread that begins with everything in another one, and open it.

        The clone is a fork of the log, not a copy.

        Args:
            source_thread_id: The other thread; by default the open one.
            title: By default that of the other thread.
            resource_id: Whose thread it is; by default as the other thread.

        Raises:
            UsageError: Without a thread to clone, and without a memory.
            UnknownSession: When there is no such thread.

        """
        return await self.session.thread.clone(
            source_thread_id=source_thread_id, title=title, resource_id=resource_id
        )

    def watch(self, thread_id: str, *, from_start: bool = False) -> AsyncIterator[SessionEvent]:
        """The events of a thread as they happen, whichever process runs it, without opening it.

        Its questions can be answered only where it is open. Leave the loop to stop watching; it ends by itself when
        the thread is deleted.

            async for event in harness.watch(thread_id):
                ...

        Args:
            thread_id: Which thread.
            from_start: Give what has happened until now first.

        Raises:
            UnknownSession: When there is no such thread.

        """
        known_thread(self.internals.store, thread_id)
        return watch_thread(self.internals.store, thread_id, from_start=from_start)

    async def detach_from_current_thread(self) -> None:
        """Stop the run of the current thread, which stays open until another one is."""
        await self._core.runs.stop()

    # Modes, agents and models

    def mode(self, mode_id: str) -> Mode:
        """The description of a mode. Raises UsageError `Mode not found: …`."""
        return self.internals.mode(mode_id)

    def list_modes(self) -> list[Mode]:
        """All modes, in the order in which they were given."""
        return list(self.internals.modes.values())

    def get_current_agent(self) -> BackingAgent | CommandAgent:
        """The agent of the current mode, with all instructions and tools that it works with."""
        return self._core.driver.configured()

    def get_current_run_id(self) -> str | None:
        """The id of the current run, else of the last one; None before the first."""
        return self.session.run.get_run_id()

    def get_tool_category(self, tool_name: str) -> ToolCategory | None:
        """The category of the tool that has this name in the own session; None for an unknown one."""
        return self._core.settings.permissions.category(tool_name)

    async def list_available_models(self) -> list[AvailableModel]:
        """All known models, with whether there is a key for each. The list is cached."""
        return await self.internals.catalogue.list_available()

    def invalidate_available_models_cache(self) -> None:
        """Make `list_available_models` ask again, for example when keys have changed."""
        self.internals.catalogue.invalidate()

    async def get_current_model_auth_status(self) -> ModelAuthStatus:
        """Whether there are credentials for the selected model; if not, the variable that is missing."""
        model_id = self.session.model.get()
        if not model_id:
            return ModelAuthStatus(has_auth=True)
        return await self.internals.catalogue.auth_status(model_id)

    # Heartbeats

    async def register_heartbeat(self, handler: HeartbeatHandler) -> None:
        """Start a periodic handler, in place of one with the same id."""
        await self.internals.heartbeats.register(handler)

    async def remove_heartbeat(self, *, id: str) -> None:
        """Stop a handler and call its `shutdown`; an unknown id is ignored."""
        await self.internals.heartbeats.remove(id)

    async def stop_heartbeats(self) -> None:
        """Stop all of them, the delivery of notifications included."""
        await self.internals.heartbeats.stop()

    # Workspace and browser

    def get_workspace(self) -> Workspace | None:
        """The workspace of the own session; None where there is none, or a factory was not called yet."""
        return self._core.settings.workspace

    async def resolve_workspace(self, *, request_context: RequestContext | None = None) -> Workspace | None:
        """The workspace of the own session; a factory is called the first time."""
        settings, runs = self._core.settings, self._core.runs
        return settings.workspace or await settings.resolve_workspace(runs.request_context(request_context))

    def has_workspace(self) -> bool:
        """Whether one was configured."""
        return self.internals.workspaces.is_configured

    def is_workspace_ready(self) -> bool:
        """Whether it was opened by `init`; a factory is always ready."""
        return self.internals.workspaces.is_ready

    async def destroy_workspace(self) -> None:
        """Close a configured workspace. What a factory made is left to the factory."""
        await self.internals.workspaces.destroy()

    def set_browser(self, browser: Browser | None) -> None:
        """Use this browser's tools from the next run on; None removes them. The old one is not closed."""
        self.internals.browser = browser

    # Memory

    async def get_resolved_memory(self, context: RequestContext | None = None) -> Memory | None:
        """The memory; a factory is called with `context`. Raises UsageError if it returns None."""
        return await self.internals.resolved_memory(context)

    async def load_om_progress(self) -> None:
        """Emit how full the observational memory of the thread is; nothing without one."""
        await self._core.hooks.load_memory_progress()

    async def get_observational_memory_record(self) -> Any:
        """The record of the thread's observational memory; None without one, or while it is empty."""
        return await self._core.hooks.memory.record()

    def _first_core(self, parts: HarnessParts, id: str, resource_id: str) -> SessionCore:
        self.internals: HarnessParts = parts
        self.id: str = id
        self._resource_id, self._sessions, self._closings = resource_id, {}, 0
        self.session = self._new_session()
        return self.session.internals

    def _new_session(self, resource_id: str = "", cwd: str = "") -> Session[State]:
        parts = self.internals
        directory = os.path.abspath(cwd) if cwd else parts.cwd
        owner = resource_id or self._resource_id
        core = SessionCore(parts, resource_id=owner, session_id=parts.new_run_id(), cwd=directory)
        parts.sessions.append(core)
        return Session(core)


def _dispatcher(parts: HarnessParts) -> HeartbeatHandler:
    """Delivers notifications when they are due."""

    async def deliver() -> None:
        inboxes = [inbox for session in parts.sessions if (inbox := session.inbox) is not None]
        await dispatch(inboxes, parts.clock())

    return HeartbeatHandler(id=_DISPATCHER, interval_ms=EVERY_MS, handler=deliver, immediate=False)


async def _made(given: Any) -> Any:
    made = given(RequestContext()) if callable(given) else given
    return await made if inspect.isawaitable(made) else made


async def _quietly(close: Callable[[], Awaitable[None]], problem: str) -> None:
    try:
        await close()
    except Exception:
        _logger.exception(problem)
