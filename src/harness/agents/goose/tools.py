"""The tools of Goose, and the calls in its stream.

Tools of Goose's own extensions have plain names today and had their extension's before
(`developer__shell`); the tool of any other extension (`demo__count`) is unknown. Goose has no
tools to read, search or list: models use its shell for that.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from harness.agents.goose.notices import NO_ANSWER, failure_of, is_refusal
from harness.approvals.tool_table import EXECUTES, edits, reads
from harness.contracts.toolset import (
    DIRECTORIES,
    PATHS,
    QUERIES,
    Input,
    KnownTool,
    PendingCall,
    ToolMapping,
    Toolset,
    asking_server,
    conversing,
    fetching,
    lines_asked,
    lines_of,
    listing,
    no_operation,
    running,
    searching,
    spawning,
    starting,
    tracking_tasks,
    unmatched_result,
    writing,
)
from harness.contracts.translator import Record
from harness.events import Error, Event, TasksChanged, ToolEnd, Unknown, Warning
from harness.events.operation import Command, Fetch, Operation, Read, Skill, Spawn, Write
from harness.events.run import Task
from harness.formats.fields import (
    absolute,
    count_of,
    exit_code_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.protocols.child_runs import ChildRuns

SHELL, SPAWNER, TODO_WRITER = "shell", "delegate", "todo_write"
ANSWER = "final_output"
"""Hands over the answer as data."""
_TODO_TOOLS = "todo__"

_OWN_EXTENSIONS = frozenset(
    [
        "analyze",
        "apps",
        "autovisualiser",
        "chatrecall",
        "code_execution",
        "computercontroller",
        "developer",
        "extensionmanager",
        "memory",
        "platform",
        "recipe",
        "skills",
        "summon",
        "todo",
        "tutorial",
    ]
)
_PATHS = (*PATHS, "source")
_EDITOR_WRITES = frozenset(
    ("write", "create", "overwrite", "edit", "str_replace", "insert", "move", "rename", "delete", "undo_edit")
)
_SKILL_DIRECTORY = re.compile(r"^Skill directory: (.+)$", re.MULTILINE)
_TODO = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+\[(.)\]\s+(.+?)\s*$", re.MULTILINE)


def own_name(tool_name: str) -> str:
    """A tool's name without its extension; "" if that is not one of Goose's own."""
    extension, mark, name = tool_name.partition("__")
    if not mark:
        return tool_name
    return name if extension in _OWN_EXTENSIONS else ""


def named_by_extension(name: str, extension: str) -> str:
    """The name of a tool that is stated apart from its extension's."""
    return name if "__" in name or extension in ("", *_OWN_EXTENSIONS) else f"{extension}__{name}"


def _run_script(arguments: Input, _cwd: str) -> list[Operation] | None:
    script = text_of(arguments.get("script"))
    return [Command(command=script)] if script else None


def _edit_text(arguments: Input, cwd: str) -> list[Operation] | None:
    """The one tool for files that Goose had once: what it does is one of its arguments."""
    action, path = text_of(arguments.get("command")), absolute(first_text(arguments, *_PATHS), cwd)
    if action in ("view", "read") and path:
        numbers = [count_of(number) or None for number in items_of(arguments.get("view_range"))]
        start, end = numbers if len(numbers) == 2 else (None, None)
        return [Read(path=path, start_line=start, end_line=end)]
    return [Write(path=path)] if action in _EDITOR_WRITES and path else None


def _read(arguments: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(arguments, *_PATHS), cwd)
    start, end = lines_asked(arguments)
    return [Read(path=path, start_line=start, end_line=end)] if path else None


def _look(arguments: Input, cwd: str) -> list[Operation] | None:
    source = first_text(arguments, *_PATHS)
    if source.startswith(("http://", "https://")):
        return [Fetch(url=source)]
    return [Read(path=absolute(source, cwd))] if source else None


def _write(arguments: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(arguments, *_PATHS), cwd)
    start, end = lines_of(text_of(arguments.get("content")))
    return [Write(path=path, start_line=start, end_line=end)] if path else None


def _skill(arguments: Input, cwd: str) -> list[Operation] | None:
    """`greet` is a skill, `greet/extra.md` a file that lies beside it."""
    name, _, file = first_text(arguments, "name", "skill", "skill_name").partition("/")
    return [Skill(path=absolute(f"skills/{name}/{file or 'SKILL.md'}", cwd), name=name)] if name else None


_TOOLS: dict[str, ToolMapping] = {
    "automation_script": KnownTool(_run_script, EXECUTES),
    SPAWNER: spawning("instructions", "task", names=("source", "name")),
    "edit": writing(*_PATHS, change="update"),
    "glob": searching(*QUERIES, paths=DIRECTORIES, globs=QUERIES),
    "grep": searching(*QUERIES, paths=DIRECTORIES),
    "image_processor": KnownTool(_look, reads(*_PATHS)),
    "list": listing(*DIRECTORIES),
    "load_skill": KnownTool(_skill, EXECUTES),
    "read": KnownTool(_read, reads(*_PATHS)),
    "read_image": KnownTool(_look, reads(*_PATHS)),
    SHELL: running("command", "cmd", "script", directory="working_dir"),
    "skill": KnownTool(_skill, EXECUTES),
    "text_editor": KnownTool(_edit_text, edits(*_PATHS)),
    "todo_read": tracking_tasks,
    TODO_WRITER: tracking_tasks,
    "tree": listing(*DIRECTORIES),
    "web_scrape": fetching,
    "web_search": fetching,
    "write": KnownTool(_write, edits(*_PATHS)),
    "analyze": KnownTool(no_operation.operations, reads(*_PATHS)),
    **dict.fromkeys(
        (ANSWER, "chatrecall", "list_apps", "retrieve_memories", "search_available_extensions"), conversing
    ),
    **dict.fromkeys(
        (
            "cache",
            "create_app",
            "delete_app",
            "execute",
            "iterate_app",
            "list_windows",
            "load",
            "manage_extensions",
            "manage_schedule",
            "remember_memory",
            "remove_memory_category",
            "remove_specific_memory",
            "screen_capture",
        ),
        starting,
    ),
    **dict.fromkeys(("list_resources", "read_resource"), asking_server),
}


def _key(tool_name: str) -> str:
    return TODO_WRITER if tool_name.startswith(_TODO_TOOLS) else own_name(tool_name)


def _server_of(tool_name: str) -> str:
    """Tools of extensions that are not Goose's own have the extension's name before theirs."""
    extension, mark, _ = tool_name.partition("__")
    return extension if mark and extension not in _OWN_EXTENSIONS else ""


GOOSE = Toolset(
    tools=_TOOLS,
    shells=frozenset({SHELL}),
    spawners=frozenset({SPAWNER}),
    key=_key,
    server_of=_server_of,
    shell_memory="fresh",
)


class Skills:
    """Where skills lie: stated by the result that loads one, and needed again for the files beside it."""

    def __init__(self) -> None:
        self._directories: dict[str, str] = {}

    def placed(self, operations: list[Operation], output: str) -> list[Operation]:
        return [self._placed(each, output) if isinstance(each, Skill) else each for each in operations]

    def _placed(self, skill: Skill, output: str) -> Skill:
        match = _SKILL_DIRECTORY.search(output)
        if match is not None:
            self._directories[skill.name] = match[1].strip()
        directory, file = self._directories.get(skill.name), skill.path.rpartition(f"/{skill.name}/")[2]
        return replace(skill, path=f"{directory}/{file}") if directory else skill


def operations_after(call: PendingCall, output: str, agent_id: str, skills: Skills) -> list[Operation] | None:
    """The operations as a successful result has them; None when it says no more than the input."""
    operations = call.operations
    if agent_id and own_name(call.name) == SPAWNER:
        operations = [
            replace(each, agent_id=agent_id) if isinstance(each, Spawn) else each for each in operations
        ]
    elif output.startswith("Created "):
        operations = [
            replace(each, change="create") if isinstance(each, Write) else each for each in operations
        ]
    else:
        operations = skills.placed(operations, output)
    return None if operations == call.operations else operations


def todo_list_of(call: PendingCall) -> list[Task] | None:
    """The whole list, which is Markdown; None where it is not a checklist."""
    content = call.input.get("content")
    if own_name(call.name) != TODO_WRITER or not isinstance(content, str):
        return None
    tasks = [_task_of(mark, text) for mark, text in _TODO.findall(content)]
    return tasks if tasks or not content.strip() else None


def _task_of(mark: str, text: str) -> Task:
    if mark == " ":
        return Task(text=text)
    return Task(text=text, status="completed" if mark in "xX✓" else "in_progress")


_REFUSED_NAME = re.compile(r"Tool '([^']+)'")
_TASK_OUTPUT = re.compile(r"\A# Background Task Result: .*?^## Output\n\n", re.DOTALL | re.MULTILINE)
_TASK_STATUS = re.compile(r"^\*\*Status:\*\* \S+ (\w+)", re.MULTILINE)
_TASK_ENDS = {"completed": "completed", "failed": "failed", "panicked": "failed", "cancelled": "cancelled"}


class GooseCalls:
    """Tool calls: asked for by a block of an answer, ended by a block of a later message.

    A `status` of "success" says only that there was such a tool; whether it did its work, `isError` says,
    and not even that where Goose refused to run it, or where a sub-agent came to nothing.
    """

    def __init__(self) -> None:
        self.open: dict[str, PendingCall] = {}
        self.has_answered = False
        """Whether any call was answered: then a model call was finished."""
        self.structured: Any = None
        """The answer as data, where a recipe asks for it."""
        self._skills = Skills()
        self._children = ChildRuns("goose")

    def start(self, block: Record, cwd: str) -> list[Event]:
        inner = record_of(block.get("toolRequest"))
        tool_call = record_of(block.get("toolCall") or block.get("tool_call") or inner.get("toolCall"))
        call_id = first_text(block, "id", "toolCallId") or text_of(inner.get("id"))
        if not call_id:
            return [Unknown(raw=block)]
        value = record_of(tool_call.get("value"))
        tool_name = text_of(value.get("name")) or text_of(block.get("name")) or _refused_name(tool_call)
        places = ((value, "arguments"), (block, "arguments"), (block, "input"))
        input = next((place[key] for place, key in places if key in place), None)
        name = own_name(tool_name)
        if name == ANSWER:
            self.structured = input
        is_todo = tool_name.startswith(_TODO_TOOLS)  # of which some have no input at all
        self.open[call_id], start = GOOSE.start(
            call_id, tool_name, input, cwd, block, arguments=record_of(input) if is_todo else None
        )
        return [start]

    def end(self, block: Record) -> list[Event]:
        inner = record_of(block.get("toolResponse"))
        result = record_of(block.get("toolResult") or inner.get("toolResult")) or block
        call = self.open.pop(first_text(block, "id", "toolCallId") or text_of(inner.get("id")), None)
        if call is None:
            return [unmatched_result(block)]
        self.has_answered = True
        name = own_name(call.name)
        output, value = _output_of(result), record_of(result.get("value"))
        data = record_of(value.get("_meta"))
        exit_code = exit_code_of(record_of(value.get("structuredContent")).get("exit_code"))
        agent_id = text_of(data.get("subagent_session_id"))
        is_refused = is_refusal(output)
        is_success = False if is_refused or _has_come_to_nothing(call, output) else _is_success(result, value)
        if name == SHELL and is_success and "isError" not in value:
            # That there was such a tool says nothing of the command.
            is_success = None if exit_code is None else exit_code == 0
        is_known_better = is_success is not False or agent_id
        operations = operations_after(call, output, agent_id, self._skills) if is_known_better else None
        children = self._child(call, data, output, agent_id, is_success=is_success is True)
        if name == ANSWER or (children and name != SPAWNER):
            operations = []  # they are in the result of the run, or are the sub-agent's own
        end = ToolEnd(
            call_id=call.id,
            tool_name=call.name,
            success=is_success,
            output=output,
            exit_code=exit_code if name == SHELL else None,
            operations=operations,
        )
        out = [*children, end]
        if is_success and (tasks := todo_list_of(call)) is not None:
            out.append(TasksChanged(tasks=tasks))
        if is_refused:
            message = f"permission denied: {call.name} was not run"
            out.append(Warning(message=message, code="permission_denied"))
        return out

    def _child(
        self, call: PendingCall, data: Record, output: str, agent_id: str, *, is_success: bool
    ) -> list[Event]:
        """A sub-agent gets its id when its call is answered: when it is done, or continues in the background."""
        status = _task_end(data, output)
        is_spawner = own_name(call.name) == SPAWNER
        if not agent_id or (not is_spawner and not status):
            return []
        out: list[Event] = []
        if is_spawner:
            source, task = text_of(call.input.get("source")), text_of(call.input.get("instructions"))
            out += self._children.begin(call.id, name=source, prompt=task, task_id=agent_id)
            if call.input.get("async") is True and is_success:
                return out
            status = "completed" if is_success else "failed"
        owner = self._children.call_of_task(agent_id)
        answer = _TASK_OUTPUT.sub("", output)
        failure, child = failure_of(answer), self._children.find(owner)
        if failure is not None and child is not None:
            status = "failed"
            out.append(Error(message=answer, code=failure.code, run_id=child.run_id))
        seconds = count_of(data.get("duration_secs"))
        return [*out, *self._children.end(owner, status, answer, seconds * 1000 if seconds else None)]


def _task_end(data: Record, output: str) -> str:
    """How a background task has ended; "" while it runs. Until 1.37 it is stated in the text alone."""
    status = text_of(data.get("task_status"))
    if not status and (header := _TASK_OUTPUT.match(output)) is not None:
        match = _TASK_STATUS.search(header[0])
        status = match[1].lower() if match is not None else ""
    return _TASK_ENDS.get(status, "")


def _refused_name(tool_call: Record) -> str:
    """Of a call that was never tried only the reason is stated, which may name the tool."""
    refused = _REFUSED_NAME.search(text_of(tool_call.get("error")))
    return refused[1] if refused is not None else "unknown"


def _has_come_to_nothing(call: PendingCall, output: str) -> bool:
    return own_name(call.name) == SPAWNER and (output == NO_ANSWER or failure_of(output) is not None)


def _is_success(result: Record, value: Record) -> bool | None:
    match result.get("status"):
        case "success":
            return value.get("isError") is not True
        case "error":
            return False
        case _:
            return None


def _output_of(result: Record) -> str:
    """The output for the model; older versions repeat it for people."""
    value, error = result.get("value"), result.get("error")
    if error is not None:
        return first_text(record_of(error), "message") or output_of(error)
    content = value.get("content", value.get("structuredContent")) if isinstance(value, dict) else value
    for_model = [item for item in items_of(content) if "assistant" in (_audience_of(item) or ["assistant"])]
    return output_of(for_model or content)


def _audience_of(item: Any) -> list[Any]:
    return items_of(record_of(record_of(item).get("annotations")).get("audience"))
