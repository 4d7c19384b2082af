"""To-do lists as tools take them and tell them, whatever the agent calls their fields."""

from __future__ import annotations

from typing import Any, Literal

from harness.events import Task
from harness.sources.formats.fields import first_text, record_of, text_of

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
