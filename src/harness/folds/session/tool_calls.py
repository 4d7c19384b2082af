"""The tool calls of a run: their arguments as they are streamed, start, progress and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from harness.events import (
    Event,
    Relay,
    ReplInput,
    ReplOutput,
    ReplProgress,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
)
from harness.folds.session import events as wire
from harness.folds.session.content import files_of
from harness.folds.session.events import HarnessEvent
from harness.folds.session.parts import Part, ToolCallPart, ToolResultPart
from harness.folds.session.runs import OpenCall, TopRun
from harness.log.run_tree import REPL_TOOL


def _input(run: TopRun, event: ToolInputDelta) -> Sequence[HarnessEvent]:
    events: list[HarnessEvent] = []
    call_id = event.call_id
    if call_id not in run.inputs:
        run.inputs[call_id] = event.tool_name
        events.append(wire.ToolInputStartEvent(tool_call_id=call_id, tool_name=event.tool_name))
    if event.text:
        name = event.tool_name or None
        events.append(
            wire.ToolInputDeltaEvent(tool_call_id=call_id, args_text_delta=event.text, tool_name=name)
        )
    return events


def _start(run: TopRun, event: ToolStart) -> Sequence[HarnessEvent]:
    return _begin(run, event, event.call_id, OpenCall.of(event), event.input)


def _begin(run: TopRun, event: Event, call_id: str, call: OpenCall, arguments: Any) -> Sequence[HarnessEvent]:
    events: list[HarnessEvent] = []
    if run.inputs.pop(call_id, None) is not None:
        events.append(wire.ToolInputEndEvent(tool_call_id=call_id))
    if call_id in run.calls:  # a second start: the approval had already started it
        run.calls[call_id] = call
        return events
    run.calls[call_id] = call
    run.thoughts.pop("", None)
    events += run.begin_message(event)
    part, *update = run.add([ToolCallPart(id=call_id, name=call.name, args=arguments)])
    start = wire.ToolStartEvent(tool_call_id=call_id, tool_name=call.name, args=arguments)
    return [*events, part, start, *update]


def _progress(run: TopRun, event: ToolProgress) -> Sequence[HarnessEvent]:
    call = run.calls.get(event.call_id)
    if call is None or not event.text:
        return ()
    if call.is_command:
        return (_output(event.call_id, event.text, event.stream or "stdout"),)
    return (wire.ToolUpdateEvent(tool_call_id=event.call_id, partial_result=event.text),)


def _output(call_id: str, text: str, stream: Literal["stdout", "stderr"]) -> HarnessEvent:
    return wire.ShellOutputEvent(tool_call_id=call_id, output=text, stream=stream)


def _end(run: TopRun, event: ToolEnd) -> Sequence[HarnessEvent]:
    call = run.calls.pop(event.call_id, None)
    if call is None:
        return ()
    events: list[HarnessEvent] = []
    if call.is_command and event.exit_code is not None:
        success = event.success is not False
        exited = wire.CommandExitEvent(tool_call_id=event.call_id, exit_code=event.exit_code, success=success)
        events.append(exited)
    value = result_of(event)
    result = ToolResultPart(id=event.call_id, name=call.name, result=value, is_error=event.has_failed)
    files = files_of(event.parts or ())
    size = len(event.output or "") + sum(len(file.data) for file in files)
    return [*events, *_result(run, event, result, size, call.written(event), files)]


def _result(
    run: TopRun,
    event: Event,
    result: ToolResultPart,
    size: int,
    paths: Sequence[str] = (),
    files: Sequence[Part] = (),
) -> Sequence[HarnessEvent]:
    end = wire.ToolEndEvent(
        tool_call_id=result.id,
        result=result.result,
        is_error=result.is_error,
        modified_paths=list(paths) or None,
        timestamp=event.timestamp_ms if paths and event.timestamp_ms >= 0 else None,
    )
    if not run.is_running:
        return (end,)
    events = run.begin_message(event)
    part, *rest = run.add([result, *files], size)
    return [*events, part, end, *rest]


def _program(run: TopRun, event: ReplInput) -> Sequence[HarnessEvent]:
    return _begin(run, event, event.id, OpenCall(REPL_TOOL, is_command=True), {"code": event.code})


def _printed(run: TopRun, event: ReplProgress) -> Sequence[HarnessEvent]:
    return (_output(event.id, event.text, event.stream),) if event.id in run.calls and event.text else ()


def _given(run: TopRun, event: ReplOutput) -> Sequence[HarnessEvent]:
    call = run.calls.pop(event.id, None)
    if call is None:
        return ()
    output, is_error = event.error or event.stdout, bool(event.error)
    result = ToolResultPart(id=event.id, name=call.name, result=output, is_error=is_error)
    return _result(run, event, result, len(output))


def asked(run: TopRun, event: Relay, call_id: str, name: str) -> Sequence[HarnessEvent]:
    """A call waits for approval: it is emitted like one that starts, so that there is a row to show the approval in."""
    return _begin(run, event, call_id, OpenCall(name), event.input)


def abandoned(run: TopRun) -> list[HarnessEvent]:
    """End the open calls of a run that has ended: no result of theirs will follow."""
    calls, run.calls = run.calls, {}
    return [
        *run.end_inputs(),
        *(wire.ToolEndEvent(tool_call_id=call_id, result=None, is_error=True) for call_id in calls),
    ]


TOOLS: Mapping[type[Event], Callable[[TopRun, Any], Sequence[HarnessEvent]]] = {
    ToolInputDelta: _input,
    ToolStart: _start,
    ToolProgress: _progress,
    ToolEnd: _end,
    ReplInput: _program,
    ReplProgress: _printed,
    ReplOutput: _given,
}


def result_of(end: ToolEnd) -> Any:
    """The tool's structured result if it has one, else its text."""
    return end.output if end.result is None else end.result
