"""A thread with a real log and a real conversation, as a session would hold it for its tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from harness.contracts.model import Ask, Model, ToolSpec, Turn
from harness.contracts.tool import Tool
from harness.errors import UsageError
from harness.events import Event, Forked, Result, SessionStart, Suspended, ToolEnd
from harness.log.hub import Hub
from harness.log.store import Metadata, Store, read_all
from harness.log.stores.memory import MemoryStore
from harness.models.scripted import Scripted
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.questions.permissions import PermissionPolicy, Permissions
from harness.session.builtin.subagent import SubagentTool
from harness.session.config import RequestContext, Subagent

EXPLORE = Subagent(
    id="explore",
    name="Explore",
    description="Looks around.",
    instructions="You explore.",
    default_model_id="sub",
)


def calls(name: str, input: dict[str, Any], id: str = "c1", text: str = "") -> dict[str, Any]:
    said = [{"type": "text", "content": text}] if text else []
    return {"events": [*said, {"type": "tool_call", "name": name, "input": input, "id": id}]}


class Asked:
    """A scripted model, and copies of what it was asked."""

    def __init__(self, *responses: Any, name: str = "test/parent") -> None:
        self.asked: list[tuple[tuple[Turn, ...], tuple[ToolSpec, ...]]] = []
        self._model = Scripted(responses, name=name)
        self.name = name

    def answer(self, ask: Ask) -> Any:
        self.asked.append((tuple(ask.turns), tuple(ask.tools)))
        return self._model.answer(ask)


class ParentThread:
    """Contract: that of `SubagentParent`. Made inside a running event loop."""

    def __init__(
        self,
        model: Model,
        subagents: Sequence[Subagent] = (EXPLORE,),
        *,
        tools: Sequence[Tool] = (),
        models: dict[str, Model] | None = None,
        permissions: PermissionPolicy | None = None,
        **options: Any,
    ) -> None:
        self.kept: Store | None = MemoryStore()
        self.log_store: Store = self.kept
        self.id: str | None = "parent"
        self.models = models or {}
        self.chosen: dict[str, str] = {}
        self.hidden: set[str] = set()
        self.mode_model = ""
        self.shared: list[Tool] = []
        self.of_workspace: list[Tool] = []
        self.context = RequestContext(user="ann")
        self.followed: list[tuple[str, Hub]] = []
        self.fork_hook: Callable[[AgentOptions], AgentOptions] = lambda given: given
        self.hub = Hub(self.kept, "parent", self.kept.create(Metadata(session_id="parent", kind="thread")))
        self.current: AgentConversation | None = AgentConversation(self.loop_context(self.hub))
        self.tool = SubagentTool(self, subagents)
        self.working: AgentOptions | None = AgentOptions(
            model=model,
            tools=(*tools, self.tool),
            permissions=permissions or Permissions("allow"),
            system_prompt="You are the parent.",
            max_iterations=20,
            **options,
        )

    def store(self) -> Store | None:
        return self.kept

    def thread_id(self) -> str | None:
        return self.id

    def resource_id(self) -> str:
        return "resource"

    def now_ms(self) -> int:
        return self.hub.clock()

    def loop_context(self, hub: Hub) -> LoopContext:
        return LoopContext(hub, cwd=os.getcwd(), env={}, secrets=None)

    def conversation(self) -> AgentConversation | None:
        return self.current

    def options(self) -> AgentOptions | None:
        return self.working

    def fork_options(self, options: AgentOptions, log_id: str) -> AgentOptions:
        return self.fork_hook(options)

    def follow_fork(self, call_id: str, hub: Hub) -> None:
        self.followed.append((call_id, hub))

    def new_id(self) -> str:
        return f"fork-{len(self.followed) + 1}"

    def chosen_model_id(self, agent_type: str) -> str:
        return self.chosen.get(agent_type, "")

    def mode_model_id(self) -> str:
        return self.mode_model

    def open_model(self, model_id: str) -> Model:
        if model_id not in self.models:
            raise UsageError(f"unknown model: {model_id}")
        return self.models[model_id]

    def server_tools(self, names: Sequence[str]) -> Sequence[Tool]:
        return [tool for tool in self.harness_tools() if tool.spec.name.partition("__")[0] in names]

    def harness_tools(self) -> Sequence[Tool]:
        return self.shared

    def workspace_tools(self) -> Sequence[Tool]:
        return self.of_workspace

    def may_have(self, tool_name: str) -> bool:
        return tool_name not in self.hidden

    def rules_for(self, tools: Sequence[Tool]) -> PermissionPolicy:
        assert self.working is not None
        return self.working.permissions

    def request_context(self) -> RequestContext:
        return self.context

    async def send(self, text: str) -> Result | Suspended:
        assert self.current is not None
        assert self.working is not None
        return await self.current.send(self.working, text)

    def log(self, log_id: str = "parent") -> list[Event]:
        assert self.current is not None
        self.current.context.outbox.flush()
        return list(read_all(self.log_store, log_id))

    def end_of(self, name: str = "subagent") -> ToolEnd:
        (end,) = [event for event in self.log() if isinstance(event, ToolEnd) and event.tool_name == name]
        return end

    def nested(self) -> list[SessionStart]:
        return [event for event in self.log() if isinstance(event, SessionStart) and event.parent_id]

    def forks(self) -> list[Forked]:
        return [event for event in self.log() if isinstance(event, Forked)]
