"""The tools of one agent, read both ways: how a call of each is shown, and what is decided about it.

    OTTER = Toolset(
        tools={"sh": running("command"), "view": reading("path"), "plan": conversing},
        shells=frozenset({"sh"}),
    )
    call, start = OTTER.start("call-1", "view", {"path": "a.py"}, cwd="/w", raw=record)
    # start.operations == [Read(path="/w/a.py")]
    OTTER.call("view", {"path": "a.py"}, "/w")
    # ProposedCall(tool="view", category="read", paths=("a.py",), …)

An agent has one `Toolset`. Its table maps the name of each tool to a `KnownTool`: one of the builders below
(`reading`, `writing`, `running` …), or a function of the agent's own with the use that it stands for. Operations are
for people and may be guessed from a command line; `approvals` sees the use alone. A name that is not in the table (the
tool of an MCP server, or a new one) has no known operations, its `ToolStart` has the native record as `raw`, and it is
asked about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.approvals.approver import ShellMemory
from harness.approvals.call import ProposedCall
from harness.approvals.tool_table import (
    EXECUTES,
    NETWORK,
    OWN,
    CallInput,
    ToolTable,
    ToolUse,
    edits,
    edits_by,
    lists,
    reads,
    runs,
    searches,
)
from harness.events import Task, ToolStart, Unknown
from harness.events.operation import (
    Command,
    Fetch,
    List,
    Operation,
    Read,
    Search,
    Skill,
    Spawn,
    Tasks,
    Write,
)
from harness.formats.fields import absolute, count_of, first_text, items_of, record_of, text_of
from harness.formats.shell import operations_of

Input: TypeAlias = dict[str, Any]
ToolMapping: TypeAlias = Callable[[Input, str], "list[Operation] | None"]
"""A call's input and its working directory → its operations; None when the input is not what the tool takes."""


class KnownTool(msgspec.Struct, frozen=True):
    """One tool of an agent. It is the mapping of its calls, with what they are to `approvals`."""

    operations: ToolMapping
    use: ToolUse

    def __call__(self, tool_input: Input, cwd: str) -> list[Operation] | None:
        return self.operations(tool_input, cwd)


def _no_server(_tool: str) -> str:
    return ""


class PendingCall(msgspec.Struct):
    """A tool call that has not ended yet."""

    id: str
    name: str
    input: Input
    run_id: str
    cwd: str
    operations: list[Operation] = msgspec.field(default_factory=list)

    @property
    def operation(self) -> Operation | None:
        """The first of them: most tools do one thing."""
        return self.operations[0] if self.operations else None


ResultMapping: TypeAlias = Callable[[PendingCall, Input, str], "list[Operation] | None"]
"""A call, its result as data and as text → its operations as they were carried out; None: as the input says."""
ExitStatus: TypeAlias = tuple[bool | None, int | None]
"""Whether a command succeeded, and its exit code: each None where the agent does not say."""
ExitStatusOf: TypeAlias = Callable[[PendingCall, Any, str, bool], ExitStatus]
"""The call of a command, its result as data and as text, and whether the call itself succeeded → the command's."""


def same_as_call(_call: PendingCall, _detail: Any, _output: str, is_success: bool) -> ExitStatus:
    """For an agent whose calls fail with their commands, without exit codes."""
    return is_success, None


class Toolset(msgspec.Struct, frozen=True, kw_only=True):
    tools: Mapping[str, ToolMapping]
    results: Mapping[str, ResultMapping] = {}
    """For tools whose results say more than their input: real line ranges, created or updated."""
    shells: frozenset[str] = frozenset()
    spawners: frozenset[str] = frozenset()
    """Tools that run another agent."""
    exit_status: ExitStatusOf = same_as_call
    """How the results of `shells` are read."""
    keeps_directory: bool = False
    """Whether the shell of the main agent stays in the directory that a command changed to."""
    key: Callable[[str], str] = str
    """The name in these tables of a tool that has another name in the stream, such as in another case."""
    server_of: Callable[[str], str] = _no_server
    """The MCP server that the name of a tool states; empty: it states none."""
    shell_memory: ShellMemory = "kept"
    """Whether each command gets a shell of its own. Where that was not seen: what one did may hold for the next."""

    def call(
        self, name: str, tool_input: Any, cwd: str, *, server: str = "", doubt: str = ""
    ) -> ProposedCall:
        """A call as a question states it, for the decision. The name has to be exact: `key` is for what is shown."""
        uses = {tool: mapping.use for tool, mapping in self.tools.items() if isinstance(mapping, KnownTool)}
        table = ToolTable(uses=uses, server_of=self.server_of)
        return table.call(name, tool_input, cwd, server=server, doubt=doubt)

    def names_of(self, category: str) -> frozenset[str]:
        """The tools of a category."""
        return frozenset(
            name
            for name, mapping in self.tools.items()
            if isinstance(mapping, KnownTool) and mapping.use.category == category
        )

    def operations(self, name: str, tool_input: Any, cwd: str) -> list[Operation] | None:
        """The operations of a call; None when they are not known."""
        mapping = self.tools.get(self.key(name))
        return mapping(tool_input, cwd) if mapping is not None and isinstance(tool_input, dict) else None

    def start(
        self,
        call_id: str,
        name: str,
        tool_input: Any,
        cwd: str,
        raw: Any,
        *,
        run_id: str = "",
        arguments: Any = None,
    ) -> tuple[PendingCall, ToolStart]:
        """A call begins. `raw` is part of the event when its operations are not known.

        `arguments`: what the table is given, where that is not the input as it stands in the record.
        """
        operations = self.operations(name, tool_input if arguments is None else arguments, cwd)
        call = PendingCall(call_id, name, record_of(tool_input), run_id, cwd, operations or [])
        start = ToolStart(
            call_id=call_id,
            tool_name=name or "unknown",
            input=tool_input,
            operations=call.operations,
            raw=raw if operations is None else None,
            run_id=run_id,
        )
        return call, start

    def operations_after(self, call: PendingCall, detail: Any, output: str) -> list[Operation] | None:
        """The operations as a successful result has them; None when it says no more than the input."""
        mapping = self.results.get(self.key(call.name))
        operations = mapping(call, record_of(detail), output) if mapping is not None else None
        return None if operations == call.operations else operations


def consistent_exit_code(is_success: bool | None, match: re.Match[str] | None) -> int | None:
    """The exit code in the text of a result (group 1), unless it contradicts `is_success`: then the command wrote it."""
    code = None if match is None else int(match[1])
    return code if code is None or is_success is None or is_success == (code == 0) else None


def unmatched_result(result: Any, run_id: str = "") -> Unknown:
    """A result whose call is not known."""
    return Unknown(raw=result, reason="the result of a call that was never announced", run_id=run_id)


def lines_of(content: str) -> tuple[int, int] | tuple[None, None]:
    """First and last line of a file with this content."""
    return (1, content.removesuffix("\n").count("\n") + 1) if content else (None, None)


PATHS = ("path", "file_path", "filePath", "filepath", "abs_path", "absolutePath")
DIRECTORIES = ("path", "dir", "directory", "directory_path", "dir_path")
QUERIES = ("pattern", "query", "regex", "glob", "search", "searchText", "q")
"""Field names that tools use for these, where no more is known of them."""
_FIRST_LINES = ("offset", "start_line", "startLine", "line")
_LAST_LINES = ("end_line", "endLine")
_LINE_COUNTS = ("limit", "line_count", "lineCount", "num_lines", "numLines")


def lines_asked(arguments: Input) -> tuple[int | None, int | None]:
    """First and last line that a call asks for, counted from 1; a number of lines alone begins with the first."""
    start, end, count = (
        _first_count(arguments, names) for names in (_FIRST_LINES, _LAST_LINES, _LINE_COUNTS)
    )
    if end is None and count:
        start = start or 1
        end = start + count - 1
    return start, end


def _first_count(arguments: Input, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := count_of(arguments.get(name)))), None)


def reading(*paths: str, start: str = "offset", count: str = "limit") -> KnownTool:
    """`start` counts from 1; a call with a number of lines alone begins with the first."""

    def mapping(arguments: Input, cwd: str) -> list[Operation] | None:
        path = absolute(first_text(arguments, *paths), cwd)
        if not path:
            return None
        first = count_of(arguments.get(start)) or None
        lines = count_of(arguments.get(count)) or None
        if lines and arguments.get(start) is None:
            first = 1
        return [Read(path=path, start_line=first, end_line=first + lines - 1 if first and lines else None)]

    return KnownTool(mapping, reads(*paths))


def writing(*paths: str, change: str = "") -> KnownTool:
    def mapping(arguments: Input, cwd: str) -> list[Operation] | None:
        path = absolute(first_text(arguments, *paths), cwd)
        return [Write(path=path, change=change)] if path else None

    return KnownTool(mapping, edits(*paths))


def patching(*patches: str) -> KnownTool:
    def mapping(arguments: Input, cwd: str) -> list[Operation] | None:
        # Imported on first use: many runs have no patch at all.
        from harness.formats.patches import operations_of_patch

        return [*operations_of_patch(first_text(arguments, *patches), cwd)] or None

    return KnownTool(mapping, edits_by(patched_files(*patches)))


def patched_files(*patches: str, beside: tuple[str, ...] = ()) -> Callable[[CallInput], list[str] | None]:
    """The files that a patch in one of these arguments names; None when that is not certain.

    `beside`: arguments that name the file where the tool takes a change of one file instead. With a patch, both count.
    """

    def paths_of(arguments: CallInput) -> list[str] | None:
        from harness.formats.patches import paths_of_patch

        texts = [arguments[name] for name in patches if arguments.get(name)]
        paths_beside = [arguments[name] for name in beside if arguments.get(name)]
        if not all(isinstance(text, str) for text in (*texts, *paths_beside)):
            return None
        if paths_beside and not any("***" in text for text in texts):
            return paths_beside
        paths_in_patch = paths_of_patch(texts[0]) if len(texts) == 1 else None
        return None if paths_in_patch is None else [*paths_beside, *paths_in_patch]

    return paths_of


def searching(*queries: str, paths: tuple[str, ...] = ("path",), globs: tuple[str, ...] = ()) -> KnownTool:
    """Queries and places may come alone or as lists; each place is searched by itself.

    `globs`: those queries that are patterns of paths, and may lead out of the places.
    """

    def mapping(arguments: Input, cwd: str) -> list[Operation] | None:
        query = " ".join(_texts(arguments, queries))
        places = list(_texts(arguments, paths)) or [""]
        return [Search(query=query, path=absolute(place, cwd)) for place in places] if query else None

    return KnownTool(mapping, globbing(*globs, paths=paths) if globs else searches(*paths))


def globbing(*globs: str, paths: tuple[str, ...] = (), lists: bool = True) -> ToolUse:
    """The use of a tool that finds what patterns of paths match, below a place if one is named.

    `lists`: it gives back their names alone.
    """
    return ToolUse(category="read", paths_of=_matched_places(globs, paths), lists=lists)


_MADE_OF_DOTS = re.compile(r"(?:^|/)\.[{(@+]|[{,|(]\.[},|)]")
"""Choices that may make `..` of single dots: `.{.,}/x`."""
_GLOB_MARK = re.compile(r"[*?\[{(!\\]")


def _matched_places(
    globs: tuple[str, ...], paths: tuple[str, ...]
) -> Callable[[CallInput], list[str] | None]:
    def paths_of(arguments: CallInput) -> list[str] | None:
        values = [
            value
            for name in (*globs, *paths)
            for value in (items_of(arguments.get(name)) or [arguments.get(name)])
            if value is not None
        ]
        if not all(isinstance(value, str) for value in values):
            return None
        places = [place for name in paths for place in _texts(dict(arguments), (name,))] or ["."]
        roots = [_root_of(glob) for name in globs for glob in _texts(dict(arguments), (name,))]
        if any(root is None for root in roots):
            return None
        matches = [
            root if root.startswith(("/", "~")) else f"{place}/{root}"
            for place in places
            for root in roots
            if root
        ]
        return [*places, *matches]

    return paths_of


def _root_of(glob: str) -> str | None:
    """The folder below which all matches of a pattern lie; None when that is not certain."""
    mark = _GLOB_MARK.search(glob)
    if mark is None:
        return glob
    fixed, rest = glob[: mark.start()], glob[mark.start() :]
    if (
        ".." in rest
        or "~" in rest
        or "{/" in rest
        or ",/" in rest
        or "\\" in rest
        or _MADE_OF_DOTS.search(glob)
    ):
        return None
    folder, slash, _ = fixed.rpartition("/")
    return f"{folder}{slash}"


def listing(*paths: str) -> KnownTool:
    def mapping(arguments: Input, cwd: str) -> list[Operation]:
        return [List(path=absolute(first_text(arguments, *paths), cwd))]

    return KnownTool(mapping, lists(*paths))


def running(*commands: str, directory: str = "cwd") -> KnownTool:
    def mapping(arguments: Input, cwd: str) -> list[Operation] | None:
        command, place = first_text(arguments, *commands), absolute(text_of(arguments.get(directory)), cwd)
        if not command:
            return None
        return [
            replace(operation, cwd=place) if isinstance(operation, Command) else operation
            for operation in operations_of(command, place or cwd)
        ]

    return KnownTool(mapping, runs(*commands, directories=(directory,)))


def using_skill(*names: str) -> KnownTool:
    """A call does not say where a skill lies: its usual place, unless a result has the real one.

    A skill may run commands before the model sees it.
    """

    def mapping(arguments: Input, cwd: str) -> list[Operation] | None:
        name = first_text(arguments, *names).removeprefix("/")
        return [Skill(path=absolute(f"skills/{name}/SKILL.md", cwd), name=name)] if name else None

    return KnownTool(mapping, EXECUTES)


def spawning(*tasks: str, names: tuple[str, ...]) -> KnownTool:
    def mapping(arguments: Input, _cwd: str) -> list[Operation] | None:
        task, name = first_text(arguments, *tasks), first_text(arguments, *names)
        return [Spawn(name=name, task=task)] if task or name else None

    return KnownTool(mapping, EXECUTES)


def _fetch(arguments: Input, _cwd: str) -> list[Operation] | None:
    url, query = text_of(arguments.get("url")), text_of(arguments.get("query"))
    return [Fetch(url=url, query=query)] if url or query else None


def _nothing(_arguments: Input, _cwd: str) -> list[Operation]:
    return []


fetching: KnownTool = KnownTool(_fetch, NETWORK)
tracking_tasks: KnownTool = KnownTool(lambda _arguments, _cwd: [Tasks()], OWN)
no_operation: KnownTool = KnownTool(_nothing, ToolUse(category="unknown"))
"""For known tools that do nothing which is an operation, and are asked about."""
conversing: KnownTool = KnownTool(_nothing, OWN)
"""Only concerns the conversation: a question, a plan, a look at what the agent itself has started."""
starting: KnownTool = KnownTool(_nothing, EXECUTES)
"""Starts something, or tells something that runs what to do: a workflow, a timer, a message to another agent."""
reaching: KnownTool = KnownTool(_nothing, NETWORK)
asking_server: KnownTool = KnownTool(_nothing, ToolUse(category="mcp"))
"""Asks an MCP server for something that is no tool of it."""


def _texts(arguments: Input, names: tuple[str, ...]) -> Iterable[str]:
    for name in names:
        value = arguments.get(name)
        texts = [text for text in (items_of(value) or [value]) if isinstance(text, str) and text]
        if texts:
            return texts
    return ()


_STATUSES: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "done": "completed",
}


def tasks_of(todos: Any) -> list[Task] | None:
    """A whole to-do list; None when it is none. What was cancelled is not to do."""
    if not isinstance(todos, list):
        return None
    return [task_of(todo) for todo in map(record_of, todos) if todo.get("status") != "cancelled"]


def task_of(todo: dict[str, Any]) -> Task:
    return Task(
        text=first_text(todo, "content", "subject", "title", "text", "description"),
        status=_STATUSES.get(text_of(todo.get("status")), "pending"),
        id=text_of(todo.get("id")),
    )


_FIRST_TASK = "1"


class TaskList:
    """The to-do list of Claude Code and its relatives, from the calls that change it: whole lists, or single tasks.

    It is complete from its first task on, or once it was listed.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._is_whole = False

    def after(self, call: PendingCall, detail: Any) -> list[Task] | None:
        """The whole list after a call that succeeded; None when it is unknown or was not touched."""
        data = record_of(detail)
        match call.name:
            case "TodoWrite" | "todo_write":
                return tasks_of(data.get("newTodos", call.input.get("todos")))
            case "TaskList":
                self._listed(data)
            case "TaskCreate":
                self._created(record_of(data.get("task")), call)
            case "TaskUpdate":
                self._updated(call)
            case _:
                return None
        return list(self._tasks.values()) if self._is_whole else None

    def _listed(self, data: dict[str, Any]) -> None:
        if isinstance(data.get("tasks"), list):
            self._tasks = {task.id: task for task in map(task_of, map(record_of, data["tasks"]))}
            self._is_whole = True

    def _created(self, task: dict[str, Any], call: PendingCall) -> None:
        new_task = task_of({"subject": text_of(call.input.get("subject")), **task})
        if new_task.id:
            self._is_whole = self._is_whole or new_task.id == _FIRST_TASK
            self._tasks[new_task.id] = new_task

    def _updated(self, call: PendingCall) -> None:
        task_id = text_of(call.input.get("taskId"))
        before = self._tasks.get(task_id)
        if before is None:
            return
        status = text_of(call.input.get("status"))
        if status == "deleted":
            del self._tasks[task_id]
            return
        text = text_of(call.input.get("subject")) or before.text
        self._tasks[task_id] = replace(before, text=text, status=_STATUSES.get(status, before.status))
