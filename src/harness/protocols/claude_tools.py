"""The tools of Claude Code (`CLAUDE`), and the tool calls of stream-json (`ClaudeCalls`).

Results say more than inputs: real line ranges, created or updated, files that a shell command changed besides.
A call begins with a block of an answer and ends with a later line.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from harness.approvals.tool_table import by_prefix, reads, runs, searches
from harness.contracts.toolset import (
    ExitStatus,
    Input,
    KnownTool,
    PendingCall,
    TaskList,
    ToolMapping,
    Toolset,
    asking_server,
    consistent_exit_code,
    conversing,
    fetching,
    globbing,
    lines_of,
    listing,
    same_as_call,
    spawning,
    starting,
    tracking_tasks,
    unmatched_result,
    using_skill,
    writing,
)
from harness.events import Event, TasksChanged, ToolEnd, ToolStart
from harness.events.operation import Operation, Read, Search, Spawn, Write
from harness.formats.fields import (
    absolute,
    count_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.formats.shell import operations_of
from harness.formats.shell.operations import directory_after

SHELLS = frozenset({"Bash", "PowerShell"})
SPAWNERS = frozenset({"Task", "Agent"})
SKILLS = frozenset({"Skill"})
ANSWERS = frozenset({"StructuredOutput"})
"""Hand over the answer as data: the result of the run has it, and nothing else was done."""
_READERS = ("Read", "NotebookRead")
_WRITERS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,9})$", re.MULTILINE)
"""The first line of what a failed command gives back."""


def _read(input: Input, cwd: str) -> list[Operation] | None:
    path = first_text(input, "file_path", "path", "notebook_path")
    start = count_of(input.get("offset", input.get("start_line"))) or None
    limit = count_of(input.get("limit", input.get("line_count"))) or None
    end = start + limit - 1 if start and limit else None
    return [Read(path=absolute(path, cwd), start_line=start, end_line=end)] if path else None


def _search(input: Input, cwd: str) -> list[Operation] | None:
    query = first_text(input, "pattern", "query", "glob")
    return [Search(query=query, path=absolute(text_of(input.get("path")), cwd))] if query else None


def _run(input: Input, cwd: str) -> list[Operation] | None:
    command = first_text(input, "command", "cmd")
    return operations_of(command, cwd) if command else None


_TOOLS: dict[str, ToolMapping] = {
    **dict.fromkeys(_READERS, KnownTool(_read, reads("file_path", "path", "notebook_path"))),
    **dict.fromkeys(_WRITERS, writing("file_path", "filePath", "path", "notebook_path", "notebookPath")),
    "Grep": KnownTool(_search, searches("path")),
    "Glob": KnownTool(_search, globbing("pattern", paths=("path",))),
    "LS": listing("path"),
    **dict.fromkeys(SHELLS, KnownTool(_run, runs("command", "cmd"))),
    **dict.fromkeys(SKILLS, using_skill("skill", "skill_name", "command", "name")),
    **dict.fromkeys(SPAWNERS, spawning("description", "prompt", names=("subagent_type",))),
    **dict.fromkeys(("WebFetch", "WebSearch", "web_fetch", "web_search"), fetching),
    **dict.fromkeys(
        ("TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"), tracking_tasks
    ),
    **dict.fromkeys(
        (
            "AgentOutputTool",
            "AskUserQuestion",
            "BashOutput",
            "CronDelete",
            "CronList",
            "EnterPlanMode",
            "ExitPlanMode",
            "KillBash",
            "KillShell",
            "ListAgents",
            "ReportFindings",
            "StructuredOutput",
            "TaskOutput",
            "TaskStop",
            "ToolSearch",
        ),
        conversing,
    ),
    **dict.fromkeys(
        (
            "CronCreate",
            "EnterWorktree",
            "ExitWorktree",
            "Monitor",
            "ScheduleWakeup",
            "SendMessage",
            "SlashCommand",
            "Workflow",
        ),
        starting,
    ),
    **dict.fromkeys(("ListMcpResourcesTool", "ReadMcpResourceTool"), asking_server),
}


def _read_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    file = record_of(detail.get("file"))
    path = first_text(file, "filePath", "file_path", "path")
    start = count_of(file.get("startLine")) or None
    lines = count_of(file.get("numLines")) or None
    if not path or not start or not lines:
        return None
    return [Read(path=absolute(path, call.cwd), start_line=start, end_line=start + lines - 1)]


def _write_result(call: PendingCall, detail: Input, output: str) -> list[Operation] | None:
    operation = call.operation
    if not isinstance(operation, Write):
        return None
    path = absolute(first_text(detail, "filePath"), call.cwd) or operation.path
    change = _change_of(detail, output)
    start, end = _written_lines(detail, is_new=change == "create")
    return [Write(path=path, start_line=start, end_line=end, change=change)]


def _change_of(detail: Input, output: str) -> str:
    change = text_of(detail.get("type"))
    if change in ("create", "update"):
        return change
    if "originalFile" in detail:
        return "create" if detail["originalFile"] is None else "update"
    return "create" if output.startswith("File created") else "update"


def _written_lines(detail: Input, *, is_new: bool) -> tuple[int | None, int | None]:
    """First and last line that the file got: of all hunks, without the lines around them."""
    lines = [line for hunk in items_of(detail.get("structuredPatch")) for line in _changed(record_of(hunk))]
    if lines:
        return min(lines), max(lines)
    return lines_of(text_of(detail.get("content")) if is_new else "")


def _changed(hunk: Input) -> list[int]:
    """Numbers of the added lines, and of the lines that stand where others were taken out."""
    number = count_of(hunk.get("newStart"))
    if number is None:
        return []
    numbers: list[int] = []
    for line in items_of(hunk.get("lines")):
        mark = text_of(line)[:1]
        if mark in ("+", "-"):
            numbers.append(max(1, number))
        if mark not in ("-", "\\"):
            number += 1
    return numbers


def _run_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    paths = {operation.path for operation in call.operations if isinstance(operation, Write)}
    changed = [
        path
        for item in items_of(record_of(detail.get("bashEditDiff")).get("changedFiles"))
        if (path := absolute(text_of(item), call.cwd)) and path not in paths
    ]
    return [*call.operations, *(Write(path=path) for path in dict.fromkeys(changed))] if changed else None


def _spawn_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    spawn, agent_id = call.operation, text_of(detail.get("agentId"))
    return [replace(spawn, agent_id=agent_id)] if isinstance(spawn, Spawn) and agent_id else None


def _command_ended(_call: PendingCall, detail: Any, output: str, is_success: bool) -> ExitStatus:
    """The exit code is stated only in the text, and only of failures; the data beside the result repeat it."""
    if is_success:
        return True, None
    return False, consistent_exit_code(False, _EXIT_CODE.match(detail if isinstance(detail, str) else output))


CLAUDE = Toolset(
    tools=_TOOLS,
    results={
        **dict.fromkeys(_READERS, _read_result),
        **dict.fromkeys(_WRITERS, _write_result),
        **dict.fromkeys(SHELLS, _run_result),
        **dict.fromkeys(SPAWNERS, _spawn_result),
    },
    shells=SHELLS,
    spawners=SPAWNERS,
    exit_status=_command_ended,
    keeps_directory=True,
    server_of=by_prefix("mcp__"),
)
CLAUDE_1 = replace(CLAUDE, exit_status=same_as_call)
"""Before 2.0: a failed command gives back what it wrote, and nothing else."""


_MOVED_BACK = re.compile(r"Shell cwd was reset to (.+)")
_INTERRUPTIONS = frozenset({"interrupted", "is_interrupted", "is_interruption"})
_LONGEST_NOTICE = 8192


class ClaudeCalls:
    """All calls of a run and of its children, by their ids."""

    def __init__(self, tools: Toolset) -> None:
        self.tools = tools
        self.open: dict[str, PendingCall] = {}
        self._cwd = ""
        self._shell_cwd = ""
        self._tasks = TaskList()

    def settle_in(self, cwd: str) -> None:
        """A turn begins; its shell stands in the working directory."""
        if cwd != self._cwd:
            self._cwd = self._shell_cwd = cwd

    def start(self, block: dict[str, Any], run_id: str) -> ToolStart | None:
        """None: it has no id, so that no result could belong to it."""
        call_id, name, tool_input = text_of(block.get("id")), text_of(block.get("name")), block.get("input")
        if not call_id:
            return None
        cwd = self._shell_cwd if name in self.tools.shells and not run_id else self._cwd
        self.open[call_id], start = self.tools.start(call_id, name, tool_input, cwd, block, run_id=run_id)
        return start

    def end(self, block: dict[str, Any], detail: Any, run_id: str) -> list[Event]:
        """A result, and what the record says of it besides (`detail`)."""
        output, data = output_of(block.get("content")), record_of(detail)
        went_well = _is_success(block, data)
        call = self.open.pop(text_of(block.get("tool_use_id")), None)
        if call is None:
            return self._unannounced(block, data, run_id, is_success=went_well)
        is_shell = call.name in self.tools.shells
        exit_status = self.tools.exit_status if is_shell else same_as_call
        is_success, exit_code = exit_status(call, detail, output, went_well)
        out: list[Event] = [
            ToolEnd(
                call_id=call.id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=output,
                exit_code=exit_code,
                duration_ms=_duration_ms(data),
                operations=None if is_success is False else self.tools.operations_after(call, detail, output),
                run_id=call.run_id,
            )
        ]
        if is_success is not False:
            self._follow_shell(call, data, output)
            tasks = self._tasks.after(call, detail)
            if tasks is not None:
                out.append(TasksChanged(tasks=tasks, run_id=call.run_id))
        return out

    def forget(self, run_id: str) -> list[PendingCall]:
        """A child has ended, and with it what it had left open."""
        calls = [call for call in self.open.values() if call.run_id == run_id]
        for call in calls:
            del self.open[call.id]
        return calls

    def _follow_shell(self, call: PendingCall, detail: dict[str, Any], output: str) -> None:
        """The shell of the main agent stays where a command went; that of a sub-agent never does."""
        is_shell = self.tools.keeps_directory and call.name in self.tools.shells
        if not is_shell or call.run_id or detail.get("backgroundTaskId"):
            return
        self._shell_cwd = directory_after(first_text(call.input, "command", "cmd"), call.cwd)
        back = _MOVED_BACK.search(_last_line(text_of(detail.get("stderr")))) or _MOVED_BACK.search(
            _last_line(output)
        )
        if back is not None:
            self._shell_cwd = back[1].strip()

    def _unannounced(
        self, block: dict[str, Any], detail: dict[str, Any], run_id: str, *, is_success: bool
    ) -> list[Event]:
        """The result of a read still says what was read; another call stays unknown."""
        file = record_of(detail.get("file"))
        call_id, path = text_of(block.get("tool_use_id")), first_text(file, "filePath", "file_path", "path")
        if not call_id or not path:
            return [unmatched_result(block, run_id)]
        read_call = PendingCall(
            call_id, "Read", {}, run_id, self._cwd, [Read(path=absolute(path, self._cwd))]
        )
        operations = self.tools.operations_after(read_call, detail, "") or read_call.operations
        output = output_of(block.get("content"))
        return [
            ToolStart(call_id=call_id, tool_name="Read", operations=operations, run_id=run_id),
            ToolEnd(call_id=call_id, tool_name="Read", success=is_success, output=output, run_id=run_id),
        ]


def _last_line(text: str) -> str:
    """Or the end of it, if it is longer than any notice."""
    tail = text[-_LONGEST_NOTICE:].rstrip()
    return tail[tail.rfind("\n") + 1 :]


def _is_success(block: dict[str, Any], detail: dict[str, Any]) -> bool:
    if block.get("is_error") is True:
        return False
    for data in (block, detail):
        for name in _INTERRUPTIONS & data.keys():
            if data[name] is True:
                return False
    return True


def _duration_ms(detail: dict[str, Any]) -> int | None:
    duration = count_of(detail.get("durationMs"))
    return duration if duration is not None else count_of(detail.get("totalDurationMs"))
