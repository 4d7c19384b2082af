"""Tool calls of OpenCode's stream, and the sub-agents behind some of them.

A call comes as one record when it has ended, in the order in which calls end. Should a version
tell of calls that still run, these begin with their first record and end with their last.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from harness.events import Event, SessionStart, TasksChanged, ToolEnd, ToolStart, Warning
from harness.events.operation import Operation
from harness.sources.formats.fields import count_of, exit_code_of, first_text, record_of, text_of
from harness.sources.formats.opencode_tools import (
    SHELLS,
    SPAWNERS,
    TODO_LISTS,
    Fields,
    agent_id_of,
    agent_name_of,
    meaning_of,
    shown_by,
    todo_list_of,
)
from harness.sources.formats.subagents import Subagents

_RUNNING = frozenset({"pending", "running"})
_SUCCESS = dict.fromkeys(("completed", "success", "done", "ok"), True) | dict.fromkeys(
    ("error", "failed", "failure", "cancelled", "canceled"), False
)
"""By status; a record without one does not say."""
_INVALID = "invalid"
"""The tool that takes the place of one that does not exist, or whose arguments could not be read."""
_REFUSAL = "The user rejected permission"
"""Nobody could be asked, so the answer was no. The run stops after this."""
_DENIALS = (_REFUSAL, "The user has specified a rule which prevents")
_RULES = " Here are some of the relevant rules"
_TASK_RESULT = re.compile(r"<task_result>\n?(.*?)\n?</task_result>", re.DOTALL)
_TASK_METADATA = re.compile(r"\s*<task_metadata>.*?</task_metadata>\s*", re.DOTALL)
_TASK_RUNNING = re.compile(r'<task id="[^"]*" state="running"')


class Calls:
    """All calls of a run."""

    def __init__(self, agent: str) -> None:
        self.was_refused = False
        """Whether a call of this step was refused."""
        self._children = Subagents(agent)
        self._parts: dict[str, str] = {}
        """Call id → the part that it came with. Some models number the calls of each answer anew."""
        self._open: dict[str, list[Operation]] = {}
        self._ended: set[str] = set()
        self._refusals_ahead = 0
        """How many refusals stdout told that stderr did not yet; below zero, the other way round."""

    def tell(self, part: Fields, cwd: str) -> list[Event] | None:
        """What a record says of a call: nothing if that was told before, None if it is no call."""
        name = first_text(part, "tool", "toolName", "name").lower()
        if not name:
            return None
        state = part["state"] if isinstance(part.get("state"), dict) else part
        call_id = self._call_id_of(part)
        if call_id in self._ended:
            return []
        input, metadata = state.get("input", state.get("arguments")), record_of(state.get("metadata"))
        operations = meaning_of(name, input, shown_by(name, state, metadata), cwd)
        wanted = text_of(record_of(input).get("tool")) if name == _INVALID else ""
        start = ToolStart(
            call_id=call_id,
            tool_name=wanted or name,
            input=input,
            operations=operations or [],
            raw=part if operations is None else None,
        )
        if text_of(state.get("status")) in _RUNNING:
            is_news = call_id not in self._open
            self._open.setdefault(call_id, start.operations)
            return [start] if is_news else []
        self._ended.add(call_id)
        return self._end(start, name, state, cwd)

    def refusal_notice(self, text: str) -> list[Event]:
        """What stderr says of a refusal; of a sub-agent's it is all that is said."""
        self._refusals_ahead -= 1
        return [Warning(message=text, code="permission_denied")] if self._refusals_ahead < 0 else []

    def _call_id_of(self, part: Fields) -> str:
        part_id = text_of(part.get("id"))
        call_id = first_text(part, "callID", "callId", "call_id", "toolCallId") or part_id
        if not call_id:
            return f"call-{len(self._ended) + len(self._open) + 1}"
        is_taken = part_id and self._parts.setdefault(call_id, part_id) != part_id
        return part_id if is_taken else call_id

    def _end(self, start: ToolStart, name: str, state: Fields, cwd: str) -> list[Event]:
        input, metadata = record_of(start.input), record_of(state.get("metadata"))
        is_success = _is_success(name, state, metadata)
        end = ToolEnd(
            call_id=start.call_id,
            tool_name=start.tool_name,
            success=is_success,
            # Who answers has answered, also without a word.
            output=_output_of(state) or ("" if is_success is None else None),
            exit_code=exit_code_of(metadata.get("exit")) if name in SHELLS else None,
            duration_ms=_duration_ms(state),
        )
        asked = self._open.pop(start.call_id, None)
        if asked is not None and asked != start.operations:
            end = replace(end, operations=start.operations)
        out: list[Event] = [start] if asked is None else []
        if name in SPAWNERS:
            out += self._child(start, end, metadata, cwd)
        out.append(end)
        if name in TODO_LISTS and is_success and (tasks := todo_list_of(input, metadata)) is not None:
            out.append(TasksChanged(tasks=tasks))
        return [*out, *self._denial(end)]

    def _child(self, start: ToolStart, end: ToolEnd, metadata: Fields, cwd: str) -> list[Event]:
        """A sub-agent's own records are not shown; that it ran, what it was asked and what it said is."""
        input = record_of(start.input)
        agent_id = agent_id_of(input, metadata)
        if not agent_id:
            return []
        model = record_of(metadata.get("model"))
        model_name = "/".join(filter(None, (text_of(model.get(key)) for key in ("providerID", "modelID"))))
        begun = self._children.begin(
            start.call_id,
            name=agent_name_of(input),
            prompt=text_of(input.get("prompt")),
            task_id=agent_id,
            cwd=cwd,
        )
        out = [
            replace(event, model=model_name) if isinstance(event, SessionStart) else event for event in begun
        ]
        output = end.output or ""
        if _TASK_RUNNING.match(output):
            return out
        told = _TASK_RESULT.search(output)
        text = told[1] if told is not None else _TASK_METADATA.sub("", output)
        status = "completed" if end.success else "" if end.success is None else "failed"
        return [*out, *self._children.end(start.call_id, status, text, end.duration_ms)]

    def _denial(self, end: ToolEnd) -> list[Event]:
        reason = end.output or ""
        if end.success is not False or not reason.startswith(_DENIALS):
            return []
        if reason.startswith(_REFUSAL):
            self.was_refused = True
            self._refusals_ahead += 1
            if self._refusals_ahead <= 0:
                return []
        sentence = reason.partition(_RULES)[0]
        return [Warning(message=f"permission denied: {end.tool_name}: {sentence}", code="permission_denied")]


def _is_success(name: str, state: Fields, metadata: Fields) -> bool | None:
    """A command that failed is `completed` all the same, and so is a call of a tool that does not exist."""
    is_success = _SUCCESS.get(text_of(state.get("status")))
    if not is_success:
        return is_success
    if name in SHELLS:
        return bool(metadata["exit"] == 0) if "exit" in metadata else None  # null: it was stopped
    return name != _INVALID and metadata.get("ok") is not False


def _output_of(state: Fields) -> str | None:
    for key in ("output", "error"):
        value = state.get(key)
        if value is not None:
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return None


def _duration_ms(state: Fields) -> int | None:
    time = record_of(state.get("time"))
    start, end = count_of(time.get("start")), count_of(time.get("end"))
    return end - start if start is not None and end is not None and end >= start else None
