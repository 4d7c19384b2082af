"""The tools of Grok, and what their results say beyond the input.

A result holds what the tool itself says of it (`rawOutput`): an object with a `type`, and mostly one
more key that names how it went.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from harness.contracts.toolset import (
    ExitStatus,
    Input,
    PendingCall,
    ToolMapping,
    Toolset,
    conversing,
    fetching,
    lines_of,
    listing,
    reaching,
    reading,
    running,
    searching,
    spawning,
    starting,
    tracking_tasks,
    using_skill,
    writing,
)
from harness.events import Usage
from harness.events.operation import List, Operation, Read, Spawn, Write
from harness.events.usage import CLASSES
from harness.formats.fields import (
    absolute,
    amount_of,
    besides,
    count_of,
    exit_code_of,
    first_text,
    items_of,
    record_of,
    text_of,
)
from harness.protocols.model_ledger import larger, usage_of_call

_SUBAGENT_ID = re.compile(r"^subagent_id: (\S+)", re.MULTILINE)
_STATUS_LINE = re.compile(r"\Aexit: [^\n]*\n")
_TEXT_KEYS = (
    "message",
    "tool_output_for_prompt",
    "content",
    "summary_for_prompt",
    "text",
    "output",
    "summary",
)

_TOOLS: dict[str, ToolMapping] = {
    "run_terminal_command": running("command"),
    "monitor": running("command"),
    "read_file": reading("target_file", "file_path", "path"),
    "search_replace": writing("file_path", "path", change="update"),
    "write": writing("file_path", "path"),
    "list_dir": listing("target_directory", "path"),
    "grep": searching("pattern"),
    "spawn_subagent": spawning("description", "prompt", names=("subagent_type",)),
    "skill": using_skill("skill", "name"),
    "todo_write": tracking_tasks,
    "web_search": fetching,
    "web_fetch": fetching,
    **dict.fromkeys(
        (
            "ask_user_question",
            "enter_plan_mode",
            "exit_plan_mode",
            "get_command_or_subagent_output",
            "kill_command_or_subagent",
            "scheduler_delete",
            "scheduler_list",
            "search_tool",
        ),
        conversing,
    ),
    **dict.fromkeys(
        ("image_edit", "image_gen", "image_to_video", "reference_to_video", "send_feedback"), reaching
    ),
    **dict.fromkeys(("scheduler_create", "workflow"), starting),
}


def is_failure(raw: Input) -> bool:
    """A command that failed is a completed call; here it is none."""
    if raw.get("type") != "Bash":
        return False
    return (
        raw.get("exit_code") not in (0, None) or raw.get("timed_out") is True or raw.get("signal") is not None
    )


def output_of_call(raw: Input, text: str) -> str:
    """What it gave back: as shown, else as the tool's own object says it. A failed command has its exit code in it."""
    if is_failure(raw):
        return text_of(raw.get("output_for_prompt")) or text
    return text or _STATUS_LINE.sub("", text_of(raw.get("output_for_prompt"))) or _saying(raw)


def _saying(value: Any) -> str:
    if isinstance(value, str):
        return value
    raw = record_of(value)
    text = first_text(raw, *_TEXT_KEYS)
    if text:
        return text
    inner = [item for name, item in raw.items() if name != "type" and isinstance(item, dict | str)]
    return _saying(inner[0]) if len(inner) == 1 else ""


def subagent_of(raw: Input, output: str) -> str:
    match = _SUBAGENT_ID.search(output)
    return text_of(raw.get("subagent_id")) or (match[1] if match is not None else "")


def todos_of(raw: Input) -> Input:
    """The whole to-do list, where a result has it, under its name in Claude's stream-json."""
    todos = record_of(raw.get("TodosUpdated")).get("todos")
    return {} if todos is None else {"newTodos": todos}


def _read_result(call: PendingCall, raw: Input, _output: str) -> list[Operation] | None:
    operation, file = call.operation, record_of(raw.get("FileContent"))
    if not isinstance(operation, Read) or not file:
        return None
    path = text_of(file.get("absolute_path")) or operation.path
    start, lines = count_of(file.get("offset")), lines_of(text_of(file.get("raw_output")))[1]
    if start is None and count_of(file.get("limit")) is None:
        return [Read(path=path)]
    first = start or 1
    return [Read(path=path, start_line=first, end_line=first + lines - 1 if lines else operation.end_line)]


def _write_result(call: PendingCall, raw: Input, _output: str) -> list[Operation] | None:
    operation, edits = call.operation, record_of(raw.get("EditsApplied"))
    if not isinstance(operation, Write) or not edits:
        return None
    text = text_of(edits.get("tool_output_for_prompt"))
    lines = [
        line
        for item in items_of(record_of(edits.get("edits")).get("details"))
        for line in _lines_written(record_of(item))
    ]
    return [
        Write(
            path=absolute(text_of(edits.get("absolute_path")), call.cwd) or operation.path,
            start_line=min(lines, default=None),
            end_line=max(lines, default=None),
            change="create" if text.endswith("has been created.") else "update",
        )
    ]


def _lines_written(edit: Input) -> list[int]:
    first = count_of(edit.get("new_line"))
    last = lines_of(text_of(edit.get("new_string")))[1] or 1
    return [first, first + last - 1] if first else []


def _list_result(call: PendingCall, raw: Input, _output: str) -> list[Operation] | None:
    path = absolute(text_of(record_of(raw.get("Content")).get("absolute_root_path")), call.cwd)
    return [List(path=path)] if path else None


def _spawn_result(call: PendingCall, raw: Input, output: str) -> list[Operation] | None:
    operation, agent_id = call.operation, subagent_of(raw, output)
    if not isinstance(operation, Spawn) or not agent_id:
        return None
    return [replace(operation, agent_id=agent_id, name=operation.name or text_of(raw.get("subagent_type")))]


def _command_ended(_call: PendingCall, raw: Any, _output: str, is_success: bool) -> ExitStatus:
    """A command that was killed has a code too, which means nothing."""
    data = record_of(raw)
    code = exit_code_of(data.get("exit_code")) if data.get("signal") is None else None
    if not is_success:
        return False, code or None
    return (None if code is None else code == 0), code


GROK = Toolset(
    tools=_TOOLS,
    results={
        "read_file": _read_result,
        "search_replace": _write_result,
        "write": _write_result,
        "list_dir": _list_result,
        "spawn_subagent": _spawn_result,
    },
    shells=frozenset({"run_terminal_command"}),
    spawners=frozenset({"spawn_subagent"}),
    exit_status=_command_ended,
)


# What Grok says of tokens and cost.


def usage_of(data: dict[str, Any]) -> Usage:
    """Reasoning is part of the output."""
    usage, reasoning = usage_of_call(data), count_of(data.get("reasoning_tokens"))
    return replace(usage, output=besides(usage.output, reasoning), reasoning=reasoning)


def total_of(record: dict[str, Any], reported: Usage) -> Usage:
    """The total forgets what was used after the first answer, when sub-agents or commands come back later."""
    total = usage_of(record_of(record.get("usage")))
    cost = amount_of(record.get("total_cost_usd")) or None
    counts = {name: larger(getattr(reported, name), getattr(total, name)) for name in CLASSES}
    return Usage(**counts, cost_usd=cost, cost_source="" if cost is None else "stated")


def without_unknown_cost(record: dict[str, Any]) -> dict[str, Any]:
    """Zero is what it says of a model whose price it does not know."""
    if record.get("total_cost_usd") != 0:
        return record
    models = {
        name: {key: value for key, value in record_of(data).items() if key != "costUSD"}
        for name, data in record_of(record.get("modelUsage")).items()
    }
    return {**record, "total_cost_usd": None, "modelUsage": models}
