"""`todo`: the agent's own to-do list, written as a whole. It changes nothing on the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation, Task
from harness.events.operation import Tasks

_DESCRIPTION = (
    "Keep a list of the steps of this work, so that nothing is forgotten and the user sees how far it is. Use it "
    "for work of three or more steps. Give the WHOLE list each time: it replaces the one before. Have at most one "
    "step in_progress, set before you begin it, and set each to completed as soon as it is done."
)
_NOT_TAKEN = (
    "The list is as it was. Each entry has content, which says what to do, and status: pending, in_progress or "
    "completed."
)


class TodoEntry(Arguments, frozen=True, kw_only=True):
    content: Annotated[str, Meta(min_length=1, description="what to do: 'Fix the login'")]
    status: Literal["pending", "in_progress", "completed"] = "pending"


class TodoArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("plan", "items", "tasks", "todo_list", "list"), "todos"
    )
    todos: Annotated[
        list[TodoEntry], Meta(description="the whole list, in order; empty: there is none any more")
    ]


class TodoTool(Tool):
    category = "read"

    def __init__(self) -> None:
        self.spec = spec("todo", _DESCRIPTION, TodoArguments)

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        """The same for an invalid list: it needs no approval, and `run` reports the mistake to the model."""
        del arguments
        return [Tasks()]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("todo")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        try:
            tasks = tasks_of(arguments)
        except ToolFailure as failure:
            raise ToolFailure(f"{failure}. {_NOT_TAKEN}") from None
        return ToolOutput(text=_summary(tasks), tasks=tasks)


def tasks_of(arguments: dict[str, Any]) -> list[Task]:
    """The list that a call states. Raises ToolFailure."""
    todos = take(TodoArguments, _spelled_alike(arguments), "todo").todos
    tasks = [Task(text=todo.content.strip(), status=todo.status) for todo in todos]
    blank = next((place for place, task in enumerate(tasks) if not task.text), None)
    if blank is not None:
        raise ToolFailure(f"invalid arguments for todo: `$.todos[{blank}].content` is blank")
    return tasks


def _spelled_alike(arguments: dict[str, Any]) -> dict[str, Any]:
    """Models use other words for the list, the content of an entry and its state; some write the list as JSON, or as texts."""
    same_task = next(
        (name for name in ("todos", *TodoArguments.aliases) if arguments.get(name) is not None), "todos"
    )
    todos = arguments.get(same_task)
    if todos is None and isinstance(lines := arguments.get("content"), str):
        todos = [_of_a_line(line) for line in lines.split("\n") if line.strip()]
    if isinstance(todos, str):
        todos = _decoded(todos)
    if not isinstance(todos, list):
        return arguments
    return {"todos": [_entry(todo) for todo in todos]}


def _entry(todo: Any) -> Any:
    if isinstance(todo, str):
        return {"content": todo}
    if not isinstance(todo, dict):
        return todo
    content = next((todo[name] for name in _CONTENT if name in todo), None)
    state = str(todo.get("status", todo.get("state", "pending"))).lower().replace("-", "_").replace(" ", "_")
    state = state.removeprefix("todo_status_")
    entry = {"status": _STATES.get(state, state)}
    return entry if content is None else {**entry, "content": content}


def _of_a_line(line: str) -> dict[str, str]:
    """Of a list as Markdown has it: `- [x] done`."""
    _, box, text = line.partition("] ")
    return {"content": text if box else line, "status": _BOXES.get(line.strip()[:5], "pending")}


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


_CONTENT = ("content", "text", "step", "title", "description", "task", "name")
_BOXES = {"- [x]": "completed", "- [X]": "completed", "- [~]": "in_progress", "- [-]": "in_progress"}
_STATES = {"todo": "pending", "open": "pending", "not_started": "pending", "doing": "in_progress"} | {
    "started": "in_progress",
    "active": "in_progress",
    "done": "completed",
    "complete": "completed",
    "finished": "completed",
    "cancelled": "completed",
    "canceled": "completed",
}


def _summary(tasks: Sequence[Task]) -> str:
    if not tasks:
        return "The list is empty."
    done_count = sum(task.status == "completed" for task in tasks)
    current = [f"in progress: {task.text}" for task in tasks if task.status == "in_progress"]
    return "\n".join([f"The list is kept: {done_count} of {len(tasks)} completed.", *current])
