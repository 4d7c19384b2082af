"""What the tools of Cursor's CLI mean, and what their results tell beyond what was asked for.

A tool is named by the key that holds it: `readToolCall` is `read`. Its result has one key too, and only
`success` is one.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from harness.events.operation import Fetch, Operation, Read, Spawn, Write
from harness.sources.formats.fields import count_of, first_text, items_of, record_of, text_of
from harness.sources.formats.json_text import arguments_of
from harness.sources.formats.meanings import (
    Input,
    keeping_tasks,
    listing,
    nothing,
    patching,
    reading,
    running,
    searching,
    writing,
)
from harness.sources.formats.paths import absolute
from harness.sources.formats.toolset import Call, Toolset, lines_of
from harness.sources.formats.unified_diff import changed_lines

SHELLS = frozenset({"bash", "shell"})
SPAWNERS = frozenset({"task"})
TODO_LISTS = frozenset({"todo", "todoWrite", "updateTodos"})

_SUFFIXES = ("ToolCall", "_tool_call")
_PATHS = ("path", "filePath", "file_path")
_DIRECTORIES = ("targetDirectory", "targetDirectories", "target_directories", "path")
_FAILURES = frozenset(
    {
        "aborted",
        "cancelled",
        "error",
        "failure",
        "fileNotFound",
        "permissionDenied",
        "rejected",
        "spawnError",
        "timeout",
    }
)
_OUTPUTS = ("content", "interleavedOutput", "message", "errorMessage", "error", "reason", "output")


def tool_of(call: Input) -> tuple[str, Input]:
    """Name and content of a call; ("", {}) when nobody could say."""
    for key, value in call.items():
        suffix = next((suffix for suffix in _SUFFIXES if key.endswith(suffix)), "")
        if suffix and key != suffix:
            return _plain_name(key.removesuffix(suffix), record_of(value))
    function = record_of(call.get("function")) or call
    name, arguments = text_of(function.get("name")), function.get("arguments")
    return name[:1].lower() + name[1:], {"args": arguments_of(arguments)} if name else {}


def _plain_name(name: str, content: Input) -> tuple[str, Input]:
    """A call of an MCP server's tool is that tool's, not one of the tool that passes it on."""
    args = record_of(content.get("args"))
    server = first_text(args, "serverIdentifier", "providerIdentifier")
    tool = first_text(args, "toolName", "name")
    return (f"mcp__{server}__{tool}" if name == "mcp" and tool else name), content


def result_of(content: Input) -> tuple[bool | None, str, Any]:
    """Whether a call succeeded (None: it does not say), the word for that, and what it gave back."""
    result = record_of(content.get("result"))
    if "success" in result:
        told = record_of(result["success"])
        is_success = told.get("exitCode") in (0, None) and told.get("isError") is not True
        return is_success, "success", result["success"]
    failure = next((word for word in result if word in _FAILURES), "")
    return (False, failure, result[failure]) if failure else (None, "", content.get("result"))


def output_of_payload(payload: Any) -> str:
    """What a call gave back, as text: each tool has it under another name."""
    if isinstance(payload, str):
        return payload
    told = record_of(payload)
    if text := first_text(told, *_OUTPUTS):
        return text
    streams = [text_of(told.get(name)) for name in ("stdout", "stderr")]
    if any(streams):
        return "\n".join(filter(None, streams))
    files = [text_of(file) for file in items_of(told.get("files"))]
    if files or not told or "exitCode" in told:
        return "\n".join(files)
    return msgspec.json.encode(payload).decode()


def subagent_name_of(asked: Input) -> str:
    kind = asked.get("subagentType", asked.get("subagent_type"))
    if isinstance(kind, dict):
        custom = text_of(record_of(kind.get("custom")).get("name"))
        return custom or next((key for key in kind if isinstance(key, str)), "")
    return text_of(kind)


def _spawn(asked: Input, _cwd: str) -> list[Operation] | None:
    name, task = subagent_name_of(asked), first_text(asked, "description", "prompt")
    return [Spawn(name=name, task=task, agent_id=text_of(asked.get("agentId")))] if name or task else None


def _write(asked: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(asked, *_PATHS), cwd)
    start, end = lines_of(first_text(asked, "fileText", "contents", "content"))
    return [Write(path=path, start_line=start, end_line=end)] if path else None


def _fetch(asked: Input, _cwd: str) -> list[Operation] | None:
    url, query = text_of(asked.get("url")), first_text(asked, "searchTerm", "search_term", "query")
    return [Fetch(url=url, query=query)] if url or query else None


def _read_really(call: Call, detail: Input, _output: str) -> list[Operation] | None:
    """A file that was asked for whole, and came whole."""
    lines = count_of(detail.get("totalLines")) or None
    if not lines or detail.get("exceededLimit") is True or len(call.operations) != 1:
        return None
    asked = call.operations[0]
    if not isinstance(asked, Read) or asked.start_line is not None:
        return None
    return [replace(asked, start_line=1, end_line=lines)]


def _written_really(call: Call, detail: Input, _output: str) -> list[Operation] | None:
    path = absolute(text_of(detail.get("path")), call.cwd)
    asked = call.operation or Write(path=path)
    if not isinstance(asked, Write) or not (path or asked.path):
        return None
    diff, created = text_of(detail.get("diffString")), count_of(detail.get("linesCreated")) or None
    start, end = changed_lines(diff) or ((1, created) if created else (asked.start_line, asked.end_line))
    change = "create" if diff.startswith("--- /dev/null") else "update" if diff else asked.change
    return [Write(path=path or asked.path, start_line=start, end_line=end, change=change)]


CURSOR = Toolset(
    meanings={
        "read": reading(*_PATHS),
        "write": _write,
        "edit": writing(*_PATHS),
        "editNotebook": writing("notebookPath", "targetNotebook", *_PATHS),
        "delete": writing(*_PATHS, change="delete"),
        "applyPatch": patching("patch", "input"),
        "grep": searching("pattern", "query", paths=("path", "paths")),
        "search": searching("query", "pattern", paths=_DIRECTORIES),
        "semSearch": searching("query", paths=_DIRECTORIES),
        "glob": searching("globPattern", "pattern", paths=_DIRECTORIES),
        "ls": listing("path", "targetDirectory"),
        "list": listing("path", "targetDirectory"),
        "webSearch": _fetch,
        "webFetch": _fetch,
        "fetch": _fetch,
        "task": _spawn,
    }
    | dict.fromkeys(SHELLS, running("command", directory="workingDirectory"))
    | dict.fromkeys(TODO_LISTS, keeping_tasks)
    | dict.fromkeys(
        (
            "askQuestion",
            "await",
            "createPlan",
            "fetchMcpResource",
            "getMcpTools",
            "listMcpResources",
            "readLints",
            "switchMode",
        ),
        nothing,
    ),
    corrections={
        "read": _read_really,
        **dict.fromkeys(("write", "edit", "editNotebook"), _written_really),
    },
    shells=SHELLS,
    spawners=SPAWNERS,
)
