"""Cursor's CLI: `cursor-agent --print --output-format stream-json`; written from its documentation.

It begins and ends as Claude's stream-json does; the rest is its own:

thinking/…                 reasoning in pieces, and where it ends
assistant                  a piece of text (with a time alone), or all of it once more
tool_call/started, …       a call and its result; both name the tool by a key
connection/…, retry/…      the server is lost for a moment
interaction_query/…        a question that no one can answer here; in plan mode, the plan
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from harness.contracts.agent import Agent, CommandFiles, CommandLine, Version
from harness.contracts.command_line import flags_of, has
from harness.contracts.request import Request
from harness.contracts.toolset import (
    Input,
    PendingCall,
    Toolset,
    lines_of,
    listing,
    no_operation,
    patching,
    reading,
    running,
    searching,
    tasks_of,
    tracking_tasks,
    writing,
)
from harness.contracts.translator import Ending, Record
from harness.events import (
    Event,
    Message,
    ReasoningDelta,
    TasksChanged,
    TextDelta,
    ToolEnd,
    Unknown,
    Warning,
)
from harness.events.operation import Fetch, Operation, Read, Spawn, Write
from harness.formats.fields import (
    absolute,
    arguments_of,
    count_of,
    first_text,
    items_of,
    record_of,
    text_of,
)
from harness.formats.patches import changed_lines
from harness.protocols.stream_json import StreamJson

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
    """Name and content of a call; ("", {}) when it is unknown."""
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
        data = record_of(result["success"])
        is_success = data.get("exitCode") in (0, None) and data.get("isError") is not True
        return is_success, "success", result["success"]
    failure = next((word for word in result if word in _FAILURES), "")
    return (False, failure, result[failure]) if failure else (None, "", content.get("result"))


def output_of_payload(payload: Any) -> str:
    """What a call gave back, as text: each tool has it under another name."""
    if isinstance(payload, str):
        return payload
    data = record_of(payload)
    if text := first_text(data, *_OUTPUTS):
        return text
    streams = [text_of(data.get(name)) for name in ("stdout", "stderr")]
    if any(streams):
        return "\n".join(filter(None, streams))
    files = [text_of(file) for file in items_of(data.get("files"))]
    if files or not data or "exitCode" in data:
        return "\n".join(files)
    return msgspec.json.encode(payload).decode()


def subagent_name_of(arguments: Input) -> str:
    kind = arguments.get("subagentType", arguments.get("subagent_type"))
    if isinstance(kind, dict):
        custom = text_of(record_of(kind.get("custom")).get("name"))
        return custom or next((key for key in kind if isinstance(key, str)), "")
    return text_of(kind)


def _spawn(arguments: Input, _cwd: str) -> list[Operation] | None:
    name, task = subagent_name_of(arguments), first_text(arguments, "description", "prompt")
    return [Spawn(name=name, task=task, agent_id=text_of(arguments.get("agentId")))] if name or task else None


def _write(arguments: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(arguments, *_PATHS), cwd)
    start, end = lines_of(first_text(arguments, "fileText", "contents", "content"))
    return [Write(path=path, start_line=start, end_line=end)] if path else None


def _fetch(arguments: Input, _cwd: str) -> list[Operation] | None:
    url, query = text_of(arguments.get("url")), first_text(arguments, "searchTerm", "search_term", "query")
    return [Fetch(url=url, query=query)] if url or query else None


def _read_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    """A file that was asked for whole, and came whole."""
    lines = count_of(detail.get("totalLines")) or None
    if not lines or detail.get("exceededLimit") is True or len(call.operations) != 1:
        return None
    operation = call.operations[0]
    if not isinstance(operation, Read) or operation.start_line is not None:
        return None
    return [replace(operation, start_line=1, end_line=lines)]


def _write_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    path = absolute(text_of(detail.get("path")), call.cwd)
    operation = call.operation or Write(path=path)
    if not isinstance(operation, Write) or not (path or operation.path):
        return None
    diff, created = text_of(detail.get("diffString")), count_of(detail.get("linesCreated")) or None
    start, end = changed_lines(diff) or (
        (1, created) if created else (operation.start_line, operation.end_line)
    )
    change = "create" if diff.startswith("--- /dev/null") else "update" if diff else operation.change
    return [Write(path=path or operation.path, start_line=start, end_line=end, change=change)]


CURSOR = Toolset(
    tools={
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
        **dict.fromkeys(SHELLS, running("command", directory="workingDirectory")),
        **dict.fromkeys(TODO_LISTS, tracking_tasks),
        **dict.fromkeys(
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
            no_operation,
        ),
    },
    results={
        "read": _read_result,
        **dict.fromkeys(("write", "edit", "editNotebook"), _write_result),
    },
    shells=SHELLS,
    spawners=SPAWNERS,
)
"""A tool is named by the key that holds it: `readToolCall` is `read`. Its result has one key too, and only `success`
is one."""


_FLAGS = {"model": "--model", "resume": "--resume", "continue_last": "--continue"}
_TRUST_SINCE: Version = (2026, 2)
"""From then on a folder that is not trusted yet must be trusted, unless everything is allowed anyway."""


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin."""
    args = ["--print", "--output-format", "stream-json", "--stream-partial-output"]
    is_trusted = request.folder_settings == "use"
    if request.permissions == "full-access":
        args.append("--force")
    elif request.permissions == "read-only":
        args += ["--mode", "plan", *(["--trust"] if is_trusted and has(version, _TRUST_SINCE) else [])]
    args += flags_of(request, _FLAGS)
    return CommandLine(args=(*args, *request.extra_args), stdin=request.prompt_bytes)


_WITH_SUBTYPES = frozenset({"thinking", "tool_call", "connection", "retry", "interaction_query"})
_USAGE = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_input_tokens",
    "cacheWriteTokens": "cache_creation_input_tokens",
}
_REFUSALS = frozenset({"rejected", "permissionDenied"})
_TASK_STATUS = "TODO_STATUS_"


class CursorTranslator(StreamJson):
    agent = "cursor"
    version_key = "version"
    tools = CURSOR
    rules: ClassVar[dict[str, str]] = {
        **StreamJson.rules,
        "thinking/delta": "_thinking",
        "thinking/completed": "_thought",
        "tool_call/started": "_call_started",
        "tool_call/completed": "_call_completed",
        "connection/reconnecting": "_reconnecting",
        "connection/reconnected": "",
        "retry/starting": "_reconnecting",
        "interaction_query/request": "_query",
        "interaction_query/response": "",
    }

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._texts = 1
        self._thoughts = 1
        self._has_pieces = False
        self._last_text = ""
        self._all_text = ""
        self._ended_calls: set[str] = set()

    def kind(self, record: Record) -> str:
        kind = text_of(record.get("type"))
        if kind in _WITH_SUBTYPES:
            return f"{kind}/{text_of(record.get('subtype'))}"
        return super().kind(record)

    def stderr(self, line: str) -> Sequence[Event]:
        if line.startswith('{"type":"'):
            self.rule = "mirrored record"
            return ()
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        return [*self._flush(), *super().finish(ending)]

    def _flush(self) -> list[Event]:
        """What was written in pieces, if it did not come again as a whole."""
        return self._whole("".join(self._pieces)) if self._pieces else []

    def _whole(self, text: str) -> list[Event]:
        message_id = f"text-{self._texts}" if self._pieces else ""
        self._texts += bool(self._pieces)
        self._pieces = []
        self._last_text = text
        self._all_text += text
        return [Message(role="assistant", text=text, id=message_id)] if text else []

    def _assistant(self, record: Record) -> Sequence[Event]:
        content = record_of(record.get("message")).get("content")
        blocks = [record_of(item) for item in items_of(content)]
        if not all(block.get("type") == "text" and isinstance(block.get("text"), str) for block in blocks):
            return [*self._flush(), *super()._assistant(record)]
        if not isinstance(content, str | list):
            return [Unknown(raw=record)]
        out, text = self._begin(record), content if isinstance(content, str) else _joined(blocks)
        if "timestamp_ms" in record and not record.get("model_call_id"):
            self._has_pieces = True
            self._pieces += [text] if text else []
            return [*out, TextDelta(id=f"text-{self._texts}", text=text)] if text else out
        text_so_far = "".join(self._pieces)
        if self._has_pieces and not text_so_far and text in (self._last_text, self._all_text):
            self.rule = "assistant/repeated"
            return out
        # The last repetition of a turn may hold all that was said before, too.
        return [*out, *self._whole(text_so_far if text_so_far and text.endswith(text_so_far) else text)]

    def _thinking(self, record: Record) -> Sequence[Event]:
        text = text_of(record.get("text"))
        out = self._begin(record)
        return [*out, ReasoningDelta(id=f"thinking-{self._thoughts}", text=text)] if text else out

    def _thought(self, record: Record) -> Sequence[Event]:
        self._thoughts += 1
        return self._begin(record)

    def begin_child(
        self, call_id: str, *, name: str = "", prompt: str = "", parent_id: str = "", task_id: str = ""
    ) -> list[Event]:
        call = self.calls.open.get(call_id)
        name = name or (subagent_name_of(call.input) if call is not None else "")
        return super().begin_child(call_id, name=name, prompt=prompt, parent_id=parent_id, task_id=task_id)

    def _call_started(self, record: Record) -> Sequence[Event]:
        call = record_of(record.get("tool_call"))
        call_id = text_of(record.get("call_id")) or text_of(call.get("toolCallId"))
        name, content = tool_of(call)
        out = [*self._begin(record), *self._flush()]
        events = self._call({"id": call_id, "name": name, "input": content.get("args")}, "")
        return [*out, *([Unknown(raw=record)] if events is None else events)]

    def _call_completed(self, record: Record) -> Sequence[Event]:
        call = record_of(record.get("tool_call"))
        call_id = text_of(record.get("call_id")) or text_of(call.get("toolCallId"))
        if call_id in self._ended_calls:
            self.rule = "tool_call/repeated"
            return ()
        out = list(self._call_started(record)) if call_id not in self.calls.open else self._flush()
        if call_id not in self.calls.open:
            return out
        self._ended_calls.add(call_id)
        name, tool_input = self.calls.open[call_id].name, self.calls.open[call_id].input
        _, content = tool_of(call)
        is_success, word, payload = result_of(content)
        detail = {**record_of(content.get("result")), **record_of(payload)}
        out += self._steps(call_id, detail)
        answer = out[-1].text if out and isinstance(out[-1], Message) and out[-1].run_id else ""
        output = answer or output_of_payload(payload)
        block = {"tool_use_id": call_id, "content": output, "is_error": is_success is False}
        for event in self._tool_result(block, detail, ""):
            out.append(_end(event, call, detail, is_success) if isinstance(event, ToolEnd) else event)
        if word in _REFUSALS:
            message = f"permission denied: {name}{f': {output}' if output else ''}"
            out.append(Warning(message=message, code="permission_denied"))
        if is_success and name in TODO_LISTS:
            out += _tasks(tool_input, detail)
        return out

    def _steps(self, call_id: str, detail: Record) -> list[Event]:
        """What a sub-agent did, as far as the result of its call shows it."""
        child = self.children.find(call_id)
        if child is None:
            return []
        child.is_background = detail.get("isBackground") is True
        out: list[Event] = []
        for step in items_of(detail.get("conversationSteps")):
            text = text_of(record_of(record_of(step).get("assistantMessage")).get("text"))
            message = Message(role="assistant", text=text, run_id=child.run_id)
            out.append(message if text else Unknown(raw=step, run_id=child.run_id))
        return out

    def _reconnecting(self, record: Record) -> Sequence[Event]:
        attempt = count_of(record.get("attempt"))
        message = (
            "the connection to the server was lost" if record.get("type") == "connection" else "retrying"
        )
        return [Warning(message=f"{message}; attempt {attempt}" if attempt else message, code="retry")]

    def _query(self, record: Record) -> Sequence[Event]:
        plan_call = record_of(record_of(record.get("query")).get("createPlanRequestQuery"))
        plan = text_of(record_of(plan_call.get("args")).get("plan"))
        return [*self._flush(), *self._whole(plan)] if plan else ()

    def _result(self, record: Record) -> Sequence[Event]:
        out = [*self._begin(record), *self._flush()]
        usage = record_of(record.get("usage"))
        counts = {plain: usage[name] for name, plain in _USAGE.items() if name in usage}
        # It is all that was said in the turn; the answer is what was said last.
        text = text_of(record.get("result"))
        text = self._last_text if self._last_text and text.endswith(self._last_text) else text
        self._all_text = ""
        return [*out, *super()._result({**record, "usage": counts or usage, "result": text})]


def _joined(blocks: list[Record]) -> str:
    return "".join(text_of(block.get("text")) for block in blocks)


def _end(event: ToolEnd, call: Record, detail: Record, is_success: bool | None) -> ToolEnd:
    is_shell = event.tool_name in SHELLS
    exit_code = count_of(detail.get("exitCode")) if is_shell else None
    start_ms, end_ms = (_count(call.get(name)) for name in ("startedAtMs", "completedAtMs"))
    duration_ms = max(0, end_ms - start_ms) if start_ms is not None and end_ms is not None else None
    return replace(event, success=is_success, exit_code=exit_code, duration_ms=duration_ms)


def _count(value: Any) -> int | None:
    is_number = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16
    return int(value) if is_number else count_of(value)


def _tasks(tool_input: Record, detail: Record) -> list[Event]:
    """The result holds the whole list, also when only some of it was changed."""
    todos = detail.get("todos", None if tool_input.get("merge") is True else tool_input.get("todos"))
    if not isinstance(todos, list):
        return []
    plain = [
        {**todo, "status": text_of(todo.get("status")).removeprefix(_TASK_STATUS).lower()}
        for todo in map(record_of, todos)
    ]
    tasks = tasks_of(plain)
    return [] if tasks is None else [TasksChanged(tasks=tasks)]


AGENT = Agent(
    name="cursor",
    title="Cursor",
    aliases=("cursor-agent",),
    binaries=("cursor-agent", "agent"),
    homes=("~/.cursor/", "~/.config/cursor", "~/.local/share/cursor-agent"),
    command=command,
    translator=CursorTranslator,
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    command_files=(CommandFiles(folders=("~/.cursor/commands", ".cursor/commands"), is_taken=False),),
    screen_resume=("--resume", "{id}"),
    key_variables=("CURSOR_API_KEY",),
    install="curl https://cursor.com/install -fsS | bash",
    login="cursor-agent login",
    needs_version=True,
    delta_keys=("text",),
    reveals={
        "deltas": "text and reasoning",
        "reasoning": "yes, from 2026 on",
        "tools": "every call and result; exit codes",
        "sub_agents": "begin, task, what they said and end; not what they do",
        "usage": "in total, from 2026 on",
        "cost": "never",
        "result": "success or error; nothing when it could not begin, which stderr says then",
    },
    derived=True,
)
