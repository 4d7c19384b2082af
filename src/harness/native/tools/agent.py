"""`agent`: give a task to a sub-agent, a separate run with the same tools and permissions, or with those of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Many
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from harness.approvals.globs import escaped
from harness.contracts.model import Model
from harness.contracts.subagent import SubagentKind, SubagentWish
from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.errors import HarnessError
from harness.events import Operation
from harness.events.operation import Spawn
from harness.native.tools.background_agents import BackgroundAgents

_DESCRIPTION = (
    "Give a task to a sub-agent, which has the same tools, and get its answer. It knows nothing of this "
    "conversation: tell it everything it needs. Several calls in one answer work at the same time; with background you go "
    "on meanwhile, and its answer comes by itself."
)


class KindModels(NamedTuple):
    """Which models sub-agents ask, if not that of whoever starts them."""

    open: Callable[[str], Model]
    """Raises HarnessError."""
    usual: str = ""
    small: str = ""


class AgentArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("prompt", "initial_prompt", "message", "instructions", "query", "input"), "task"),
        **dict.fromkeys(("description", "title", "role", "agent_name", "type_name"), "name"),
        **dict.fromkeys(("run_in_background", "is_background"), "background"),
        **dict.fromkeys(("subagent_type", "agent_type", "kind"), "type"),
    }
    task: Annotated[str, Meta(min_length=1, description="what to do, and what to answer")]
    name: Annotated[str, Meta(description="a short name for people")] = ""
    type: Annotated[str, Meta(description="one of the types; empty: one like you")] = ""
    background: Annotated[bool, Meta(description="return at once; bash_output shows how it stands")] = False


class AgentTool(Tool):
    category = "edit"

    def __init__(self, kinds: Many[SubagentKind] = (), models: KindModels | None = None) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._models = models
        types = "".join(f"\n- {kind.name}: {kind.description}" for kind in kinds)
        tool_spec = spec("agent", _DESCRIPTION + (f"\nTypes:{types}" if types else ""), AgentArguments)
        if not kinds:
            properties = {
                name: value for name, value in tool_spec.schema["properties"].items() if name != "type"
            }
            tool_spec = replace(tool_spec, schema={**tool_spec.schema, "properties": properties})
        self.spec = tool_spec

    def operations(self, arguments: dict[str, Any]) -> Many[Operation]:
        order = take(AgentArguments, arguments, "agent")
        return [Spawn(task=order.task, name=order.name or order.type)]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        kind = take(AgentArguments, arguments, "agent").type
        return ToolPermission("agent", {"type": escaped(kind)} if kind else {})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = take(AgentArguments, arguments, "agent")
        kind = self._kinds.get(order.type)
        if kind is None and order.type not in ("", "general", "general-purpose", "default"):
            names = ", ".join(self._kinds) or "none: leave it out"
            raise ToolFailure(f"there is no sub-agent of the type {order.type!r} (there are: {names})")
        model, trouble = self._model(kind)
        wish = SubagentWish(kind, model) if kind or model else None
        name = order.name or order.type
        if not order.background:
            return ToolOutput(text=await context.spawn(order.task, name, wish) + trouble)
        agents: BackgroundAgents = context.resource(BackgroundAgents)
        agent = agents.start(name, context.spawn(order.task, name, wish))
        text = f"{agent.id} works in the background; its answer comes by itself, before you are done"
        return ToolOutput(text=text + trouble)

    def _model(self, kind: SubagentKind | None) -> tuple[Model | None, str]:
        """None: that of whoever starts it; and what is to be said of one that cannot be used."""
        if self._models is None:
            return None, ""
        small = self._models.small if kind is not None and kind.is_small else ""
        name = (kind.model if kind is not None else "") or small or self._models.usual
        if not name:
            return None, ""
        try:
            return self._models.open(name), ""
        except HarnessError as error:
            return None, f"\n[its model {name} cannot be used, so yours was: {error.message}]"
