"""The tools of Cline, and the calls in its stream.

Many of its tools do several things in one call: the `n`-th item of the result is about the `n`-th
thing of the input, so the operations of a call come in groups, one per item. Success is stated in
as many ways as there are kinds of results; an exit code only in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from harness.agents.cline.speakers import ClineSpeaker, ClineSpeakers
from harness.approvals.tool_table import (
    EXECUTES,
    NETWORK,
    OWN,
    CallInput,
    ToolUse,
    edits,
    edits_by,
    lists,
    runs,
    searches,
)
from harness.contracts.toolset import (
    DIRECTORIES,
    PATHS,
    QUERIES,
    Input,
    KnownTool,
    PendingCall,
    ToolMapping,
    Toolset,
    consistent_exit_code,
    lines_asked,
    patched_files,
)
from harness.events import Event, ToolEnd, ToolProgress, Warning
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
from harness.formats.fields import absolute, count_of, first_text, output_of, record_of, text_of
from harness.formats.patches import operations_of_patch
from harness.formats.shell import operations_of
from harness.protocols.child_runs import ChildRuns

Groups: TypeAlias = "list[list[Operation]]"
GroupMapping: TypeAlias = Callable[[Input, str], Groups]
"""No groups: the input is not what the tool takes."""

SHELLS = frozenset({"run_commands", "execute_command", "bash"})
SPAWNER = "spawn_agent"
TEAM_TASK = "team_run_task"

_EXIT_CODE = re.compile(r"Command exited with code (-?\d{1,9})")
_NUMBERED_LINE = re.compile(r" *(\d{1,9}) \|")
_SHOWN_LINES = re.compile(r"\[Showing lines (\d{1,9})-(\d{1,9}) of ")
_TRAILER_LENGTH = 200
_EDITED_LINE = re.compile(r"^([+-])(\d{1,9}): ", re.MULTILINE)
_INSERTED_AT = re.compile(r"Inserted content at line (\d{1,9}) ")
_NEEDS_APPROVAL = re.compile(r'Tool "[^"]*" requires approval')


def _each(arguments: Input, *names: str) -> list[Any]:
    """The things that are asked for: a list, or only one of them."""
    value = next((arguments[name] for name in names if name in arguments), None)
    return value if isinstance(value, list) else [] if value is None else [value]


def _run(arguments: Input, cwd: str) -> Groups:
    commands = [
        item if isinstance(item, str) else first_text(record_of(item), "command", "cmd")
        for item in _each(arguments, "commands", "command", "cmd", "script")
    ]
    return [operations_of(command, cwd) for command in commands if command]


def _read(arguments: Input, cwd: str) -> Groups:
    files = _each(arguments, "files", "file_paths", "paths") or [arguments]
    records = [{"path": item} if isinstance(item, str) else record_of(item) for item in files]
    return [[_reading(file, cwd)] for file in records if first_text(file, *PATHS)]


def _reading(file: Input, cwd: str) -> Operation:
    start, end = lines_asked(file)
    return Read(path=absolute(first_text(file, *PATHS), cwd), start_line=start, end_line=end)


def _write(arguments: Input, cwd: str) -> Groups:
    path = first_text(arguments, *PATHS)
    return [[Write(path=absolute(path, cwd))]] if path else []


def _patch(arguments: Input, cwd: str) -> Groups:
    path = first_text(arguments, *PATHS)
    if path:
        return [[Write(path=absolute(path, cwd))]]
    writes = operations_of_patch(first_text(arguments, "input", "patch", "diff", "content"), cwd)
    return [[*writes]] if writes else []


def _search(arguments: Input, cwd: str) -> Groups:
    queries = [text_of(item) for item in _each(arguments, "queries", *QUERIES)]
    path = absolute(first_text(arguments, *DIRECTORIES), cwd)
    return [[Search(query=query, path=path)] for query in queries if query]


def _list(arguments: Input, cwd: str) -> Groups:
    return [[List(path=absolute(first_text(arguments, *DIRECTORIES), cwd))]]


def _fetch(arguments: Input, _cwd: str) -> Groups:
    requests = [record_of(item) for item in _each(arguments, "requests")] or [arguments]
    places = [(text_of(item.get("url")), text_of(item.get("query"))) for item in requests]
    return [[Fetch(url=url, query=query)] for url, query in places if url or query]


def _skill(arguments: Input, cwd: str) -> Groups:
    name = first_text(arguments, "skill", "skill_name", "name").removeprefix("/")
    return [[Skill(path=absolute(f"skills/{name}/SKILL.md", cwd), name=name)]] if name else []


def _spawn(arguments: Input, _cwd: str) -> Groups:
    task = first_text(arguments, "task", "prompt")
    return [[Spawn(task=task)]] if task else []


def _team_run(arguments: Input, _cwd: str) -> Groups:
    member, task = text_of(arguments.get("agentId")), text_of(arguments.get("task"))
    return [[Spawn(agent_id=member, name=member, task=task)]] if member else []


def _team_tasks(_arguments: Input, _cwd: str) -> Groups:
    return [[Tasks()]]


def _nothing(_arguments: Input, _cwd: str) -> Groups:
    return [[]]


def _files_of(arguments: CallInput) -> list[str] | None:
    """Every file that is asked for: by its path, or by an object with one."""
    lists = (_each(dict(arguments), name) for name in ("files", "file_paths", "paths"))
    records = [file for files in lists for file in files] or [dict(arguments)]
    paths: list[str] = []
    for file in records:
        paths_in_record = (
            [file]
            if isinstance(file, str)
            else [record_of(file)[name] for name in PATHS if name in record_of(file)]
        )
        if not paths_in_record or not all(isinstance(path, str) for path in paths_in_record):
            return None
        paths += paths_in_record
    return paths


_READS = ToolUse(category="read", paths_of=_files_of)
_RUNS = runs("commands", "command", "cmd", "script")

_TOOLS: dict[str, tuple[GroupMapping, ToolUse]] = {
    **dict.fromkeys(SHELLS, (_run, _RUNS)),
    **dict.fromkeys(("read_files", "read_file"), (_read, _READS)),
    **dict.fromkeys(("editor", "write_to_file", "replace_in_file"), (_write, edits(*PATHS))),
    # A rule is an instruction to every later session.
    "new_rule": (_write, EXECUTES),
    "apply_patch": (_patch, edits_by(patched_files("input", "patch", "diff", "content", beside=PATHS))),
    **dict.fromkeys(("search_codebase", "search_files"), (_search, searches(*DIRECTORIES))),
    "list_files": (_list, lists(*DIRECTORIES)),
    **dict.fromkeys(("fetch_web_content", "web_fetch", "web_search"), (_fetch, NETWORK)),
    **dict.fromkeys(("skills", "use_skill"), (_skill, EXECUTES)),
    SPAWNER: (_spawn, EXECUTES),
    TEAM_TASK: (_team_run, EXECUTES),
    "team_task": (_team_tasks, OWN),
    # Known, and about nothing that an operation could name.
    **dict.fromkeys(("ask_question", "team_mission_log", "team_status"), (_nothing, OWN)),
    **dict.fromkeys(("team_cleanup", "team_shutdown_teammate", "team_spawn_teammate"), (_nothing, EXECUTES)),
}


def _flat(groups_of: GroupMapping) -> ToolMapping:
    def mapping(arguments: Input, cwd: str) -> list[Operation] | None:
        groups = groups_of(arguments, cwd)
        return [operation for group in groups for operation in group] if groups else None

    return mapping


CLINE = Toolset(
    tools={name: KnownTool(_flat(groups_of), use) for name, (groups_of, use) in _TOOLS.items()},
    shells=SHELLS,
    spawners=frozenset({SPAWNER}),
)


def _groups_of(call: PendingCall) -> Groups:
    entry = _TOOLS.get(call.name)
    return [] if entry is None else entry[0](call.input, call.cwd)


def is_denied(output: str) -> bool:
    return _NEEDS_APPROVAL.search(output) is not None


def success_of(event: Input) -> bool | None:
    """None: the result does not say."""
    output = event.get("output")
    if event.get("error"):
        return False
    if isinstance(output, str):
        return False if output.startswith('Skill "') and '" not found' in output else None
    if isinstance(output, dict):
        return _success_of_record(output)
    if isinstance(output, list):
        flags = [item.get("success") for item in output if isinstance(item, dict)]
        given_flags = [flag for flag in flags if isinstance(flag, bool)]
        return all(given_flags) if given_flags else None
    return None


def _success_of_record(output: Input) -> bool | None:
    if isinstance(output.get("success"), bool):
        return output["success"] is True
    if isinstance(output.get("isError"), bool):
        return output["isError"] is False
    if isinstance(output.get("results"), list):
        return success_of({"output": output["results"]})
    if output.get("error"):
        return False
    return None if "finishReason" not in output else output["finishReason"] == "completed"


def text_of_output(output: Any) -> str:
    """What a tool gave back, as text."""
    if isinstance(output, str):
        return output
    if isinstance(output, list):
        return "\n".join(text_of_output(item) for item in output)
    data = record_of(output)
    if isinstance(data.get("content"), list):
        return output_of(data["content"])
    texts = [data[name] for name in ("result", "error", "text", "message") if data.get(name)]
    if texts or any(name in data for name in ("result", "text")):
        return output_of(texts[0]) if texts else ""
    return output_of(output)


def exit_code_of(call: PendingCall, output: Any) -> int | None:
    """Of a call that runs one command."""
    items = _items(output)
    if call.name not in SHELLS or len(_groups_of(call)) != 1 or len(items) != 1:
        return None
    return _exit_code(record_of(items[0]))


def _items(output: Any) -> list[Any]:
    """What was given back for each thing that was asked for."""
    results = record_of(output).get("results", output)
    return results if isinstance(results, list) else [results]


def _exit_code(item: Input) -> int | None:
    return consistent_exit_code(False, _EXIT_CODE.match(text_of(item.get("error"))))


def operations_after(call: PendingCall, output: Any) -> list[Operation] | None:
    """The operations as the result has them; None when it says no more than the input."""
    items, groups = _items(output), _groups_of(call) if call.operations else []
    if len(items) != len(groups):
        return None
    is_one = len(items) == 1
    operations = [
        _after_item(operation, record_of(item), call.input, is_one=is_one)
        for group, item in zip(groups, items, strict=True)
        for operation in group
    ]
    return None if operations == call.operations else operations


def _after_item(operation: Operation, item: Input, arguments: Input, *, is_one: bool) -> Operation:
    is_success = item.get("success") if isinstance(item.get("success"), bool) else None
    result = text_of(item.get("result"))
    match operation:
        case Read() if is_success and (lines := _lines_read(result)):
            operation = replace(operation, start_line=lines[0], end_line=lines[1])
        case Write(change="") if is_success:
            operation = _written(operation, result, arguments)
        case Command() if not is_one:
            operation = replace(operation, exit_code=_exit_code(item))
        case _:
            pass
    return operation if is_one else replace(operation, success=is_success)


def _lines_read(result: str) -> tuple[int, int] | None:
    """From the numbers in front of the lines, or the remark after them."""
    if (match := _SHOWN_LINES.search(result[-_TRAILER_LENGTH:])) is not None:
        return int(match[1]), int(match[2])
    first, last = _NUMBERED_LINE.match(result), _NUMBERED_LINE.match(result[result.rfind("\n") + 1 :])
    return (int(first[1]), int(last[1])) if first is not None and last is not None else None


def _written(write: Write, result: str, arguments: Input) -> Write:
    if result.startswith("File created"):
        return replace(write, change="create")
    new_lines = max(1, text_of(arguments.get("new_text")).removesuffix("\n").count("\n") + 1)
    if (inserted := _INSERTED_AT.match(result)) is not None:
        start = int(inserted[1])
        return replace(write, change="update", start_line=start, end_line=start + new_lines - 1)
    edited = _EDITED_LINE.findall(result)
    numbers = [int(number) for mark, number in edited if mark == "+"] or [int(number) for _, number in edited]
    if not numbers:
        return replace(write, change="update")
    return replace(write, change="update", start_line=min(numbers), end_line=max(numbers))


class ClineCalls:
    """All calls of a run and of its children: whose they are, and how they end.

    A hook says that an agent is about to call a tool, and which agent; the call itself comes after it,
    without a name. A call that is refused before it begins has no hook.
    """

    def __init__(self, speakers: ClineSpeakers, children: ChildRuns) -> None:
        self.cwd = ""
        self.has_failed = False
        """The last call that ended has failed."""
        self._speakers = speakers
        self._children = children
        self._open: dict[str, tuple[PendingCall, ClineSpeaker]] = {}
        self._announced: list[ClineSpeaker] = []
        self._team_calls: dict[str, str] = {}

    def announce(self, speaker: ClineSpeaker) -> None:
        speaker.announced_calls += 1
        self._announced.append(speaker)

    def spawned_by(self, speaker: ClineSpeaker) -> PendingCall | None:
        """The first call of an agent whose sub-agent has not started yet."""
        for call, caller in self._open.values():
            is_free = call.name == SPAWNER and not self._children.has_started(call.id)
            if is_free and caller is speaker:
                return call
        return None

    def team_call(self, member: str) -> str:
        """The call that gave a member of the team its latest task."""
        return self._team_calls.get(member, "")

    def start(self, event: dict[str, Any], speaker: ClineSpeaker | None) -> Sequence[Event] | None:
        call_id, name, arguments = (
            text_of(event.get("toolCallId")),
            text_of(event.get("toolName")),
            event.get("input"),
        )
        if not call_id:
            return None
        speaker = self._caller(speaker)
        call, start = CLINE.start(call_id, name, arguments, self.cwd, event, run_id=speaker.run_id)
        self._open[call_id] = (call, speaker)
        speaker.waits_for.add(call_id)
        if name == TEAM_TASK:
            self._team_calls[text_of(call.input.get("agentId"))] = call_id
        return [start]

    def _caller(self, speaker: ClineSpeaker | None) -> ClineSpeaker:
        self._announced = [each for each in self._announced if not each.is_gone]
        if speaker is None:
            speaker = next((each for each in self._announced if not each.is_member), None)
        if speaker in self._announced:
            self._announced.remove(speaker)
            speaker.announced_calls -= 1
        return speaker or self._speakers.likely_speaker()

    def progress(self, event: dict[str, Any], _speaker: ClineSpeaker | None) -> Sequence[Event]:
        call_id, text = text_of(event.get("toolCallId")), text_of(record_of(event.get("update")).get("chunk"))
        entry = self._open.get(call_id)
        if entry is None or not text:
            return ()
        return (ToolProgress(call_id=call_id, text=text, run_id=entry[0].run_id),)

    def end(self, event: dict[str, Any], speaker: ClineSpeaker | None) -> Sequence[Event] | None:
        call_id = text_of(event.get("toolCallId"))
        out: list[Event] = []
        if call_id not in self._open and text_of(event.get("toolName")):
            out += self.start(event, speaker) or ()
        entry = self._open.pop(call_id, None)
        if entry is None:
            return None
        call, caller = entry
        caller.waits_for.discard(call_id)
        output, is_success = event.get("output"), success_of(event)
        text = text_of_output(output)
        self.has_failed = is_success is False
        operations = operations_after(call, output)
        if call.name == SPAWNER:
            operations = self._with_child(call)
            out += self._end_child(call, record_of(output), count_of(event.get("durationMs")))
        if is_denied(text):
            out.append(Warning(message=text, code="permission_denied", run_id=call.run_id))
        out.append(
            ToolEnd(
                call_id=call_id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=text,
                exit_code=exit_code_of(call, output),
                duration_ms=count_of(event.get("durationMs")),
                operations=operations,
                run_id=call.run_id,
            )
        )
        return out

    def _with_child(self, call: PendingCall) -> list[Operation] | None:
        child = self._children.find(call.id)
        if child is None or not call.operations:
            return None
        return [
            replace(operation, agent_id=child.task_id) if isinstance(operation, Spawn) else operation
            for operation in call.operations
        ]

    def _end_child(self, call: PendingCall, output: dict[str, Any], duration_ms: int | None) -> list[Event]:
        child = self._children.find(call.id)
        if child is None:
            return []
        reason = text_of(output.get("finishReason"))
        status = child.status or (
            "failed" if reason not in ("", "completed") or "error" in output else "completed"
        )
        out = self._speakers.leave(child.task_id)
        self._open = {key: entry for key, entry in self._open.items() if entry[0].run_id != child.run_id}
        return [*out, *self._children.end(call.id, status, text_of(output.get("text")), duration_ms)]
