"""`agent`: give a task to a sub-agent, a separate run with the same tools and permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from harness.contracts.tool import Tool, ToolContext, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import Spawn

_DESCRIPTION = (
    "Give a task to a sub-agent, which has the same tools, and get its answer. It knows nothing of this "
    "conversation: tell it everything it needs. Several calls in one answer work at the same time."
)


class AgentArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("prompt", "message", "instructions", "query", "input"), "task"),
        **dict.fromkeys(("description", "title", "agent_name"), "name"),
    }
    task: Annotated[str, Meta(min_length=1, description="what to do, and what to answer")]
    name: Annotated[str, Meta(description="a short name for people")] = ""


class AgentTool(Tool):
    category = "edit"

    def __init__(self) -> None:
        self.spec = spec("agent", _DESCRIPTION, AgentArguments)

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        asked = take(AgentArguments, arguments, "agent")
        return [Spawn(task=asked.task, name=asked.name)]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("agent")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        asked = take(AgentArguments, arguments, "agent")
        return ToolOutput(text=await context.spawn(asked.task, asked.name))
