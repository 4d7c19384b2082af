"""A session as its parts see it: the interface for built-in tools, goals, notifications and forks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from harness.contracts.model import Model
from harness.contracts.tool import Tool
from harness.events import Event, Message, Signal, Task, TasksChanged
from harness.log.hub import Hub
from harness.log.store import Store
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext, environment_for_tools
from harness.questions.permissions import PermissionPolicy
from harness.session.config import BackingAgent, RequestContext, tools_of
from harness.session.goals import GoalOptions
from harness.session.signals import split
from harness.usage.run_cost import prices_of

if TYPE_CHECKING:
    from harness.session.session_core import SessionCore


class SessionHost:
    """Contract: that of `SubagentParent`, `GoalHost` and `TaskBoard`."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    # The thread

    def store(self) -> Store | None:
        """Where child threads are stored; None for a harness without memory."""
        harness = self._session.harness
        return harness.store if harness.memory_input is not None else None

    def thread_id(self) -> str | None:
        return self._session.thread.get_id()

    def resource_id(self) -> str:
        return self._session.identity.get_resource_id()

    def now_ms(self) -> int:
        return self._session.harness.clock()

    def new_id(self) -> str:
        return self._session.harness.new_id()

    def append(self, event: Event) -> None:
        self._session.append(event)

    def loop_context(self, hub: Hub) -> LoopContext:
        harness = self._session.harness
        return LoopContext(
            hub,
            cwd=self._session.working_directory,
            env=environment_for_tools(harness.environ, {}),
            secrets=harness.secrets,
            cost_of=prices_of(self._session.working_directory),
            sandbox=self._session.sandbox,
        )

    # Tasks

    def tasks(self) -> Sequence[Task] | None:
        return self._session.bus.fold.facts.tasks if self._session.thread.is_set() else None

    async def replace(self, tasks: Sequence[Task]) -> None:
        self._session.append(TasksChanged(tasks=list(tasks)))

    # Goals

    def objective(self) -> Mapping[str, Any] | None:
        return self._session.bus.fold.facts.objective

    def goal_options(self) -> GoalOptions | None:
        agent = self._session.agent
        return agent.goal if isinstance(agent, BackingAgent) else None

    def last_user_text(self) -> str:
        return self._session.hooks.last_message

    # Sub-agents

    def conversation(self) -> AgentConversation | None:
        return self._session.conversation

    def options(self) -> AgentOptions | None:
        return self._session.hooks.options

    def fork_options(self, options: AgentOptions, log_id: str) -> AgentOptions:
        """A fork is short and needs no memory: it is shown what its parent was shown, and what followed."""
        del log_id
        return replace(options, before_step=self._session.hooks.shown_to_forks())

    def follow_fork(self, call_id: str, hub: Hub) -> None:
        self._session.bus.attach_fork(call_id, hub)

    def chosen_model_id(self, agent_type: str) -> str:
        return self._session.subagents.model.get(agent_type=agent_type) or ""

    def mode_model_id(self) -> str:
        return self._session.model.get() or self._session.mode.resolve().default_model_id

    def open_model(self, model_id: str) -> Model:
        return self._session.harness.catalogue.resolve(model_id)

    def harness_tools(self) -> Sequence[Tool]:
        harness = self._session.harness
        return (*harness.mcp.tools(), *tools_of(harness.tools, self.request_context()))

    def server_tools(self, names: Sequence[str]) -> Sequence[Tool]:
        return self._session.harness.mcp.tools(names)

    def workspace_tools(self) -> Sequence[Tool]:
        workspace = self._session.workspace
        return workspace.tools() if workspace is not None else ()

    def may_have(self, tool_name: str) -> bool:
        return self._session.may_have(tool_name)

    def rules_for(self, tools: Sequence[Tool]) -> PermissionPolicy:
        return self._session.permissions.of(tools)

    def request_context(self) -> RequestContext:
        """The request context without the ids of the parent's thread."""
        context = RequestContext(self._session.runs.context)
        for key in ("threadId", "resourceId", "thread_id", "resource_id"):
            context.pop(key, None)
        return context


class SessionInboxHost(SessionHost):
    """Contract: that of `InboxHost`."""

    def thread_id(self) -> str:
        """Raises UsageError without a thread."""
        return self._session.thread.require_id()

    def agent_id(self) -> str:
        return self._session.agent.name

    def notifications(self) -> Mapping[str, Mapping[str, Any]]:
        return self._session.bus.fold.facts.notifications


def user_text(event: Event) -> str:
    """The text that the user wrote; empty for any other event."""
    if isinstance(event, Message):
        return event.text if event.role == "user" else ""
    if isinstance(event, Signal) and event.category == "user":
        return "\n".join(split(event.contents)[0])
    return ""
