"""Where the agents of a harness work: a given workspace, a configured one, or one made by a factory."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from harness.contracts.request import Permissions
from harness.contracts.subagent import SubagentKind
from harness.contracts.tool import Tool
from harness.errors import InvalidDirectory, UsageError
from harness.events import Event, WorkspaceChanged
from harness.session.config import RequestContext
from harness.session.services import Workspace

_OWN_KIND = ("agent", "todo")
"""Tools of the native agent that a harness replaces by its own: sub-agents, and the task list of a thread."""

_logger = logging.getLogger("harness.session")


class WorkspaceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A directory, with the tools that read and change it."""

    cwd: str
    id: str = ""
    name: str = ""
    read_only: bool = False
    sandbox: bool = False
    own_agents_and_tasks: bool = False
    """With the tools `agent` and `todo` of the built-in agent; else the harness has its own for both."""
    subagents: tuple[SubagentKind, ...] = ()
    """Kinds of sub-agents that the tool `agent` may start."""
    confines_servers: bool = False
    """MCP servers that are programs are confined like commands, if `sandbox` says so."""


WorkspaceFactory: TypeAlias = Callable[[RequestContext], Workspace | Awaitable[Workspace | None] | None]
WorkspaceInput: TypeAlias = Workspace | WorkspaceConfig | WorkspaceFactory


class DirectoryWorkspace:
    """Contract: that of `Workspace`."""

    def __init__(self, config: WorkspaceConfig) -> None:
        self.cwd: str = os.path.abspath(config.cwd)
        self.id: str = config.id or self.cwd
        self.name: str = config.name or os.path.basename(self.cwd)
        self._config = config
        self._tools: list[Tool] | None = None

    async def init(self) -> None:
        if not await asyncio.to_thread(os.path.isdir, self.cwd):
            raise InvalidDirectory(f"the workspace is not a directory: {self.cwd}", hint="create it first")

    def tools(self) -> Sequence[Tool]:
        if self._tools is None:
            from harness.native.own_models import NO_MODELS, own_models
            from harness.native.tools.registry import default_tools

            permissions: Permissions = "read-only" if self._config.read_only else "full-access"
            self._tools = [
                tool
                for tool in default_tools(
                    self.cwd,
                    permissions,
                    sandbox=self._config.sandbox,
                    kinds=self._config.subagents,
                    models=own_models(self.cwd) if self._config.own_agents_and_tasks else NO_MODELS,
                )
                if self._config.own_agents_and_tasks or tool.spec.name not in _OWN_KIND
            ]
        return self._tools

    @property
    def sandbox(self) -> str:
        """What confines its commands: namespaces, bubblewrap or landlock; empty: nothing does. Raises UsageError."""
        from harness.sandbox.ladder import find_sandbox

        return find_sandbox().name if self._config.sandbox else ""

    async def destroy(self) -> None:
        self._tools = None


class Workspaces:
    """The workspace of a harness, or the factory that makes one per request; emits its status."""

    def __init__(self, workspace: WorkspaceInput | None, append: Callable[[Event], object]) -> None:
        self._factory: WorkspaceFactory | None = None
        self._static: Workspace | None = None
        if isinstance(workspace, WorkspaceConfig):
            self._static = DirectoryWorkspace(workspace)
        elif isinstance(workspace, Workspace):
            self._static = workspace
        elif callable(workspace):
            self._factory = workspace
        elif workspace is not None:
            raise UsageError(
                f"a {type(workspace).__name__} is no workspace",
                hint="give a Workspace, a WorkspaceConfig, or a function of the request context",
            )
        self._append = append
        self._resolved: Workspace | None = None
        self.is_configured: bool = workspace is not None

    @property
    def is_ready(self) -> bool:
        return self.has_factory or self._resolved is not None

    @property
    def has_factory(self) -> bool:
        """Whether each session has a workspace of its own, which no other session may see."""
        return self._factory is not None

    def get(self) -> Workspace | None:
        """The one that all sessions share; None where a factory makes them."""
        return self._resolved

    async def init(self) -> None:
        """Initialise a given workspace; one that fails is dropped, and the harness continues without it."""
        workspace = self._static
        if workspace is None:
            return
        self._append(WorkspaceChanged(status="initializing"))
        try:
            await workspace.init()
        except Exception as error:  # noqa: BLE001 # a workspace of the application may fail: an event says so
            self._static = None
            self._append(WorkspaceChanged(status="error", error=str(error)))
            return
        self._resolved = workspace
        self._append(
            WorkspaceChanged(status="ready", workspace_id=workspace.id, workspace_name=workspace.name)
        )

    async def resolve_for(self, context: RequestContext) -> Workspace | None:
        """The workspace for one request: a factory is called each time, and its result is not stored."""
        if self._factory is None:
            return self._resolved
        workspace = self._factory(context)
        return await workspace if inspect.isawaitable(workspace) else workspace

    async def destroy(self) -> None:
        """Destroy a given workspace; a factory is responsible for what it made."""
        workspace = self._resolved
        if self._factory is not None or workspace is None:
            return
        self._append(WorkspaceChanged(status="destroying"))
        try:
            await workspace.destroy()
        except Exception:
            _logger.warning("the workspace could not be destroyed", exc_info=True)
        self._resolved = self._static = None
        self._append(WorkspaceChanged(status="destroyed"))
