"""The tools of Qwen Code: those of Gemini CLI, and its own."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from harness.approvals.tool_table import by_prefix
from harness.contracts.toolset import (
    ExitStatus,
    Input,
    PendingCall,
    Toolset,
    consistent_exit_code,
    conversing,
    fetching,
    no_operation,
    reading,
    running,
    spawning,
    starting,
    tracking_tasks,
    using_skill,
    writing,
)
from harness.events.operation import Operation, Read, Spawn, Write
from harness.formats.fields import text_of
from harness.protocols.gemini_tools import GEMINI, exit_status_of

SHELL = "run_shell_command"
_PATHS = ("file_path", "absolute_path", "path")
_READ_LINES = re.compile(r"Read lines (\d{1,9})-(\d{1,9}) of \d+ from ")
_CREATED = "Successfully created and wrote to new file: "
_OVERWRITTEN = "Successfully overwrote file: "
_REPORT = re.compile(
    r"Command: .*\nExit Code: (\d{1,9})\nSignal: [^\n]*(?:\nProcess Group PGID: [^\n]*)?(?:\n\n|\Z)",
    re.DOTALL,
)
"""The last exit code in it is Qwen's; what the command wrote stands before."""
_TASK_ID = re.compile(r"^task_id: (\S+)", re.MULTILINE)


def _read_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    matched = _READ_LINES.match(output)
    if matched is None or len(call.operations) != 1 or not isinstance(operation := call.operations[0], Read):
        return None
    return [replace(operation, start_line=int(matched[1]), end_line=int(matched[2]))]


def _write_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    if len(call.operations) != 1 or not isinstance(operation := call.operations[0], Write):
        return None
    change = "create" if output.startswith(_CREATED) else "update" if output.startswith(_OVERWRITTEN) else ""
    return [replace(operation, change=change)] if change else None


def _spawn_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    match = _TASK_ID.search(output)
    if match is None or len(call.operations) != 1 or not isinstance(operation := call.operations[0], Spawn):
        return None
    return [replace(operation, agent_id=match[1])]


def _command_ended(_call: PendingCall, _detail: Any, output: str, is_success: bool) -> ExitStatus:
    """A command that failed, or wrote nothing, gives back a report that ends with its exit code."""
    return is_success, consistent_exit_code(is_success, _REPORT.match(output))


def _command_ran(call: PendingCall, detail: Any, output: str, is_success: bool) -> ExitStatus:
    """Of a command that wrote something the result is its output alone; of one that wrote nothing, a report."""
    if not is_success:
        return _command_ended(call, detail, output, is_success)
    if output.startswith(f"Command: {text_of(call.input.get('command'))}\nDirectory: "):
        code = consistent_exit_code(None, _REPORT.match(output))
        return (None if code is None else code == 0), code
    return exit_status_of(call, output or None)


QWEN = Toolset(
    tools={
        **GEMINI.tools,
        "edit": writing(*_PATHS, change="update"),
        SHELL: running("command", directory="directory"),
        "skill": using_skill("skill", "name"),
        "agent": spawning("description", "prompt", names=("subagent_type",)),
        "task": spawning("description", "prompt", names=("subagent_type",)),
        "web_search": fetching,
        "notebook_edit": writing("notebook_path", *_PATHS, change="update"),
        "zoom_image": reading(*_PATHS, "image_path"),
        **dict.fromkeys(
            ("todo_write", "task_create", "task_get", "task_list", "task_update"), tracking_tasks
        ),
        **dict.fromkeys(
            (
                "ask_user_question",
                "cron_delete",
                "cron_list",
                "get_goal",
                "list_agents",
                "report_findings",
                "structured_output",
                "task_output",
                "task_stop",
                "tool_search",
                "update_goal",
            ),
            conversing,
        ),
        **dict.fromkeys(
            ("cron_create", "enter_worktree", "exit_worktree", "loop_wakeup", "monitor", "send_message"),
            starting,
        ),
        # What these take is not known: they are asked about.
        **dict.fromkeys(("display_image", "record_artifact"), no_operation),
    },
    results={
        "read_file": _read_result,
        "write_file": _write_result,
        "agent": _spawn_result,
        "task": _spawn_result,
    },
    shells=frozenset({SHELL}),
    spawners=frozenset({"agent", "task"}),
    exit_status=_command_ended,
    server_of=by_prefix("mcp__"),
    shell_memory="fresh",
)
QWEN_BEFORE_0_21 = replace(QWEN, exit_status=_command_ran)
"""Until then only a command that could not be run was an error."""
