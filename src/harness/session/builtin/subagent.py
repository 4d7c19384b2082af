"""`subagent`: give a task to a sub-agent that starts fresh, or on a fork of this conversation.

A fresh one is a run inside this thread's log, with its own instructions, tools and model. A forked one is the
same agent on its own thread. A failure is returned as the result: the parent's run continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any, Protocol

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from harness.approvals.globs import escaped
from harness.contracts.model import Model
from harness.contracts.tool import Tool, ToolContext, ToolOutput, ToolPermission
from harness.errors import HarnessError
from harness.events import Operation, Result
from harness.events.operation import Spawn
from harness.folds.session.runs import aborted_output
from harness.native.loop.agent_run import AgentRun
from harness.native.loop.loop_context import AgentOptions
from harness.questions.permissions import PermissionPolicy
from harness.session.builtin.arguments import Arguments, described, read
from harness.session.builtin.forks import ForkParent, ForkRefused, converse, open_fork
from harness.session.builtin.tasks import TaskTool
from harness.session.config import RequestContext, Subagent, tools_of

USUAL_STEPS = 50
_ENDLESS_STEPS = 1000
NO_MODEL = "No model ID available for subagent. Configure defaultModelId."

_DESCRIPTION = """\
Give a task to a sub-agent, which works on it by itself and answers in text. Calls in one answer work at the same \
time.

Types:
{types}

A sub-agent knows nothing of this conversation: write down everything that it needs. With forked: true it begins \
with all of this conversation instead, and with the same tools."""


class SubagentArguments(Arguments, frozen=True, kw_only=True):
    agent_type: str
    task: Annotated[str, Meta(description="what to do, and what to answer")]
    model_id: Annotated[str, Meta(description="another model for this task")] = ""
    forked: Annotated[bool, Meta(description="begin with this conversation")] | UnsetType = UNSET


class SubagentParent(ForkParent, Protocol):
    """What a session gives to its sub-agents."""

    def chosen_model_id(self, agent_type: str) -> str:
        """The model selected for this type, or for all types; empty when none was."""
        ...

    def mode_model_id(self) -> str:
        """The model of the current mode; empty when it has none."""
        ...

    def open_model(self, model_id: str) -> Model:
        """Raises HarnessError."""
        ...

    def harness_tools(self) -> Sequence[Tool]:
        """The tools that the harness was configured with."""
        ...

    def server_tools(self, names: Sequence[str]) -> Sequence[Tool]:
        """The tools of these MCP servers."""
        ...

    def workspace_tools(self) -> Sequence[Tool]: ...

    def may_have(self, tool_name: str) -> bool:
        """Whether the current mode allows a tool of that name."""
        ...

    def rules_for(self, tools: Sequence[Tool]) -> PermissionPolicy:
        """The parent's rules, for a run with these tools."""
        ...

    def request_context(self) -> RequestContext: ...


class SubagentTool(Tool):
    category = "edit"

    def __init__(self, parent: SubagentParent, subagents: Sequence[Subagent]) -> None:
        self._parent = parent
        self._definitions = {definition.id: definition for definition in subagents}
        types = "\n".join(
            f"- {subagent.id} ({subagent.name}): {subagent.description}" for subagent in subagents
        )
        spec = described("subagent", _DESCRIPTION.format(types=types), SubagentArguments)
        properties = {
            **spec.schema["properties"],
            "agentType": {"type": "string", "enum": list(self._definitions), "description": "whom to ask"},
        }
        self.spec = replace(spec, schema={**spec.schema, "properties": properties})

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return [Spawn(name=str(arguments.get("agentType", "")), task=str(arguments.get("task", "")))]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        kind = arguments.get("agentType", arguments.get("agent_type"))
        return ToolPermission("subagent", {"agentType": escaped(str(kind))})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = read(SubagentArguments, arguments, "subagent")
        definition = self._definitions.get(order.agent_type)
        if definition is None:
            return _failed(
                f"Unknown agent type: {order.agent_type}. Valid types: {', '.join(self._definitions)}"
            )
        is_forked = definition.forked if isinstance(order.forked, UnsetType) else order.forked
        if is_forked:
            return await self._fork(definition, order.task, context)
        return await self._fresh(definition, order, context)

    async def _fresh(
        self, definition: Subagent, order: SubagentArguments, context: ToolContext
    ) -> ToolOutput:
        parent = self._parent
        conversation = parent.conversation()
        if conversation is None:
            return _failed("Subagents need a parent agent that runs in this process.")
        model_id = (
            order.model_id
            or parent.chosen_model_id(definition.id)
            or definition.default_model_id
            or parent.mode_model_id()
        )
        if not model_id:
            return _failed(NO_MODEL)
        parent_context = conversation.context
        try:
            options = self._options(definition, parent.open_model(model_id))
            child = AgentRun(parent_context, options, parent_id=context.call_id, depth=1, name=definition.id)
        except Exception as error:  # noqa: BLE001 # a model that cannot be opened is an answer to the call
            return _failure(definition, _words(error))
        return await _to_the_end(
            definition,
            child.run(order.task),
            lambda: child.result,
            lambda: child.failure,
            lambda task: parent_context.runs.__setitem__(child.run_id, task),
            lambda: parent_context.runs.pop(child.run_id, None),
        )

    async def _fork(self, definition: Subagent, task: str, context: ToolContext) -> ToolOutput:
        try:
            fork = open_fork(self._parent, definition, task, context, (SubagentTool, TaskTool))
        except ForkRefused as error:
            return _failed(str(error))
        side = fork.side
        try:
            return await _to_the_end(
                definition, converse(fork, definition, task), lambda: side.result, side.failure
            )
        finally:
            side.close()

    def _options(self, definition: Subagent, model: Model) -> AgentOptions:
        """The options of a fresh sub-agent: it shares only permissions and workspace with its parent."""
        parent = self._parent
        mine = parent.options() or AgentOptions(model=model)
        steps = definition.max_steps or (_ENDLESS_STEPS if definition.stop_when else USUAL_STEPS)
        tools = self._tools(definition)
        return AgentOptions(
            model=model,
            tools=tools,
            permissions=parent.rules_for(tools),
            system_prompt=_instructions(definition, parent.request_context()),
            max_iterations=steps,
            stop_when=definition.stop_when,
            gate=mine.gate,
            before_call=mine.before_call,
            before_run=mine.before_run,
            after_call=mine.after_call,
            relay_deadline_s=mine.relay_deadline_s,
            tool_deadline_s=mine.tool_deadline_s,
            most_output_characters=mine.most_output_characters,
            request=parent.request_context(),
            refusal=mine.refusal,
            agent=mine.agent,
            version=mine.version,
        )

    def _tools(self, definition: Subagent) -> tuple[Tool, ...]:
        """Its own tools, the allowed tools of the harness, and the workspace tools not hidden from it. Of
        these, only those that the parent's mode allows, and none that is denied.
        """
        parent = self._parent
        tools_by_name = {
            tool.spec.name: tool for tool in tools_of(definition.tools, parent.request_context())
        }
        shared = {tool.spec.name: tool for tool in parent.harness_tools()}
        for name in definition.allowed_harness_tools:
            if name in shared:
                tools_by_name.setdefault(name, shared[name])
        for tool in parent.server_tools(definition.mcp_servers):
            tools_by_name.setdefault(tool.spec.name, tool)
        allowed = definition.allowed_workspace_tools
        for tool in parent.workspace_tools():
            if allowed is None or tool.spec.name in allowed:
                tools_by_name.setdefault(tool.spec.name, tool)
        return tuple(tool for name, tool in tools_by_name.items() if parent.may_have(name))


async def _to_the_end(
    definition: Subagent,
    working: Coroutine[Any, Any, Result],
    result: Callable[[], Result | None],
    failure: Callable[[], str],
    on_start: Callable[[asyncio.Task[Result]], object] = lambda _: None,
    on_end: Callable[[], object] = lambda: None,
) -> ToolOutput:
    """Wait for a sub-agent. If it or the parent is stopped, its text so far is the result."""
    task = asyncio.get_running_loop().create_task(working)
    on_start(task)
    try:
        await _ended(task)
    except asyncio.CancelledError:
        task.cancel()
        await _ended(task)
        last = result()
        return _aborted(last.text if last is not None else "")
    finally:
        on_end()
    if task.cancelled():
        last = result()
        return _aborted(last.text if last is not None else "")
    if (error := task.exception()) is not None:
        return _failure(definition, _words(error))
    end = task.result()
    if end.outcome == "interrupted":
        return _aborted(end.text)
    if end.outcome not in ("completed", "limit_exceeded"):
        return _failure(definition, failure() or end.outcome)
    return _output(end.text)


def _ended(task: asyncio.Task[Result]) -> Awaitable[object]:
    return asyncio.wait((task,))


def _instructions(definition: Subagent, context: RequestContext) -> str:
    own_instructions = definition.instructions
    if isinstance(own_instructions, str):
        return own_instructions
    return own_instructions(context) if callable(own_instructions) else "\n".join(own_instructions)


def _output(content: str, *, is_error: bool = False) -> ToolOutput:
    return ToolOutput(text=content, result={"content": content, "isError": is_error}, success=not is_error)


def _failed(content: str) -> ToolOutput:
    return _output(content, is_error=True)


def _failure(definition: Subagent, message: str) -> ToolOutput:
    return _failed(f'Subagent "{definition.name}" failed: {message}')


def _aborted(text: str) -> ToolOutput:
    return _output(aborted_output(text))


def _words(error: BaseException) -> str:
    return error.words if isinstance(error, HarnessError) else str(error) or type(error).__name__
