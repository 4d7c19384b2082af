"""The to-do list of Claude Code and its relatives, from the calls that change it: whole lists, or single tasks."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from harness.events import Task
from harness.sources.formats.fields import record_of, text_of
from harness.sources.formats.todo_lists import STATUSES, task_of, tasks_of
from harness.sources.formats.toolset import Call

_FIRST_TASK = "1"


class TaskList:
    """What is known of the list. It is known whole from its first task on, or once it was listed."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._is_whole = False

    def after(self, call: Call, detail: Any) -> list[Task] | None:
        """The whole list after a call that succeeded; None when it is unknown or was not touched."""
        told = record_of(detail)
        match call.name:
            case "TodoWrite" | "todo_write":
                return tasks_of(told.get("newTodos", call.input.get("todos")))
            case "TaskList":
                self._listed(told)
            case "TaskCreate":
                self._created(record_of(told.get("task")), call)
            case "TaskUpdate":
                self._updated(call)
            case _:
                return None
        return list(self._tasks.values()) if self._is_whole else None

    def _listed(self, told: dict[str, Any]) -> None:
        if isinstance(told.get("tasks"), list):
            self._tasks = {task.id: task for task in map(task_of, map(record_of, told["tasks"]))}
            self._is_whole = True

    def _created(self, task: dict[str, Any], call: Call) -> None:
        made = task_of({"subject": text_of(call.input.get("subject")), **task})
        if made.id:
            self._is_whole = self._is_whole or made.id == _FIRST_TASK
            self._tasks[made.id] = made

    def _updated(self, call: Call) -> None:
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
