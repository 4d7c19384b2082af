"""To-do lists in the inputs and results of tools, whatever the agent calls their fields."""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

from harness.events import Task
from harness.sources.formats.fields import first_text, record_of, text_of
from harness.sources.formats.toolset import PendingCall

STATUSES: dict[str, Literal["pending", "in_progress", "completed"]] = {
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
        status=STATUSES.get(text_of(todo.get("status")), "pending"),
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
        made = task_of({"subject": text_of(call.input.get("subject")), **task})
        if made.id:
            self._is_whole = self._is_whole or made.id == _FIRST_TASK
            self._tasks[made.id] = made

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
        self._tasks[task_id] = replace(before, text=text, status=STATUSES.get(status, before.status))
