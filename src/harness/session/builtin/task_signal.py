"""What the model is told of its task list: the whole list first, then what changes, now and then the whole again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.events import Task
from harness.session.builtin.tasks import task_item
from harness.session.state_lanes import IsVisible, Lane, StateUpdate, cache_key

LANE = "tasks"
MOST_DELTAS = 10
"""After this many the whole list is told again, so that what is to be read stays short."""

_MARKS = {"pending": "○", "in_progress": "▸", "completed": "✓"}


class TaskSignal:
    """Contract: `update` has no memory of its own; what was told is in the lane."""

    id = LANE

    def update(self, lane: Lane, tasks: Sequence[Task], is_visible: IsVisible) -> StateUpdate | None:
        """What is to be told now; None when the model knows it."""
        current = [task_item(task) for task in tasks]
        known = told(lane)
        if not current and not known:
            return None
        changes = differences(known, current)
        has_base = lane.has_base(is_visible)
        if has_base and not changes:
            return None
        key = cache_key(LANE, *(_fields(item) for item in current))
        if not has_base or len(lane.deltas) >= MOST_DELTAS:
            return StateUpdate(
                id=LANE,
                cache_key=key,
                mode="snapshot",
                tag_name="current-task-list",
                contents=_lines([_item(item) for item in current]),
                value={"tasks": current},
                attributes={"count": len(current)},
            )
        return StateUpdate(
            id=LANE,
            cache_key=key,
            mode="delta",
            tag_name="task-list-update",
            contents=_lines([_change(change) for change in changes]),
            value={"tasks": current},
            delta={"ops": changes},
            attributes={"changes": len(changes)},
        )


def told(lane: Lane) -> list[dict[str, str]]:
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


def differences(known: Sequence[dict[str, str]], current: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    """How one list becomes the other: add, update, remove."""
    before = {item["id"]: item for item in known}
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
