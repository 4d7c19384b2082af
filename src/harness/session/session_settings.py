"""What a session works with: whose it is, mode, models, state, permissions, agent, workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.log.codec import spelled_out
from harness.session.config import BackingAgent, CommandAgent, RequestContext, described
from harness.session.harness_parts import HarnessParts
from harness.session.modes import (
    Choices,
    MemoryRoles,
    ModelSelection,
    ModeSelection,
    SubagentSettings,
    UsualMemory,
)
from harness.session.permissions import SessionPermissions
from harness.session.public_side import public
from harness.session.services import Workspace
from harness.session.state import SessionState
from harness.session.thread_log import ThreadLog
from harness.session.workspaces import DirectoryWorkspace


@public()
class Identity:
    """`session.identity`: the id of the session, and the resource whose threads it has."""

    def __init__(self, resource_id: str, session_id: str) -> None:
        self._resource_id = self._default = spelled_out(resource_id)
        self._id = session_id

    def get_id(self) -> str:
        """The id of the session."""
        return self._id

    def get_resource_id(self) -> str:
        """Whose threads these are: a user, a project."""
        return self._resource_id

    def get_default_resource_id(self) -> str:
        """The resource with which the session was created."""
        return self._default

    def set_resource_id(self, *, resource_id: str) -> None:
        """Use the threads of another resource from now on; the open thread stays open."""
        self._resource_id = spelled_out(resource_id)


class SessionSettings:
    """Everything is current at the time of access."""

    def __init__(
        self,
        harness: HarnessParts,
        log: ThreadLog,
        identity: Identity,
        cwd: str,
        *,
        stop: Callable[[], object],
        memory: Callable[[], UsualMemory],
    ) -> None:
        """`stop`: stop the current run."""
        self.harness: HarnessParts = harness
        self.identity: Identity = identity
        self.cwd: str = cwd
        self._workspace: Workspace | None = None
        """The workspace that a factory made for this session."""
        self.state: SessionState[dict[str, Any]] = SessionState(
            harness.state_schema, harness.initial_state, log.append
        )
        choices = Choices(harness, self.state, log, log.append)
        self.mode: ModeSelection = ModeSelection(harness.default_mode.id, choices, stop=stop)
        first_model = self.state.peek("currentModelId") or harness.default_mode.default_model_id
        self.model: ModelSelection = ModelSelection(
            first_model or "", self.mode, choices, works_alone=lambda: self.works_alone
        )
        self.mode.on_change = self.model.follow
        self.om: MemoryRoles = MemoryRoles(choices, memory)
        self.subagents: SubagentSettings = SubagentSettings(choices)
        self.permissions: SessionPermissions = SessionPermissions(self.state, harness.category_resolver)
        self.permissions.work_in(self.working_directory, harness.environ)

    @property
    def agent(self) -> BackingAgent | CommandAgent:
        """The agent of the mode, else of the harness; without either, the native loop."""
        agent = self.mode.resolve().agent or self.harness.agent
        return described(agent) if isinstance(agent, str) else agent

    @property
    def works_alone(self) -> bool:
        """Whether the agent is a program."""
        return isinstance(self.agent, CommandAgent)

    def may_have(self, tool_name: str) -> bool:
        """Whether the agent of this mode, and its sub-agents, may have a tool of that name."""
        available = self.mode.resolve().available_tools
        return not self.permissions.is_denied(tool_name) and (available is None or tool_name in available)

    # Where it works

    @property
    def workspace(self) -> Workspace | None:
        """The workspace that a factory made for the latest run, or the one of the harness."""
        workspaces = self.harness.workspaces
        return self._workspace if workspaces.has_factory else workspaces.get()

    async def resolve_workspace(self, context: RequestContext) -> Workspace | None:
        """Resolve the workspace for a run that is about to begin."""
        self._workspace = await self.harness.workspaces.resolve_for(context)
        return self._workspace

    @property
    def sandbox(self) -> str:
        """What confines the commands of its workspace, by its name; empty: nothing does."""
        workspace = self.workspace
        return workspace.sandbox if isinstance(workspace, DirectoryWorkspace) else ""

    @property
    def working_directory(self) -> str:
        workspace = self.workspace
        return workspace.cwd if workspace is not None else self.cwd
