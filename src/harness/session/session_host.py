"""A session as its parts see it: the interface for built-in tools, goals, notifications and forks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from harness.contracts.model import Model, Turn
from harness.contracts.tool import Tool
from harness.conversation.turns import StepContext
from harness.events import Event, Message, Signal, Task, TasksChanged
from harness.log.hub import Hub
from harness.log.store import Store
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext, environment_for_tools
from harness.questions.permissions import PermissionPolicy
from harness.session.config import BackingAgent, RequestContext, tools_of
from harness.session.drivers import Drivers
from harness.session.goals import GoalOptions
from harness.session.runs import Runs
from harness.session.session_settings import SessionSettings
from harness.session.signals import split
from harness.session.thread_log import ThreadLog
from harness.usage.run_cost import prices_of


class RunForForks(Protocol):
    """The current run, as far as sub-agents are told of it."""

    options: AgentOptions | None
    last_message: str
    """What the user wrote last."""

    def shown_to_forks(self) -> Callable[[StepContext], Awaitable[Sequence[Turn]]] | None: ...


class SessionHost:
    """Contract: that of `SubagentParent`, `GoalHost` and `TaskBoard`."""

    def __init__(
        self, log: ThreadLog, settings: SessionSettings, drivers: Drivers, runs: Runs, hooks: RunForForks
    ) -> None:
        self._log, self._settings, self._drivers = log, settings, drivers
        self._runs, self._hooks = runs, hooks
        self._harness = settings.harness

    # The thread

    def store(self) -> Store | None:
        """Where child threads are stored; None for a harness without memory."""
        harness = self._harness
        return harness.store if harness.memory_input is not None else None

    def thread_id(self) -> str | None:
        return self._log.thread_id

    def resource_id(self) -> str:
        return self._settings.identity.get_resource_id()

    def now_ms(self) -> int:
        return self._harness.clock()

    def new_id(self) -> str:
        return self._harness.new_id()

    def append(self, event: Event) -> None:
        self._log.append(event)

    def loop_context(self, hub: Hub) -> LoopContext:
        harness = self._harness
        return LoopContext(
            hub,
            cwd=self._settings.working_directory,
            env=environment_for_tools(harness.environ, {}),
            secrets=harness.secrets,
            cost_of=prices_of(self._settings.working_directory),
            sandbox=self._settings.sandbox,
        )

    # Tasks

    def tasks(self) -> Sequence[Task] | None:
        return self._log.bus.fold.facts.tasks if self._log.thread is not None else None

    async def replace(self, tasks: Sequence[Task]) -> None:
        self._log.append(TasksChanged(tasks=list(tasks)))

    # Goals

    def objective(self) -> Mapping[str, Any] | None:
        return self._log.bus.fold.facts.objective

    def goal_options(self) -> GoalOptions | None:
        agent = self._settings.agent
        return agent.goal if isinstance(agent, BackingAgent) else None

    def last_user_text(self) -> str:
        return self._hooks.last_message

    # Sub-agents

    def conversation(self) -> AgentConversation | None:
        return self._drivers.conversation

    def options(self) -> AgentOptions | None:
        return self._hooks.options

    def fork_options(self, options: AgentOptions, log_id: str) -> AgentOptions:
        """A fork is short and needs no memory: it is shown what its parent was shown, and what followed."""
        del log_id
        return replace(options, before_step=self._hooks.shown_to_forks())

    def follow_fork(self, call_id: str, hub: Hub) -> None:
        self._log.bus.attach_fork(call_id, hub)

    def chosen_model_id(self, agent_type: str) -> str:
        return self._settings.subagents.model.get(agent_type=agent_type) or ""

    def mode_model_id(self) -> str:
        return self._settings.model.get() or self._settings.mode.resolve().default_model_id

    def open_model(self, model_id: str) -> Model:
        return self._harness.catalogue.resolve(model_id)

    def harness_tools(self) -> Sequence[Tool]:
        harness = self._harness
        return (*harness.mcp.tools(), *tools_of(harness.tools, self.request_context()))

    def server_tools(self, names: Sequence[str]) -> Sequence[Tool]:
        return self._harness.mcp.tools(names)

    def workspace_tools(self) -> Sequence[Tool]:
        workspace = self._settings.workspace
        return workspace.tools() if workspace is not None else ()

    def may_have(self, tool_name: str) -> bool:
        return self._settings.may_have(tool_name)

    def rules_for(self, tools: Sequence[Tool]) -> PermissionPolicy:
        return self._settings.permissions.of(tools)

    def request_context(self) -> RequestContext:
        """The request context without the ids of the parent's thread."""
        context = RequestContext(self._runs.context)
        for key in ("threadId", "resourceId", "thread_id", "resource_id"):
            context.pop(key, None)
        return context


class SessionInboxHost(SessionHost):
    """Contract: that of `InboxHost`."""

    def thread_id(self) -> str:
        """Raises UsageError without a thread."""
        return self._log.require_thread().id

    def agent_id(self) -> str:
        return self._settings.agent.name

    def notifications(self) -> Mapping[str, Mapping[str, Any]]:
        return self._log.bus.fold.facts.notifications


def user_text(event: Event) -> str:
    """The text that the user wrote; empty for any other event."""
    if isinstance(event, Message):
        return event.text if event.role == "user" else ""
    if isinstance(event, Signal) and event.category == "user":
        return "\n".join(split(event.contents)[0])
    return ""
