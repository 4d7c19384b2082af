"""`task_write`, `task_update`, `task_complete`, `task_check`: the task list of a thread.

Changes to one list are made one after the other, however many calls run at once. The text of a result is for
the model; `ToolOutput.result` is `{content, tasks, isError}`, as data.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from harness.contracts.tool import Tool, ToolContext, ToolOutput, ToolPermission
from harness.events import Operation, Task
from harness.events.operation import Tasks
from harness.session.builtin.arguments import Arguments, described, read
from harness.session.state import IsVisible, StateLane, StateReport, cache_key

_LONGEST_NAME = 48
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


class Draft(Protocol):
    """A task as the model wrote it."""

    @property
    def id(self) -> str: ...

    @property
    def content(self) -> str: ...


def task_ids(drafts: Sequence[Draft], previous: Sequence[Task] = ()) -> list[str]:
    """The ids of the drafts, in order; each is unique."""
    reused = _reusable(drafts, previous)
    reserved = {draft.id for draft in drafts if draft.id} | set(reused.values())
    used_ids: set[str] = set()
    id_counts: Counter[str] = Counter()
    ids: list[str] = []
    for place, draft in enumerate(drafts):
        id_counts[draft.content] += 1
        if draft.id and draft.id not in used_ids:
            id_chosen = draft.id
        elif place in reused and reused[place] not in used_ids:
            id_chosen = reused[place]
        else:
            id_chosen = _unique(_name(draft.content, id_counts[draft.content]), used_ids | reserved)
        used_ids.add(id_chosen)
        ids.append(id_chosen)
    return ids


def _reusable(drafts: Sequence[Draft], previous: Sequence[Task]) -> dict[int, str]:
    """By position: the id of the previous task that the draft refers to."""
    claimed = {draft.id for draft in drafts if draft.id}
    unnamed = Counter(draft.content for draft in drafts if not draft.id)
    free: dict[str, list[str]] = {}
    for task in previous:
        if task.id not in claimed:
            free.setdefault(task.text, []).append(task.id)
    return {
        place: free[draft.content][0]
        for place, draft in enumerate(drafts)
        if not draft.id and unnamed[draft.content] == 1 and len(free.get(draft.content, ())) == 1
    }


def _name(content: str, occurrence: int) -> str:
    slug = _NOT_IN_NAMES.sub("_", content.lower()).strip("_")[:_LONGEST_NAME]
    return f"task_{slug or 'item'}" + (f"_{occurrence}" if occurrence > 1 else "")


def _unique(wanted_id: str, taken_ids: Container[str]) -> str:
    id_chosen, number = wanted_id, 1
    while id_chosen in taken_ids:
        number += 1
        id_chosen = f"{wanted_id}_{number}"
    return id_chosen


_Status = Literal["pending", "in_progress", "completed"]
_Text = Annotated[str, Meta(min_length=1)]
_NO_THREAD = "The task list belongs to a thread, and this run has none: no task was recorded."
_ONE_AT_A_TIME = "Only one task can be in_progress at a time."

_WRITE = """\
Keep a list of the tasks of this work, so that nothing is forgotten and the user sees how far it is. Use it for \
work of three or more steps.

- Give the WHOLE list: it replaces the one before. To change one task, task_update and task_complete are shorter.
- A task has content (what to do), activeForm (the same as it is being done) and status: pending, in_progress \
(only ONE at a time; set it before you begin) or completed (set it as soon as it is done).
- Ids stay what they are from one list to the next. Leave them out for new tasks: they are in the result."""
_UPDATE = "Change one task by its id: give what changes, and nothing else. Other tasks stay as they are."
_COMPLETE = "Mark one task as completed by its id."
_CHECK = "See what is done and what is left of the task list; use it before you end work that has one."


class TaskListHost(Protocol):
    """Stores the list. Contract: after `replace`, `tasks` returns the list that it was given."""

    def tasks(self) -> Sequence[Task] | None:
        """The current list; None without a thread to store one in."""
        ...

    async def replace(self, tasks: Sequence[Task]) -> None: ...


class TaskDraft(Arguments, frozen=True, kw_only=True):
    content: Annotated[_Text, Meta(description="what to do: 'Fix the login'")]
    status: _Status
    active_form: Annotated[_Text, Meta(description="the same as it is being done: 'Fixing the login'")]
    id: Annotated[str, Meta(description="of a task that there was before; leave it out for a new one")] = ""


class TaskWriteArguments(Arguments, frozen=True, kw_only=True):
    tasks: Annotated[list[TaskDraft], Meta(description="the whole list")]


class TaskUpdateArguments(Arguments, frozen=True, kw_only=True):
    id: _Text
    content: _Text | UnsetType = UNSET
    status: _Status | UnsetType = UNSET
    active_form: _Text | UnsetType = UNSET


class TaskCompleteArguments(Arguments, frozen=True, kw_only=True):
    id: _Text


class TaskCheckArguments(Arguments, frozen=True, kw_only=True):
    pass


def task_tools(board: TaskListHost) -> list[Tool]:
    """The four task tools."""
    one_by_one = asyncio.Lock()
    return [
        kind(board, one_by_one) for kind in (TaskWriteTool, TaskUpdateTool, TaskCompleteTool, TaskCheckTool)
    ]


class _Change(NamedTuple):
    """The result of a change, or why it was refused."""

    tasks: Sequence[Task]
    problem: str = ""


class TaskTool(Tool):
    name: str
    description: str
    arguments: type[Arguments]
    failure: str

    def __init__(self, board: TaskListHost, one_by_one: asyncio.Lock) -> None:
        self.spec = described(self.name, self.description, self.arguments)
        self._board = board
        self._one_by_one = one_by_one

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        del arguments
        return [Tasks()]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission(self.spec.name)

    async def _changed(self, change: Callable[[Sequence[Task]], _Change]) -> ToolOutput:
        try:
            async with self._one_by_one:
                before = self._board.tasks()
                if before is None:
                    return _output(_NO_THREAD, (), is_error=True)
                tasks, problem = change(before)
                if problem:
                    return _output(problem, before, is_error=True)
                await self._board.replace(tasks)
        except Exception as error:  # noqa: BLE001 # the board is a store of the application: its failure is an answer
            return _output(f"{self.failure}: {error}", (), is_error=True)
        return _output(_summary(tasks), tasks)


class TaskWriteTool(TaskTool):
    name, description, arguments = "task_write", _WRITE, TaskWriteArguments
    failure = "Failed to update tasks"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        drafts = read(TaskWriteArguments, arguments, self.name).tasks
        return await self._changed(lambda before: _rewritten(drafts, before))


class TaskUpdateTool(TaskTool):
    name, description, arguments = "task_update", _UPDATE, TaskUpdateArguments
    failure = "Failed to update task"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        order = read(TaskUpdateArguments, arguments, self.name)
        changes = {"text": order.content, "status": order.status, "active_form": order.active_form}
        fields = {name: value for name, value in changes.items() if value is not UNSET}
        if not fields:
            return _output("Provide at least one field to update.", self._board.tasks() or (), is_error=True)
        return await self._changed(lambda before: _updated(order.id, fields, before))


class TaskCompleteTool(TaskTool):
    name, description, arguments = "task_complete", _COMPLETE, TaskCompleteArguments
    failure = "Failed to complete task"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        order = read(TaskCompleteArguments, arguments, self.name)
        return await self._changed(lambda before: _updated(order.id, {"status": "completed"}, before))


class TaskCheckTool(TaskTool):
    name, description, arguments = "task_check", _CHECK, TaskCheckArguments
    failure = "Failed to check tasks"

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del arguments, context
        try:
            tasks = self._board.tasks()
        except Exception as error:  # noqa: BLE001 # as above
            return _checked((), f"{self.failure}: {error}")
        return _checked((), _NO_THREAD) if tasks is None else _checked(tasks)


def task_item(task: Task) -> dict[str, str]:
    """A task in its public form, outside the log."""
    return {"id": task.id, "content": task.text, "status": task.status, "activeForm": task.active_form}


def _rewritten(drafts: Sequence[TaskDraft], before: Sequence[Task]) -> _Change:
    tasks = [
        Task(text=draft.content, status=draft.status, id=id, active_form=draft.active_form)
        for draft, id in zip(drafts, task_ids(drafts, before), strict=True)
    ]
    is_too_much = sum(task.status == "in_progress" for task in tasks) > 1
    return _Change(tasks, _ONE_AT_A_TIME if is_too_much else "")


def _updated(id: str, changes: dict[str, Any], before: Sequence[Task]) -> _Change:
    if all(task.id != id for task in before):
        return _Change(before, f"Task not found: {id}\n\n{_available(before)}")
    tasks = [replace(task, **changes) if task.id == id else task for task in before]
    if changes.get("status") == "in_progress":
        tasks = [
            replace(task, status="pending") if task.status == "in_progress" and task.id != id else task
            for task in tasks
        ]
    return _Change(tasks)


def _output(content: str, tasks: Sequence[Task], *, is_error: bool = False, **more: Any) -> ToolOutput:
    result = {"content": content, "tasks": [task_item(task) for task in tasks], **more, "isError": is_error}
    return ToolOutput(text=content, result=result, success=not is_error)


def _checked(tasks: Sequence[Task], problem: str = "") -> ToolOutput:
    by_status = {
        status: [task for task in tasks if task.status == status]
        for status in ("completed", "in_progress", "pending")
    }
    incomplete = by_status["in_progress"] + by_status["pending"]
    summary = {
        "total": len(tasks),
        "completed": len(by_status["completed"]),
        "inProgress": len(by_status["in_progress"]),
        "pending": len(by_status["pending"]),
        "incomplete": len(incomplete),
        "hasTasks": bool(tasks),
        "allCompleted": bool(tasks) and not incomplete,
    }
    return _output(
        problem or _progress(tasks, summary, incomplete),
        tasks,
        is_error=bool(problem),
        summary=summary,
        incompleteTasks=[task_item(task) for task in incomplete],
    )


def _summary(tasks: Sequence[Task]) -> str:
    done_count = sum(task.status == "completed" for task in tasks)
    lines = [f"Tasks updated: [{done_count}/{len(tasks)} completed]"]
    lines += [f"Currently: {task.active_form} ({task.id})" for task in tasks if task.status == "in_progress"]
    return "\n".join([*lines, *(["Task IDs:", *map(_line, tasks)] if tasks else [])])


def _progress(tasks: Sequence[Task], summary: dict[str, Any], incomplete: Sequence[Task]) -> str:
    if not tasks:
        return "No tasks found. task_write makes a list, for work of several steps."
    lines = [
        f"Task Status: [{summary['completed']}/{summary['total']} completed]",
        f"In progress: {summary['inProgress']}, pending: {summary['pending']}",
        f"All tasks completed: {'NO' if incomplete else 'YES'}",
    ]
    if incomplete:
        lines += ["Still to do:", *map(_line, incomplete), "Go on with these before you end."]
    return "\n".join(lines)


def _available(tasks: Sequence[Task]) -> str:
    return "\n".join(["Available task IDs:", *map(_line, tasks)]) if tasks else "There are no tasks."


def _line(task: Task) -> str:
    return f"- {task.id}: {task.text} ({task.status})"


LANE = "tasks"
MOST_DELTAS = 10
"""After this many deltas the whole list is sent again, so that the model has little to read."""

_MARKS = {"pending": "○", "in_progress": "▸", "completed": "✓"}


class TaskSignal:
    """Contract: `update` is stateless; the lane records what the model has been sent."""

    id = LANE

    def update(self, lane: StateLane, tasks: Sequence[Task], is_visible: IsVisible) -> StateReport | None:
        """The report to send now; None when the model already has the current list."""
        current = [task_item(task) for task in tasks]
        known_tasks = shown_tasks(lane)
        if not current and not known_tasks:
            return None
        changes = differences(known_tasks, current)
        has_base = lane.has_base(is_visible)
        if has_base and not changes:
            return None
        key = cache_key(LANE, *(_fields(item) for item in current))
        if not has_base or len(lane.deltas) >= MOST_DELTAS:
            return StateReport(
                id=LANE,
                cache_key=key,
                mode="snapshot",
                tag_name="current-task-list",
                contents=_lines([_item(item) for item in current]),
                value={"tasks": current},
                attributes={"count": len(current)},
            )
        return StateReport(
            id=LANE,
            cache_key=key,
            mode="delta",
            tag_name="task-list-update",
            contents=_lines([_change(change) for change in changes]),
            value={"tasks": current},
            delta={"ops": changes},
            attributes={"changes": len(changes)},
        )


def shown_tasks(lane: StateLane) -> list[dict[str, str]]:
    """The list as the model knows it: the base with every delta on top."""
    base = lane.snapshot.value if lane.snapshot is not None else None
    items = {item["id"]: item for item in (base or {}).get("tasks", ())}
    for delta in lane.deltas:
        for change in (delta.delta or {}).get("ops", ()):
            if change["op"] == "remove":
                items.pop(change["id"], None)
            else:
                items[change["task"]["id"]] = change["task"]
    return list(items.values())


def differences(
    known_tasks: Sequence[dict[str, str]], current: Sequence[dict[str, str]]
) -> list[dict[str, Any]]:
    """The changes from one list to the other: add, update, remove."""
    before = {item["id"]: item for item in known_tasks}
    ids = {item["id"] for item in current}
    changes: list[dict[str, Any]] = [
        {"op": "update" if item["id"] in before else "add", "task": item}
        for item in current
        if before.get(item["id"]) != item
    ]
    return changes + [{"op": "remove", "id": id} for id in before if id not in ids]


def _fields(item: dict[str, str]) -> tuple[str, ...]:
    return item["id"], item["status"], item["content"], item["activeForm"]


def _lines(lines: Sequence[str]) -> str:
    return "".join(["\n", *(f"  {line}\n" for line in lines)]) if lines else ""


def _item(item: dict[str, str]) -> str:
    return f"{_MARKS[item['status']]} [{item['status']}] {{id: {item['id']}}} {item['content']}"


def _change(change: dict[str, Any]) -> str:
    if change["op"] == "remove":
        return f"− removed {{id: {change['id']}}}"
    item = change["task"]
    mark = "+" if change["op"] == "add" else _MARKS[item["status"]]
    return f"{mark} {{id: {item['id']}}} [{item['status']}] {item['content']}"
