"""Tool calls of Goose: asked for by a block of an answer, ended by a block of a later message.

A `status` of "success" says only that there was such a tool; whether it did its work, `isError` says,
and not even that where Goose refused to run it, or where a sub-agent came to nothing.
"""

from __future__ import annotations

import re
from typing import Any

from harness.events import Error, Event, TasksChanged, ToolEnd, ToolStart, Unknown, Warning
from harness.sources.agents.goose.notices import NO_ANSWER, is_refusal, verdict_of
from harness.sources.agents.goose.tools import (
    ANSWER,
    SHELL,
    SPAWNER,
    Call,
    Skills,
    meaning_of,
    own_name,
    todo_list_of,
    told_by_result,
)
from harness.sources.formats.fields import count_of, exit_code_of, first_text, items_of, record_of, text_of
from harness.sources.formats.outputs import output_of
from harness.sources.formats.subagents import Subagents
from harness.sources.formats.toolset import unannounced
from harness.sources.translator import Record

_REFUSED_NAME = re.compile(r"Tool '([^']+)'")
_TASK_OUTPUT = re.compile(r"\A# Background Task Result: .*?^## Output\n\n", re.DOTALL | re.MULTILINE)
_TASK_STATUS = re.compile(r"^\*\*Status:\*\* \S+ (\w+)", re.MULTILINE)
_TASK_ENDS = {"completed": "completed", "failed": "failed", "panicked": "failed", "cancelled": "cancelled"}


class Calls:
    def __init__(self) -> None:
        self.open: dict[str, Call] = {}
        self.has_answered = False
        """Whether any call was answered: then a model call was finished."""
        self.structured: Any = None
        """The answer as data, where a recipe asks for it."""
        self._skills = Skills()
        self._children = Subagents("goose")

    def start(self, block: Record, cwd: str) -> list[Event]:
        inner = record_of(block.get("toolRequest"))
        asked = record_of(block.get("toolCall") or block.get("tool_call") or inner.get("toolCall"))
        call_id = first_text(block, "id", "toolCallId") or text_of(inner.get("id"))
        if not call_id:
            return [Unknown(raw=block)]
        value = record_of(asked.get("value"))
        tool_name = text_of(value.get("name")) or text_of(block.get("name")) or _refused_name(asked)
        places = ((value, "arguments"), (block, "arguments"), (block, "input"))
        input = next((place[key] for place, key in places if key in place), None)
        name = own_name(tool_name)
        if name == ANSWER:
            self.structured = input
        operations = meaning_of(tool_name, input, cwd)
        self.open[call_id] = Call(call_id, tool_name, name, record_of(input), operations or [])
        return [
            ToolStart(
                call_id=call_id,
                tool_name=tool_name,
                input=input,
                operations=operations or [],
                raw=block if operations is None else None,
            )
        ]

    def end(self, block: Record) -> list[Event]:
        inner = record_of(block.get("toolResponse"))
        result = record_of(block.get("toolResult") or inner.get("toolResult")) or block
        call = self.open.pop(first_text(block, "id", "toolCallId") or text_of(inner.get("id")), None)
        if call is None:
            return [unannounced(block)]
        self.has_answered = True
        output, value = _output_of(result), record_of(result.get("value"))
        told = record_of(value.get("_meta"))
        exit_code = exit_code_of(record_of(value.get("structuredContent")).get("exit_code"))
        agent_id = text_of(told.get("subagent_session_id"))
        is_refused = is_refusal(output)
        is_success = False if is_refused or _has_come_to_nothing(call, output) else _is_success(result, value)
        if call.name == SHELL and is_success and "isError" not in value:
            # That there was such a tool says nothing of the command.
            is_success = None if exit_code is None else exit_code == 0
        is_known_better = is_success is not False or agent_id
        operations = told_by_result(call, output, agent_id, self._skills) if is_known_better else None
        children = self._child(call, told, output, agent_id, is_success=is_success is True)
        if call.name == ANSWER or (children and call.name != SPAWNER):
            operations = []  # told by the result of the run, or by the sub-agent itself
        end = ToolEnd(
            call_id=call.id,
            tool_name=call.tool_name,
            success=is_success,
            output=output,
            exit_code=exit_code if call.name == SHELL else None,
            operations=operations,
        )
        out = [*children, end]
        if is_success and (tasks := todo_list_of(call)) is not None:
            out.append(TasksChanged(tasks=tasks))
        if is_refused:
            message = f"permission denied: {call.tool_name} was not run"
            out.append(Warning(message=message, code="permission_denied"))
        return out

    def _child(
        self, call: Call, told: Record, output: str, agent_id: str, *, is_success: bool
    ) -> list[Event]:
        """A sub-agent gets its id when its call is answered: when it is done, or goes on in the background."""
        status = _task_end(told, output)
        if not agent_id or (call.name != SPAWNER and not status):
            return []
        out: list[Event] = []
        if call.name == SPAWNER:
            source, task = text_of(call.input.get("source")), text_of(call.input.get("instructions"))
            out += self._children.begin(call.id, name=source, prompt=task, task_id=agent_id)
            if call.input.get("async") is True and is_success:
                return out
            status = "completed" if is_success else "failed"
        owner = self._children.call_of_task(agent_id)
        answer = _TASK_OUTPUT.sub("", output)
        failure, child = verdict_of(answer), self._children.find(owner)
        if failure is not None and child is not None:
            status = "failed"
            out.append(Error(message=answer, code=failure.code, run_id=child.run_id))
        seconds = count_of(told.get("duration_secs"))
        return [*out, *self._children.end(owner, status, answer, seconds * 1000 if seconds else None)]


def _task_end(told: Record, output: str) -> str:
    """How a background task has ended; "" while it goes on. Until 1.37 it is told in words alone."""
    status = text_of(told.get("task_status"))
    if not status and (header := _TASK_OUTPUT.match(output)) is not None:
        words = _TASK_STATUS.search(header[0])
        status = words[1].lower() if words is not None else ""
    return _TASK_ENDS.get(status, "")


def _refused_name(asked: Record) -> str:
    """Of a call that was never tried only the reason is told, which may name the tool."""
    refused = _REFUSED_NAME.search(text_of(asked.get("error")))
    return refused[1] if refused is not None else "unknown"


def _has_come_to_nothing(call: Call, output: str) -> bool:
    return call.name == SPAWNER and (output == NO_ANSWER or verdict_of(output) is not None)


def _is_success(result: Record, value: Record) -> bool | None:
    match result.get("status"):
        case "success":
            return value.get("isError") is not True
        case "error":
            return False
        case _:
            return None


def _output_of(result: Record) -> str:
    """What the model was told; older versions say the same again for people."""
    value, error = result.get("value"), result.get("error")
    if error is not None:
        return first_text(record_of(error), "message") or output_of(error)
    content = value.get("content", value.get("structuredContent")) if isinstance(value, dict) else value
    for_model = [item for item in items_of(content) if "assistant" in (_audience_of(item) or ["assistant"])]
    return output_of(for_model or content)


def _audience_of(item: Any) -> list[Any]:
    return items_of(record_of(record_of(item).get("annotations")).get("audience"))
