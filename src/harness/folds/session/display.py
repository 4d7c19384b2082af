"""How the display state changes with each event: a table from the event to the rule.

`reduce` changes the state in place. It depends on the events alone, so every client that gets the events computes the
same state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from msgspec import UNSET

from harness.folds.session import events as wire
from harness.folds.session.display_state import (
    ActiveSubagent,
    ActiveTool,
    BufferedObservations,
    BufferedReflection,
    Buffering,
    DisplayState,
    ModifiedFile,
    OmProgress,
    PendingApproval,
    PendingSuspension,
    QueuedSteering,
    SubagentCall,
    ToolInputBuffer,
)
from harness.folds.session.events import HarnessEvent
from harness.folds.session.messages import Growing
from harness.formatting.json_text import compact

# The part of the display state for observational memory.


def _state(state: DisplayState, event: wire.StateChangedEvent) -> None:
    progress = state.om_progress
    changes = {key: event.state.get(key) for key in event.changed_keys}
    threshold, reflection = (
        _number(changes.get(f"{name}Threshold")) for name in ("observation", "reflection")
    )
    if threshold is not None:
        progress.threshold = threshold
    if reflection is not None:
        progress.reflection_threshold = reflection
    if threshold is not None or reflection is not None:
        _count_percents(progress)


def _om_status(state: DisplayState, event: wire.OmStatusEvent) -> None:
    progress = state.om_progress
    active = _mapping(event.windows, "active")
    messages, observations = _mapping(active, "messages"), _mapping(active, "observations")
    progress.pending_tokens = _count(messages, "tokens")
    progress.threshold = _number(messages.get("threshold")) or 0
    progress.observation_tokens = _count(observations, "tokens")
    progress.reflection_threshold = _number(observations.get("threshold")) or 0
    _count_percents(progress)
    buffered = _mapping(event.windows, "buffered")
    chunks, reflection = _mapping(buffered, "observations"), _mapping(buffered, "reflection")
    progress.buffered.observations = BufferedObservations(
        status=_buffering(chunks),
        chunks=_count(chunks, "chunks"),
        message_tokens=_count(chunks, "messageTokens"),
        projected_message_removal=_count(chunks, "projectedMessageRemoval"),
        observation_tokens=_count(chunks, "observationTokens"),
    )
    progress.buffered.reflection = BufferedReflection(
        status=_buffering(reflection),
        input_observation_tokens=_count(reflection, "inputObservationTokens"),
        observation_tokens=_count(reflection, "observationTokens"),
    )
    progress.generation_count = event.generation_count
    progress.step_number = event.step_number
    state.buffering_messages = progress.buffered.observations.status == "running"
    state.buffering_observations = progress.buffered.reflection.status == "running"


def _observation_start(state: DisplayState, event: wire.OmObservationStartEvent) -> None:
    _noting(state.om_progress, "observing", event)


def _observation_end(state: DisplayState, event: wire.OmObservationEndEvent) -> None:
    progress = state.om_progress
    _idle(state, event)
    progress.observation_tokens = event.observation_tokens
    progress.pending_tokens = 0
    _count_percents(progress)


def _reflection_start(state: DisplayState, event: wire.OmReflectionStartEvent) -> None:
    progress = state.om_progress
    _noting(progress, "reflecting", event)
    progress.pre_reflection_tokens = progress.observation_tokens
    progress.observation_tokens = event.tokens_to_reflect
    _count_percents(progress)


def _reflection_end(state: DisplayState, event: wire.OmReflectionEndEvent) -> None:
    _idle(state, event)
    state.om_progress.observation_tokens = event.compressed_tokens
    _count_percents(state.om_progress)


def _noting(
    progress: OmProgress,
    status: Literal["observing", "reflecting"],
    event: wire.OmObservationStartEvent | wire.OmReflectionStartEvent,
) -> None:
    progress.status = status
    progress.cycle_id = event.cycle_id
    progress.start_time = UNSET if event.timestamp is None else event.timestamp


def _idle(state: DisplayState, event: HarnessEvent) -> None:
    del event
    progress = state.om_progress
    progress.status, progress.cycle_id, progress.start_time = "idle", UNSET, UNSET


def _buffering_start(state: DisplayState, event: wire.OmBufferingStartEvent) -> None:
    _set_buffering(state, event.operation_type, is_buffering=True)


def _buffering_over(
    state: DisplayState,
    event: wire.OmBufferingEndEvent | wire.OmBufferingFailedEvent | wire.OmActivationEvent,
) -> None:
    _set_buffering(state, event.operation_type, is_buffering=False)


def _set_buffering(state: DisplayState, operation: str, *, is_buffering: bool) -> None:
    if operation == "observation":
        state.buffering_messages = is_buffering
    else:
        state.buffering_observations = is_buffering


def _count_percents(progress: OmProgress) -> None:
    progress.threshold_percent = _percent(progress.pending_tokens, progress.threshold)
    progress.reflection_threshold_percent = _percent(
        progress.observation_tokens, progress.reflection_threshold
    )


def _percent(tokens: int, threshold: float) -> float:
    return tokens / threshold * 100 if threshold else 0


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, Mapping) else {}


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: Mapping[str, Any], key: str) -> int:
    return int(_number(value.get(key)) or 0)


def _buffering(value: Mapping[str, Any]) -> Buffering:
    status = value.get("status")
    return status if status in ("running", "complete") else "idle"


MEMORY_RULES: Mapping[type[HarnessEvent], Callable[[DisplayState, Any], None]] = {
    wire.StateChangedEvent: _state,
    wire.OmStatusEvent: _om_status,
    wire.OmObservationStartEvent: _observation_start,
    wire.OmObservationEndEvent: _observation_end,
    wire.OmObservationFailedEvent: _idle,
    wire.OmReflectionStartEvent: _reflection_start,
    wire.OmReflectionEndEvent: _reflection_end,
    wire.OmReflectionFailedEvent: _idle,
    wire.OmBufferingStartEvent: _buffering_start,
    wire.OmBufferingEndEvent: _buffering_over,
    wire.OmBufferingFailedEvent: _buffering_over,
    wire.OmActivationEvent: _buffering_over,
}


__all__ = ["MODIFYING_TOOLS", "DisplayState", "reduce", "reset_thread"]

MODIFYING_TOOLS: Collection[str] = frozenset({"string_replace_lsp", "write_file", "ast_smart_edit"})
"""Tools that write the file in their argument `path`; used if a call does not list its files."""


def reduce(
    state: DisplayState, event: HarnessEvent, modifying_tools: Collection[str] = MODIFYING_TOOLS
) -> None:
    kind = type(event)
    if kind is wire.MessageUpdateEvent:  # fast path: the most frequent event
        state.current_message = event.message  # type: ignore[attr-defined]
        return
    rule = _RULES.get(kind)
    if rule is not None:
        rule(state, event)
        if kind is wire.ToolEndEvent:
            _note_modified(state, event, modifying_tools)


def reset_thread(state: DisplayState) -> None:
    """Another thread was selected: clear everything except `is_running`, which does not depend on the thread."""
    fresh = DisplayState(is_running=state.is_running)
    for name in DisplayState.__struct_fields__:
        setattr(state, name, getattr(fresh, name))


def _agent_start(state: DisplayState, event: wire.AgentStartEvent) -> None:
    state.is_running = True
    state.active_tools = {}
    state.tool_input_buffers = {}
    state.current_message = None
    state.pending_approval = None
    for tool_call_id in event.resumed_tool_call_ids or ():
        state.pending_suspensions.pop(tool_call_id, None)


def _agent_end(state: DisplayState, event: wire.AgentEndEvent) -> None:
    state.is_running = False
    state.pending_approval = None
    if event.reason != "suspended":
        state.pending_suspensions = {}
    for tool in state.active_tools.values():
        if tool.status in ("running", "streaming_input"):
            tool.status = "error"
    state.active_subagents = {}


def _message(
    state: DisplayState, event: wire.MessageStartEvent | wire.MessageUpdateEvent | wire.MessageEndEvent
) -> None:
    state.current_message = event.message


def _message_start(state: DisplayState, event: wire.MessageStartEvent) -> None:
    _message(state, event)
    if state.queued_steering and event.message.role == "user":
        state.queued_steering = [
            message for message in state.queued_steering if message.id != event.message.id
        ]


def _tool_input_start(state: DisplayState, event: wire.ToolInputStartEvent) -> None:
    buffer = ToolInputBuffer(text_pieces=Growing(), tool_name=event.tool_name)
    state.tool_input_buffers[event.tool_call_id] = buffer
    tool = ActiveTool(name=event.tool_name, args={}, status="streaming_input")
    state.active_tools[event.tool_call_id] = tool


def _tool_input_delta(state: DisplayState, event: wire.ToolInputDeltaEvent) -> None:
    buffer = state.tool_input_buffers.get(event.tool_call_id)
    if buffer is not None:
        buffer.text_pieces.add(event.args_text_delta)


def _tool_input_end(state: DisplayState, event: wire.ToolInputEndEvent) -> None:
    state.tool_input_buffers.pop(event.tool_call_id, None)


def _tool_start(state: DisplayState, event: wire.ToolStartEvent) -> None:
    _answered(state, event.tool_call_id)
    tool = state.active_tools.get(event.tool_call_id)
    if tool is None:
        tool = ActiveTool(name=event.tool_name, args=event.args, status="running")
        state.active_tools[event.tool_call_id] = tool
    tool.name, tool.args, tool.status = event.tool_name, event.args, "running"


def _tool_update(state: DisplayState, event: wire.ToolUpdateEvent) -> None:
    tool = state.active_tools.get(event.tool_call_id)
    if tool is not None:
        result = event.partial_result
        tool.partial_result = result if isinstance(result, str) else compact(result)


def _shell_output(state: DisplayState, event: wire.ShellOutputEvent) -> None:
    tool = state.active_tools.get(event.tool_call_id)
    if tool is None:
        return
    if tool.shell_output_pieces is UNSET:
        tool.shell_output_pieces = Growing()
    tool.shell_output_pieces.add(event.output)


def _tool_end(state: DisplayState, event: wire.ToolEndEvent) -> None:
    _answered(state, event.tool_call_id)
    tool = state.active_tools.get(event.tool_call_id)
    if tool is not None:
        tool.status = "error" if event.is_error else "completed"
        tool.result = event.result
        tool.is_error = event.is_error


def _note_modified(state: DisplayState, event: Any, modifying_tools: Collection[str]) -> None:
    tool = state.active_tools.get(event.tool_call_id)
    if tool is None or event.is_error:
        return
    paths = list(event.modified_paths or ())
    if not paths and tool.name in modifying_tools and isinstance(tool.args, Mapping):
        path = tool.args.get("path")
        paths = [path] if isinstance(path, str) and path else []
    for path in paths:
        file = state.modified_files.get(path)
        if file is None:
            file = ModifiedFile(operations=[], first_modified=event.timestamp or 0)
            state.modified_files[path] = file
        file.operations.append(tool.name)


def _answered(state: DisplayState, tool_call_id: str) -> None:
    """That call no longer waits for an approval or an answer."""
    if state.pending_approval is not None and state.pending_approval.tool_call_id == tool_call_id:
        state.pending_approval = None
    state.pending_suspensions.pop(tool_call_id, None)


def _approval(state: DisplayState, event: wire.ToolApprovalRequiredEvent) -> None:
    state.pending_approval = approval_shown(event)


def approval_shown(event: wire.ToolApprovalRequiredEvent) -> PendingApproval:
    """The display state's entry for an approval."""
    more = {
        name: value
        for name in ("options", "category", "preview", "calls", "agent_type", "parent_tool_call_id")
        if (value := getattr(event, name)) is not None
    }
    return PendingApproval(
        tool_call_id=event.tool_call_id, tool_name=event.tool_name, args=event.args, **more
    )


def _suspended(state: DisplayState, event: wire.ToolSuspendedEvent) -> None:
    state.pending_suspensions[event.tool_call_id] = PendingSuspension(
        tool_call_id=event.tool_call_id,
        tool_name=event.tool_name,
        args=event.args,
        suspend_payload=event.suspend_payload,
        resume_schema=UNSET if event.resume_schema is None else event.resume_schema,
    )


def _cancelled(state: DisplayState, event: wire.ToolSuspensionCancelledEvent) -> None:
    state.pending_suspensions.pop(event.tool_call_id, None)


def _subagent_start(state: DisplayState, event: wire.SubagentStartEvent) -> None:
    state.active_subagents[event.tool_call_id] = ActiveSubagent(
        agent_type=event.agent_type,
        task=event.task,
        model_id=event.model_id or UNSET,
        forked=event.forked or UNSET,
        tool_calls=[],
        text_delta_pieces=Growing(),
        status="running",
    )


def _subagent_text(state: DisplayState, event: wire.SubagentTextDeltaEvent) -> None:
    subagent = state.active_subagents.get(event.tool_call_id)
    if subagent is not None:
        subagent.text_delta_pieces.add(event.text_delta)


def _subagent_tool_start(state: DisplayState, event: wire.SubagentToolStartEvent) -> None:
    subagent = state.active_subagents.get(event.tool_call_id)
    if subagent is not None:
        subagent.tool_calls.append(SubagentCall(name=event.sub_tool_name, is_error=False))


def _subagent_tool_end(state: DisplayState, event: wire.SubagentToolEndEvent) -> None:
    subagent = state.active_subagents.get(event.tool_call_id)
    for call in subagent.tool_calls if subagent is not None else ():
        if call.name == event.sub_tool_name and not call.is_error:
            call.is_error = event.is_error
            return


def _subagent_end(state: DisplayState, event: wire.SubagentEndEvent) -> None:
    subagent = state.active_subagents.get(event.tool_call_id)
    if subagent is not None:
        subagent.status = "error" if event.is_error else "completed"
        subagent.duration_ms = event.duration_ms
        subagent.result = event.result


def _usage(state: DisplayState, event: wire.UsageUpdateEvent) -> None:
    state.token_usage = state.token_usage.plus(event.usage) if event.total is None else event.total


def _tasks(state: DisplayState, event: wire.TaskUpdatedEvent) -> None:
    state.previous_tasks, state.tasks = state.tasks, list(event.tasks)


def _follow_ups(state: DisplayState, event: wire.FollowUpQueuedEvent) -> None:
    state.queued_follow_ups = event.count


def _steering(state: DisplayState, event: wire.SteeringQueuedEvent) -> None:
    state.queued_steering.append(QueuedSteering(id=event.id, text=event.text))


def _thread(state: DisplayState, event: wire.ThreadChangedEvent | wire.ThreadCreatedEvent) -> None:
    del event
    reset_thread(state)


def _thread_deleted(state: DisplayState, event: wire.ThreadDeletedEvent) -> None:
    if event.was_current:
        reset_thread(state)


_RULES: Mapping[type[HarnessEvent], Callable[[DisplayState, Any], None]] = {
    wire.AgentStartEvent: _agent_start,
    wire.AgentEndEvent: _agent_end,
    wire.MessageStartEvent: _message_start,
    wire.MessageUpdateEvent: _message,
    wire.MessageEndEvent: _message,
    wire.ToolInputStartEvent: _tool_input_start,
    wire.ToolInputDeltaEvent: _tool_input_delta,
    wire.ToolInputEndEvent: _tool_input_end,
    wire.ToolStartEvent: _tool_start,
    wire.ToolUpdateEvent: _tool_update,
    wire.ShellOutputEvent: _shell_output,
    wire.ToolEndEvent: _tool_end,
    wire.ToolApprovalRequiredEvent: _approval,
    wire.ToolSuspendedEvent: _suspended,
    wire.ToolSuspensionCancelledEvent: _cancelled,
    wire.SubagentStartEvent: _subagent_start,
    wire.SubagentTextDeltaEvent: _subagent_text,
    wire.SubagentToolStartEvent: _subagent_tool_start,
    wire.SubagentToolEndEvent: _subagent_tool_end,
    wire.SubagentEndEvent: _subagent_end,
    wire.UsageUpdateEvent: _usage,
    wire.TaskUpdatedEvent: _tasks,
    wire.FollowUpQueuedEvent: _follow_ups,
    wire.SteeringQueuedEvent: _steering,
    wire.ThreadChangedEvent: _thread,
    wire.ThreadCreatedEvent: _thread,
    wire.ThreadDeletedEvent: _thread_deleted,
    **MEMORY_RULES,
}
