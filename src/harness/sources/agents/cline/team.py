"""The task list that a team of Cline agents shares: told one task at a time."""

from __future__ import annotations

from typing import Any

from harness.events import Event, Task, TasksChanged
from harness.sources.formats.todo_lists import task_of


class TaskBoard:
    """A run begins without tasks, so those that were told are all there are."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def update(self, told: dict[str, Any]) -> list[Event]:
        task = task_of(told)
        self._tasks[task.id] = task
        return [TasksChanged(tasks=list(self._tasks.values()))]
