"""What runs inside of runs do, and what happens on forks: told as the sub-agents of the calls that began them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.events import (
    Event,
    Forked,
    Message,
    ReplInput,
    ReplOutput,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.log.run_tree import REPL_TOOL, RunTree
from harness.views.session import events as wire
from harness.views.session.events import HarnessEvent
from harness.views.session.runs import ChildRun, OpenCall


def started(
    event: SessionStart, call: OpenCall | None, number: int
) -> tuple[ChildRun, Sequence[HarnessEvent]]:
    """A run that hangs on a call, the first of it or a later one."""
    name = event.name or (call.agent_name if call is not None else "") or event.agent or "sub-agent"
    # A call that begins several has one id, but each of them is another.
    tool_call_id = event.parent_id if number == 1 else f"{event.parent_id}#{number}"
    child = ChildRun(tool_call_id, name, event.timestamp_ms)
    start = wire.SubagentStart(
        tool_call_id=tool_call_id,
        agent_type=name,
        task=call.task if call is not None else "",
        model_id=event.model,
    )
    return child, (start,)


def forked(event: Forked) -> tuple[ChildRun, Sequence[HarnessEvent]]:
    child = ChildRun(event.call_id, event.agent_type, event.timestamp_ms, is_fork=True)
    start = wire.SubagentStart(
        tool_call_id=event.call_id,
        agent_type=event.agent_type,
        task=event.task,
        model_id=event.model_id,
        forked=True,
    )
    return child, (start,)


def told(child: ChildRun, event: Event, tree: RunTree) -> Sequence[HarnessEvent]:
    """Whatever a sub-agent's run says, but for its beginning. `tree`: of its log."""
    if isinstance(event, Message):
        rest = tree.rest(event)
        return child.say(event.text if rest is None else rest) if event.role == "assistant" else ()
    handler = _HANDLERS.get(type(event))
    return () if handler is None else handler(child, event)


def _result(child: ChildRun, event: Result) -> Sequence[HarnessEvent]:
    duration_ms = event.duration_ms
    if duration_ms is None:
        duration_ms = max(0, event.timestamp_ms - child.started_ms)
    left = [one for call_id in list(child.calls) for one in child.end_call(call_id, None, is_error=True)]
    if event.outcome == "interrupted":
        return [*left, *child.stop(event.text, duration_ms)]
    is_error = not event.success and event.outcome != "limit_exceeded"
    return [*left, *child.end(event.text, duration_ms, is_error=is_error)]


def result_of(end: ToolEnd) -> Any:
    """As data where the tool gave any, else its text."""
    return end.output if end.result is None else end.result


_HANDLERS: Mapping[type[Event], Callable[[ChildRun, Any], Sequence[HarnessEvent]]] = {
    TextDelta: lambda child, event: child.say(event.text),
    ToolStart: lambda child, event: child.start_call(event.call_id, event.tool_name, event.input),
    ToolEnd: lambda child, event: child.end_call(event.call_id, result_of(event), is_error=event.has_failed),
    ReplInput: lambda child, event: child.start_call(event.id, REPL_TOOL, {"code": event.code}),
    ReplOutput: lambda child, event: child.end_call(
        event.id, event.error or event.stdout, is_error=bool(event.error)
    ),
    Result: _result,
}
