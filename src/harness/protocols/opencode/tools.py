"""The tools of OpenCode and its relatives, and the calls in their streams.

A call's operations come from its input and from the `metadata` of its record: real line ranges, changed files,
where a skill lies.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from harness.approvals.tool_table import (
    EXECUTES,
    NETWORK,
    OWN,
    edits,
    edits_by,
    reads,
    runs,
    searches,
)
from harness.contracts.toolset import (
    DIRECTORIES,
    PATHS,
    QUERIES,
    Input,
    KnownTool,
    Toolset,
    conversing,
    fetching,
    globbing,
    lines_asked,
    lines_of,
    listing,
    no_operation,
    patched_files,
    running,
    starting,
    tasks_of,
    tracking_tasks,
)
from harness.events import Event, SessionStart, TasksChanged, ToolEnd, ToolStart, Warning
from harness.events.operation import Command, List, Operation, Read, Search, Skill, Spawn, Write
from harness.events.run import Task
from harness.formats.fields import (
    absolute,
    count_of,
    exit_code_of,
    first_text,
    items_of,
    record_of,
    text_of,
)
from harness.formats.patches import changed_lines, operations_of_patch
from harness.protocols.child_runs import ChildRuns

_METADATA = "#metadata"
"""The field of a call's input under which its mapping finds the metadata of the record."""

SHELLS = frozenset({"bash", "shell"})
SPAWNERS = frozenset({"task", "agent_manager"})
TODO_LISTS = frozenset({"todowrite", "todoread", "todo"})

_PATCHES = ("patchText", "patch", "diff", "content", "input")
_AGENT_IDS = ("sessionId", "session_id", "agentId", "agent_id", "id")
_AGENT_NAMES = ("subagent_type", "name", "agent", "subagent", "agentType")
_CHANGES = {"add": "create", "update": "update", "delete": "delete", "move": "move"}
_LISTED = re.compile(r"<path>([^\n]*)</path>\n<type>directory</type>\n")
_SYMBOL_LOOKUPS = ("symbol", "reference", "definition", "implementation", "call")


def _read(input: Input, cwd: str) -> list[Operation] | None:
    metadata = record_of(input.get(_METADATA))
    display = record_of(metadata.get("display"))
    path = absolute(text_of(display.get("path")) or first_text(input, *PATHS), cwd)
    if not path:
        return None
    if display.get("type") == "directory":
        return [List(path=path)]
    start, end = count_of(display.get("lineStart")) or None, count_of(display.get("lineEnd")) or None
    if start is None:
        start, end = lines_asked(input)
    return [Read(path=path, start_line=start, end_line=end)]


def _write(input: Input, cwd: str) -> list[Operation] | None:
    metadata = record_of(input.get(_METADATA))
    path = absolute(text_of(metadata.get("filepath")) or first_text(input, *PATHS), cwd)
    if not path:
        return None
    existed = metadata.get("exists")
    change = "update" if existed is True else "create" if existed is False else ""
    start, end = lines_of(text_of(input.get("content")))
    return [Write(path=path, start_line=start, end_line=end, change=change)]


def _edit(input: Input, cwd: str) -> list[Operation] | None:
    metadata = record_of(input.get(_METADATA))
    data = record_of(metadata.get("filediff"))
    path = absolute(text_of(data.get("file")) or first_text(input, *PATHS), cwd)
    diff = text_of(data.get("patch")) or text_of(metadata.get("diff"))
    return [_changed(path, "update" if diff else "", diff)] if path else None


def _patch(input: Input, cwd: str) -> list[Operation] | None:
    """What was changed, or, where that failed, what should have been."""
    metadata = record_of(input.get(_METADATA))
    writes: list[Operation] = []
    for item in items_of(metadata.get("files")):
        file = record_of(item)
        path, moved = (absolute(text_of(file.get(name)), cwd) for name in ("filePath", "movePath"))
        change = _CHANGES.get(text_of(file.get("type")), "")
        diff = text_of(file.get("patch")) if change != "delete" else ""
        if path and moved:
            writes += [Write(path=path, change="move"), _changed(moved, "create", diff)]
        elif path:
            writes.append(_changed(path, change, diff))
    if writes:
        return writes
    path = absolute(first_text(input, *PATHS), cwd)
    return [Write(path=path)] if path else [*operations_of_patch(first_text(input, *_PATCHES), cwd)] or None


def _changed(path: str, change: str, diff: str) -> Write:
    start, end = changed_lines(diff) or (None, None)
    return Write(path=path, start_line=start, end_line=end, change=change)


def _search(input: Input, cwd: str) -> list[Operation] | None:
    query = first_text(input, *QUERIES)
    path = absolute(first_text(input, *DIRECTORIES), cwd)
    return [Search(query=query, path=path)] if query else None


def _recall(input: Input, _cwd: str) -> list[Operation]:
    query = text_of(input.get("query"))
    return [Search(query=query)] if query else []


def _look_up(input: Input, cwd: str) -> list[Operation] | None:
    """A language server was asked; only some of the questions are searches."""
    operation_name = text_of(input.get("operation"))
    is_search = any(word in operation_name.lower() for word in _SYMBOL_LOOKUPS)
    query = first_text(input, "query", "symbol") or (operation_name if is_search else "")
    return [Search(query=query, path=absolute(first_text(input, *PATHS), cwd))] if query else None


def _run_in_background(input: Input, _cwd: str) -> list[Operation]:
    command = text_of(input.get("command"))
    return [Command(command=command)] if command and input.get("action", "start") == "start" else []


def _skill(input: Input, cwd: str) -> list[Operation] | None:
    metadata = record_of(input.get(_METADATA))
    name = first_text(metadata, "name") or first_text(input, "name", "skill", "skill_name")
    directory = text_of(metadata.get("dir")) or (f"skills/{name}" if name else "")
    return [Skill(path=absolute(f"{directory}/SKILL.md", cwd), name=name)] if directory else None


def _spawn(input: Input, _cwd: str) -> list[Operation] | None:
    metadata = record_of(input.get(_METADATA))
    agent_id, name = agent_id_of(input, metadata), agent_name_of(input)
    task = first_text(input, "description", "prompt", "task")
    return [Spawn(agent_id=agent_id, name=name, task=task)] if agent_id or name else None


_NAMED_LIKE_THOSE_OF_SERVERS = (
    *("board_read", "cancel_wakeup", "cron_delete", "cron_list", "get_context_info", "goal_report"),
    *("plan_enter", "plan_exit"),
)
"""The tool `list` of a server `cron` has the name `cron_list`, too, and a question does not say which it is: it is asked about."""
OPENCODE = Toolset(
    tools={
        "background_process": KnownTool(_run_in_background, runs("command", directories=("workdir", "cwd"))),
        "kilo_local_recall": KnownTool(_recall, OWN),
        "list": listing(*DIRECTORIES),
        "lsp": KnownTool(_look_up, reads(*PATHS)),
        "read": KnownTool(_read, reads(*PATHS)),
        "skill": KnownTool(_skill, EXECUTES),
        "write": KnownTool(_write, edits(*PATHS)),
        "codesearch": KnownTool(_search, NETWORK),
        "glob": KnownTool(_search, globbing("pattern", "glob", paths=DIRECTORIES)),
        **dict.fromkeys(
            ("apply_patch", "patch"), KnownTool(_patch, edits_by(patched_files(*_PATCHES, beside=PATHS)))
        ),
        "grep": KnownTool(_search, searches(*DIRECTORIES)),
        "semantic_search": KnownTool(_search, no_operation.use),
        **dict.fromkeys(("edit", "multiedit"), KnownTool(_edit, edits(*PATHS))),
        **dict.fromkeys(("webfetch", "websearch"), fetching),
        **dict.fromkeys(SHELLS, running("command", "cmd", "script", directory="workdir")),
        **dict.fromkeys(SPAWNERS, KnownTool(_spawn, EXECUTES)),
        **dict.fromkeys(TODO_LISTS, tracking_tasks),
    }
    | dict.fromkeys(("compact", "goal", "question", "suggest"), conversing)
    | dict.fromkeys(_NAMED_LIKE_THOSE_OF_SERVERS, no_operation)
    | dict.fromkeys(("board_post", "cron_create", "schedule_wakeup"), starting)
    # Several calls in one, and a change on a server: neither is decided by its arguments.
    | dict.fromkeys(("batch", "link_pr"), no_operation),
    shells=SHELLS,
    spawners=SPAWNERS,
    shell_memory="fresh",
)


def shown_by(name: str, state: Input, metadata: Input) -> Input:
    """The metadata of a record; until 1.15 only its text shows that a directory was read."""
    match = (
        _LISTED.match(text_of(state.get("output"))) if name == "read" and "display" not in metadata else None
    )
    if match is None:
        return metadata
    return {**metadata, "display": {"type": "directory", "path": match[1]}}


def agent_id_of(input: Input, metadata: Input) -> str:
    """The session of the sub-agent that a call spawned; "" when there was none."""
    return first_text(metadata, *_AGENT_IDS) or first_text(input, *_AGENT_IDS)


def agent_name_of(input: Input) -> str:
    return first_text(input, *_AGENT_NAMES) or text_of(input.get("description"))


def todo_list_of(input: Input, metadata: Input) -> list[Task] | None:
    """The whole list after a call; None when it is not stated."""
    return tasks_of(metadata.get("todos", input.get("todos")))


_RUNNING = frozenset({"pending", "running"})
_SUCCESS = dict.fromkeys(("completed", "success", "done", "ok"), True) | dict.fromkeys(
    ("error", "failed", "failure", "cancelled", "canceled"), False
)
"""By status; a record without one does not say."""
_INVALID = "invalid"
"""The tool that takes the place of one that does not exist, or whose arguments could not be read."""
_REFUSAL = "The user rejected permission"
"""There was no user to ask, so the answer was no. The run stops after this."""
_DENIALS = (_REFUSAL, "The user has specified a rule which prevents")
_RULES = " Here are some of the relevant rules"
_TASK_RESULT = re.compile(r"<task_result>\n?(.*?)\n?</task_result>", re.DOTALL)
_TASK_METADATA = re.compile(r"\s*<task_metadata>.*?</task_metadata>\s*", re.DOTALL)
_TASK_RUNNING = re.compile(r'<task id="[^"]*" state="running"')


class OpenCodeCalls:
    """All calls of a run, and the sub-agents behind some of them.

    A call comes as one record when it has ended, in the order in which calls end. Should a version
    write records of calls that still run, these begin with their first record and end with their last.
    """

    def __init__(self, agent: str) -> None:
        self.was_refused = False
        """Whether a call of this step was refused."""
        self._children = ChildRuns(agent)
        self._parts: dict[str, str] = {}
        """Call id → the part that it came with. Some models number the calls of each answer from the start."""
        self._open: dict[str, list[Operation]] = {}
        self._ended_ids: set[str] = set()
        self._refusals_ahead = 0
        """How many more refusals stdout has had than stderr; below zero, the other way round."""

    def feed(self, part: Input, cwd: str) -> list[Event] | None:
        """The events of a record: none if they were emitted before, None if it is no call."""
        name = first_text(part, "tool", "toolName", "name").lower()
        if not name:
            return None
        state = part["state"] if isinstance(part.get("state"), dict) else part
        call_id = self._call_id_of(part)
        if call_id in self._ended_ids:
            return []
        input, metadata = state.get("input", state.get("arguments")), record_of(state.get("metadata"))
        call_input = (
            {**input, _METADATA: shown_by(name, state, metadata)} if isinstance(input, dict) else input
        )
        operations = OPENCODE.operations(name, call_input, cwd)
        tool = text_of(record_of(input).get("tool")) if name == _INVALID else ""
        start = ToolStart(
            call_id=call_id,
            tool_name=tool or name,
            input=input,
            operations=operations or [],
            raw=part if operations is None else None,
        )
        if text_of(state.get("status")) in _RUNNING:
            out: list[Event] = [] if call_id in self._open else [start]
            self._open.setdefault(call_id, start.operations)
            return out + (self._begin_child(start, metadata, cwd) if name in SPAWNERS else [])
        self._ended_ids.add(call_id)
        return self._end(start, name, state, cwd)

    def refusal_notice(self, text: str) -> list[Event]:
        """What stderr says of a refusal; of a sub-agent's nothing else is shown."""
        self._refusals_ahead -= 1
        return [Warning(message=text, code="permission_denied")] if self._refusals_ahead < 0 else []

    def _call_id_of(self, part: Input) -> str:
        part_id = text_of(part.get("id"))
        call_id = first_text(part, "callID", "callId", "call_id", "toolCallId") or part_id
        if not call_id:
            return f"call-{len(self._ended_ids) + len(self._open) + 1}"
        is_taken = part_id and self._parts.setdefault(call_id, part_id) != part_id
        return part_id if is_taken else call_id

    def _end(self, start: ToolStart, name: str, state: Input, cwd: str) -> list[Event]:
        input, metadata = record_of(start.input), record_of(state.get("metadata"))
        is_success = _is_success(name, state, metadata)
        end = ToolEnd(
            call_id=start.call_id,
            tool_name=start.tool_name,
            success=is_success,
            # An empty answer is an answer.
            output=_output_of(state) or ("" if is_success is None else None),
            exit_code=exit_code_of(metadata.get("exit")) if name in SHELLS else None,
            duration_ms=_duration_ms(state),
        )
        call = self._open.pop(start.call_id, None)
        if call is not None and call != start.operations:
            end = replace(end, operations=start.operations)
        out: list[Event] = [start] if call is None else []
        if name in SPAWNERS:
            out += self._child(start, end, metadata, cwd)
        out.append(end)
        if name in TODO_LISTS and is_success and (tasks := todo_list_of(input, metadata)) is not None:
            out.append(TasksChanged(tasks=tasks))
        return [*out, *self._denial(end)]

    def child_run(self, session_id: str) -> str:
        """The run of the sub-agent that has this session; "" when no call has started one."""
        call_id = self._children.call_of_task(session_id)
        child = self._children.find(call_id)
        return call_id if child is None else child.run_id

    def _begin_child(self, start: ToolStart, metadata: Input, cwd: str) -> list[Event]:
        input = record_of(start.input)
        agent_id = agent_id_of(input, metadata)
        if not agent_id:
            return []
        model = record_of(metadata.get("model"))
        model_name = "/".join(filter(None, (text_of(model.get(key)) for key in ("providerID", "modelID"))))
        out = self._children.begin(
            start.call_id,
            name=agent_name_of(input),
            prompt=text_of(input.get("prompt")),
            task_id=agent_id,
            cwd=cwd,
        )
        return [
            replace(event, model=model_name) if isinstance(event, SessionStart) else event for event in out
        ]

    def _child(self, start: ToolStart, end: ToolEnd, metadata: Input, cwd: str) -> list[Event]:
        """`run` does not show a sub-agent's own records; that it ran, what it was asked and what it said is shown."""
        out = self._begin_child(start, metadata, cwd)
        output = end.output or ""
        if _TASK_RUNNING.match(output):
            return out
        matched = _TASK_RESULT.search(output)
        text = matched[1] if matched is not None else _TASK_METADATA.sub("", output)
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


def _is_success(name: str, state: Input, metadata: Input) -> bool | None:
    """A command that failed is `completed` all the same, and so is a call of a tool that does not exist."""
    is_success = _SUCCESS.get(text_of(state.get("status")))
    if not is_success:
        return is_success
    if name in SHELLS:
        return bool(metadata["exit"] == 0) if "exit" in metadata else None  # null: it was stopped
    return name != _INVALID and metadata.get("ok") is not False


def _output_of(state: Input) -> str | None:
    for key in ("output", "error"):
        value = state.get(key)
        if value is not None:
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return None


def _duration_ms(state: Input) -> int | None:
    time = record_of(state.get("time"))
    start, end = count_of(time.get("start")), count_of(time.get("end"))
    return end - start if start is not None and end is not None and end >= start else None
