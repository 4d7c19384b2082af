"""The task list that a team of Cline agents shares: told one task at a time."""

from __future__ import annotations

from typing import Any, Literal

from harness.events import Event, Task, TasksChanged
from harness.sources.dialects.fields import first_text, text_of

_STATUSES: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "in_progress": "in_progress",
    "completed": "completed",
}


class TaskBoard:
    """A run begins without tasks, so those that were told are all there are."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def update(self, told: dict[str, Any]) -> list[Event]:
        task_id = text_of(told.get("id"))
        text = first_text(told, "title", "description")
        status = _STATUSES.get(text_of(told.get("status")), "pending")
        self._tasks[task_id] = Task(text=text, status=status, id=task_id)
        return [TasksChanged(tasks=list(self._tasks.values()))]
