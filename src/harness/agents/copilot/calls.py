"""Tool calls and sub-agents in the stream of Copilot: which run a line belongs to, and what it did.

A child's lines carry its `agentId`. Its run is named after the call that spawned it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace

from harness.approvals.tool_table import OWN, edits, reads
from harness.contracts.toolset import (
    ExitStatus,
    Input,
    KnownTool,
    PendingCall,
    ToolMapping,
    Toolset,
    conversing,
    fetching,
    patching,
    reading,
    running,
    searching,
    spawning,
    starting,
    tracking_tasks,
    unmatched_result,
    using_skill,
    writing,
)
from harness.contracts.translator import Record
from harness.events import Event, ToolEnd, ToolProgress, Unknown, Warning
from harness.events.operation import List, Operation, Read, Skill, Spawn, Tasks, Write
from harness.formats.fields import (
    absolute,
    continuation,
    count_of,
    exit_code_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.formats.patches import changed_lines
from harness.protocols.child_runs import ChildRuns
from harness.protocols.plain_answer import PlainAnswer

_SHELLS = frozenset({"bash", "powershell", "shell"})
_CHANGES = {"create": "create", "edit": "update", "delete": "delete", "move": "move", "rename": "move"}
_TODO_TABLE = re.compile(r"\btodos?\b|\btodo_deps\b", re.IGNORECASE)
_EXIT_LINE = re.compile(
    r"(?:\A|\n)<(?:exited|shellId: [^\s>]{1,40} completed) with exit code (\d{1,9})>\s*\Z"
)
"""The last line of what a command gives back, which Copilot adds: until 1.0.50 all that it says of the end."""
_TRAILER_LENGTH = 120
_FILE_DIFF = re.compile(r"^diff --git ", re.MULTILINE)


def _view(arguments: Input, cwd: str) -> list[Operation] | None:
    path = absolute(text_of(arguments.get("path")), cwd)
    lines = [*items_of(arguments.get("view_range")), None, None]
    # The last line may be -1: to the end of the file.
    start, end = count_of(lines[0]) or None, count_of(lines[1]) or None
    return [Read(path=path, start_line=start, end_line=end)] if path else None


def _query_database(arguments: Input, _cwd: str) -> list[Operation]:
    """The to-do list is a table of the session's own database."""
    return [Tasks()] if _TODO_TABLE.search(text_of(arguments.get("query"))) else []


def _edit_or_view(arguments: Input, cwd: str) -> list[Operation] | None:
    """One tool for all that is done to files, in earlier versions."""
    mapping = _view if arguments.get("command") == "view" else writing("path")
    return mapping(arguments, cwd)


_TOOLS: dict[str, ToolMapping] = {
    **dict.fromkeys(_SHELLS, running("command")),
    "view": KnownTool(_view, reads("path")),
    "show_file": reading("path"),
    "create": writing("path", change="create"),
    "edit": writing("path", change="update"),
    "str_replace": writing("path", change="update"),
    "insert": writing("path", change="update"),
    "str_replace_editor": KnownTool(_edit_or_view, edits("path")),
    "apply_patch": patching("input", "patch"),
    "grep": searching("pattern", paths=("paths", "path")),
    "rg": searching("pattern", paths=("paths", "path")),
    "glob": searching("pattern", paths=("paths", "path"), globs=("pattern",)),
    "skill": using_skill("skill", "name"),
    "task": spawning("description", "prompt", names=("agent_type", "name")),
    "web_fetch": fetching,
    "web_search": fetching,
    "sql": KnownTool(_query_database, OWN),
    "update_todo": tracking_tasks,
    **dict.fromkeys(
        (
            "ask_user",
            "exit_plan_mode",
            "fetch_copilot_cli_documentation",
            "list_agents",
            "list_bash",
            "list_powershell",
            "read_agent",
            "read_bash",
            "read_powershell",
            "report_intent",
            "session_store_sql",
            "stop_bash",
            "stop_powershell",
            "task_complete",
            "think",
        ),
        conversing,
    ),
    **dict.fromkeys(("store_memory", "write_agent", "write_bash", "write_powershell"), starting),
}


COPILOT = Toolset(tools=_TOOLS, shells=_SHELLS, spawners=frozenset({"task"}))


def exit_status_of(call: PendingCall, data: Input, output: str) -> ExitStatus:
    """A command that failed is a success of the tool that ran it; here only its exit code makes it one."""
    is_success = data.get("success")
    is_success = is_success if isinstance(is_success, bool) else None
    if call.name not in COPILOT.shells:
        return is_success, None
    exit_code = exit_code_of(record_of(data.get("shellExecution")).get("exitCode"))
    if exit_code is None and (match := _EXIT_LINE.search(output[-_TRAILER_LENGTH:])) is not None:
        exit_code = int(match[1])
    if is_success is False:
        return False, exit_code or None
    return (None if exit_code is None else exit_code == 0), exit_code


def output_of_result(data: Input) -> str:
    result, error = data.get("result"), data.get("error")
    if isinstance(result, dict):
        result = result.get("content") or result.get("contents")
    return output_of(result) or text_of(record_of(error).get("message")) or output_of(error)


def operations_after(
    call: PendingCall, data: Input, skills: dict[str, str], agent_id: str
) -> list[Operation] | None:
    """The operations as a result has them; None when it says no more than the input."""
    operations = _changed_files(data) or [
        _after_result(operation, data, skills, agent_id) for operation in call.operations
    ]
    return None if operations == call.operations else operations


def _after_result(operation: Operation, data: Input, skills: dict[str, str], agent_id: str) -> Operation:
    match operation:
        case Read() if _properties(data).get("viewType") == "directory":
            return List(path=operation.path)
        case Skill() if operation.name in skills:
            return replace(operation, path=skills[operation.name])
        case Spawn() if agent_id:
            return replace(operation, agent_id=agent_id)
        case _:
            return operation


def _properties(data: Input) -> Input:
    return record_of(record_of(data.get("toolTelemetry")).get("properties"))


def _changed_files(data: Input) -> list[Operation]:
    edits = [record_of(edit) for edit in items_of(data.get("fileEdits"))]
    diffs = _FILE_DIFF.split(text_of(record_of(data.get("result")).get("detailedContent")))[1:]
    operations: list[Operation] = []
    for number, edit in enumerate(edits):
        path, change = text_of(edit.get("path")), _CHANGES.get(text_of(edit.get("kind")), "")
        has_lines = change != "delete" and len(diffs) == len(edits)
        start, end = (changed_lines(diffs[number]) if has_lines else None) or (None, None)
        if path:
            operations.append(Write(path=path, start_line=start, end_line=end, change=change))
    return operations


class CopilotCalls(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "session.skills_loaded": "_skills_loaded",
        "skill.invoked": "_skill_invoked",
        "subagent.completed": "_child_ended",
        "subagent.configured": "",
        "subagent.deselected": "",
        "subagent.failed": "_child_ended",
        "subagent.selected": "",
        "subagent.started": "_child_began",
        "tool.execution_complete": "_tool_end",
        "tool.execution_partial_result": "_tool_partial",
        "tool.execution_progress": "_tool_progress",
        "tool.execution_start": "_tool_start",
        "tool.shell_output": "_tool_output",
        "tool.user_requested": "",
    }

    def __init__(self) -> None:
        super().__init__()
        self._children = ChildRuns("copilot")
        self._calls: dict[str, PendingCall] = {}
        self._agents: dict[str, str] = {}
        """Spawning call → the agent's id."""
        self._shown_output: dict[str, str | None] = {}
        """Call → its output in the last update; None where it comes in pieces."""
        self._skills: dict[str, str] = {}
        """Name → where it lies."""

    def _run_of(self, record: Record, out: list[Event]) -> str:
        """The run that a line belongs to; a child's first line begins it."""
        agent_id = record.get("agentId")
        if not isinstance(agent_id, str) or not agent_id:
            return ""
        call_id = self._children.call_of_task(agent_id)
        child = self._children.find(call_id) if call_id else None
        if child is None:
            call_id = call_id or text_of(record_of(record.get("data")).get("parentToolCallId")) or agent_id
            out.extend(self._begin_child(call_id, agent_id))
            child = self._children.find(call_id)
        return child.run_id if child is not None else ""

    def _begin_child(self, call_id: str, agent_id: str, name: str = "") -> list[Event]:
        call = self._calls.get(call_id)
        arguments = call.input if call is not None else {}
        self._agents[call_id] = agent_id
        return self._children.begin(
            call_id,
            name=name or first_text(arguments, "agent_type", "name"),
            prompt=text_of(arguments.get("prompt")),
            task_id=agent_id,
            cwd=self.working_directory,
        )

    def _skills_loaded(self, record: Record) -> Sequence[Event]:
        for item in items_of(record_of(record.get("data")).get("skills")):
            skill = record_of(item)
            if path := text_of(skill.get("path")):
                self._skills[text_of(skill.get("name"))] = path
        return ()

    def _skill_invoked(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        if path := text_of(data.get("path")):
            self._skills[text_of(data.get("name"))] = path
        return ()

    def _child_began(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        call_id, agent_id = text_of(data.get("toolCallId")), text_of(record.get("agentId"))
        if not call_id and not agent_id:
            return [Unknown(raw=record)]
        return self._begin_child(call_id or agent_id, agent_id, text_of(data.get("agentName")))

    def _child_ended(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        agent_id = text_of(record.get("agentId"))
        call_id = self._children.call_of_task(agent_id) or text_of(data.get("toolCallId")) or agent_id
        status = "failed" if self.rule == "subagent.failed" else "completed"
        child = self._children.find(call_id)
        if child is not None:
            self._calls = {key: call for key, call in self._calls.items() if call.run_id != child.run_id}
        return self._children.end(
            call_id, status, text_of(data.get("error")), count_of(data.get("durationMs"))
        )

    def _tool_start(self, record: Record) -> Sequence[Event]:
        data, out = record_of(record.get("data")), list[Event]()
        call_id, name = text_of(data.get("toolCallId")), text_of(data.get("toolName"))
        if not call_id:
            return [Unknown(raw=record)]
        arguments, run_id = data.get("arguments"), self._run_of(record, out)
        self._calls[call_id], start = COPILOT.start(
            call_id,
            name,
            arguments,
            self.working_directory,
            data,
            run_id=run_id,
            arguments={"input": arguments}
            if isinstance(arguments, str)
            else None,  # a patch comes as mere text
        )
        return [*out, start]

    def _tool_output(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        call, text = self._calls.get(text_of(data.get("toolCallId"))), text_of(data.get("text"))
        if call is None or not text:
            return ()
        self._shown_output[call.id] = None
        return [ToolProgress(call_id=call.id, text=text, run_id=call.run_id)]

    def _tool_partial(self, record: Record) -> Sequence[Event]:
        """All output so far, again and again. Commands write it in pieces as well."""
        data = record_of(record.get("data"))
        call, text = self._calls.get(text_of(data.get("toolCallId"))), text_of(data.get("partialOutput"))
        entry = self._shown_output.get(call.id, "") if call is not None else None
        if call is None or entry is None:
            return ()
        new = continuation(entry, text)
        self._shown_output[call.id] = text
        return [ToolProgress(call_id=call.id, text=new, run_id=call.run_id)] if new else ()

    def _tool_progress(self, record: Record) -> Sequence[Event]:
        data = record_of(record.get("data"))
        call, text = self._calls.get(text_of(data.get("toolCallId"))), text_of(data.get("progressMessage"))
        return [ToolProgress(call_id=call.id, text=text, run_id=call.run_id)] if call is not None else ()

    def _tool_end(self, record: Record) -> Sequence[Event]:
        data, out = record_of(record.get("data")), list[Event]()
        call_id = text_of(data.get("toolCallId"))
        call = self._calls.pop(call_id, None)
        if call is None:
            return [unmatched_result(record)]
        self._shown_output.pop(call_id, None)
        output = output_of_result(data)
        is_success, exit_code = exit_status_of(call, data, output)
        agent_id = self._agents.get(call_id, "") if call.name in COPILOT.spawners else ""
        if record_of(data.get("error")).get("code") == "denied":
            message = f"permission denied: {call.name}: {output}"
            out.append(Warning(message=message, code="permission_denied", run_id=call.run_id))
        out.append(
            ToolEnd(
                call_id=call_id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=output,
                exit_code=exit_code,
                operations=operations_after(call, data, self._skills, agent_id),
                run_id=call.run_id,
            )
        )
        return out
