"""The task list: ids, the four tools, and what the model is sent about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from harness.contracts.tool import ToolContext, ToolFailure, ToolOutput
from harness.events import Signal, Task
from harness.session.builtin.tasks import (
    MOST_DELTAS,
    TaskDraft,
    TaskSignal,
    shown_tasks,
    task_ids,
    task_tools,
)
from harness.session.state import StateLanes, StateReport


class Board:
    def __init__(self, *tasks: Task) -> None:
        self.kept: list[Task] | None = list(tasks)
        self.changes = 0
        self.breaks = False

    def tasks(self) -> Sequence[Task] | None:
        return self.kept

    async def replace(self, tasks: Sequence[Task]) -> None:
        if self.breaks:
            raise OSError("disk full")
        await asyncio.sleep(0)
        self.kept = list(tasks)
        self.changes += 1


def draft(content: str, id: str = "", status: Any = "pending") -> TaskDraft:
    return TaskDraft(content=content, status=status, active_form=f"doing {content}", id=id)


def task(id: str, text: str = "", status: Any = "pending") -> Task:
    text = text or id
    return Task(text=text, id=id, status=status, active_form=f"doing {text}")


def call(board: Board, tool: str, **arguments: Any) -> ToolOutput:
    found = next(one for one in task_tools(board) if one.spec.name == tool)
    return asyncio.run(found.run(arguments, ToolContext(cwd="/")))


def item(content: str, status: str = "pending", **more: str) -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": f"doing {content}", **more}


@pytest.mark.parametrize(
    ("drafts", "previous", "expected"),
    [
        ([draft("a", "x"), draft("b", "y")], [], ["x", "y"]),
        ([draft("a", "x"), draft("b", "x")], [], ["x", "task_b"]),
        ([draft("Fix the login!")], [], ["task_fix_the_login"]),
        ([draft("Fix")], [task("own", "Fix")], ["own"]),
        ([draft("Fix"), draft("Fix")], [task("own", "Fix")], ["task_fix", "task_fix_2"]),
        ([draft("Fix")], [task("one", "Fix"), task("two", "Fix")], ["task_fix"]),
        ([draft("Fix"), draft("other", "own")], [task("own", "Fix")], ["task_fix", "own"]),
        ([draft("Fix"), draft("other", "task_fix")], [], ["task_fix_2", "task_fix"]),
        ([draft("→ ☃")], [], ["task_item"]),
        ([draft("a" * 60)], [], ["task_" + "a" * 48]),
        ([draft("Fix!"), draft("Fix?")], [], ["task_fix", "task_fix_2"]),
        ([draft("new"), draft("Fix")], [task("task_new", "Fix")], ["task_new_2", "task_new"]),
    ],
    ids=[
        "explicit ids are kept",
        "of two equal ids the first is kept",
        "others are named after their content",
        "a task that was there keeps its id",
        "content that stands twice takes nobody's id",
        "an ambiguous previous task is not taken",
        "a claimed id is not taken twice",
        "a reserved id is never generated",
        "content without letters is an item",
        "names are cut",
        "names that collide are numbered",
        "a reused id is reserved too",
    ],
)
def test_ids_are_assigned(drafts: list[TaskDraft], previous: list[Task], expected: list[str]) -> None:
    assert task_ids(drafts, previous) == expected


def test_writing_replaces_the_list_and_reports_the_ids() -> None:
    board = Board(task("old"))
    output = call(board, "task_write", tasks=[item("Fix", "in_progress"), item("Test", id="t")])
    assert output.success
    assert output.result == {
        "content": output.text,
        "tasks": [item("Fix", "in_progress", id="task_fix"), item("Test", id="t")],
        "isError": False,
    }
    assert "[0/2 completed]" in output.text
    assert "doing Fix (task_fix)" in output.text
    assert [kept.id for kept in board.kept or ()] == ["task_fix", "t"]


def test_two_tasks_in_progress_are_refused_and_the_old_list_is_returned() -> None:
    board = Board(task("old"))
    output = call(board, "task_write", tasks=[item("a", "in_progress"), item("b", "in_progress")])
    assert not output.success
    assert output.text == "Only one task can be in_progress at a time."
    assert [one["id"] for one in output.result["tasks"]] == ["old"]
    assert board.changes == 0


def test_an_update_demotes_the_task_that_was_in_progress() -> None:
    board = Board(task("a", status="in_progress"), task("b"))
    output = call(board, "task_update", id="b", status="in_progress", content="B", activeForm=None)
    assert output.success
    assert board.kept == [task("a"), Task(text="B", id="b", status="in_progress", active_form="doing b")]


def test_an_update_needs_something_to_update() -> None:
    board = Board(task("a"))
    output = call(board, "task_update", id="a")
    assert not output.success
    assert "at least one field" in output.text
    assert board.changes == 0


@pytest.mark.parametrize("tool", ["task_update", "task_complete"])
def test_an_unknown_id_lists_those_that_there_are(tool: str) -> None:
    board = Board(task("a", "Fix"))
    more = {"status": "completed"} if tool == "task_update" else {}
    output = call(board, tool, id="zzz", **more)
    assert not output.success
    assert output.text == "Task not found: zzz\n\nAvailable task IDs:\n- a: Fix (pending)"
    assert [one["id"] for one in output.result["tasks"]] == ["a"]


def test_completing_a_task_leaves_the_others() -> None:
    board = Board(task("a", status="in_progress"), task("b"))
    assert call(board, "task_complete", id="a").success
    assert [kept.status for kept in board.kept or ()] == ["completed", "pending"]


def test_a_check_counts_and_puts_what_is_in_progress_first() -> None:
    board = Board(task("a"), task("b", status="in_progress"), task("c", status="completed"))
    result = call(board, "task_check").result
    assert result["summary"] == {
        "total": 3,
        "completed": 1,
        "inProgress": 1,
        "pending": 1,
        "incomplete": 2,
        "hasTasks": True,
        "allCompleted": False,
    }
    assert [one["id"] for one in result["incompleteTasks"]] == ["b", "a"]
    assert result["isError"] is False


def test_an_empty_list_is_not_all_completed() -> None:
    summary = call(Board(), "task_check").result["summary"]
    assert (summary["hasTasks"], summary["allCompleted"]) == (False, False)
    done = call(Board(task("a", status="completed")), "task_check").result["summary"]
    assert done["allCompleted"] is True


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("task_write", {"tasks": [item("a")]}),
        ("task_update", {"id": "a", "status": "completed"}),
        ("task_complete", {"id": "a"}),
        ("task_check", {}),
    ],
)
def test_without_a_thread_nothing_is_stored(tool: str, arguments: dict[str, Any]) -> None:
    board = Board()
    board.kept = None
    output = call(board, tool, **arguments)
    assert not output.success
    assert output.result["tasks"] == []
    assert output.result["isError"] is True
    assert board.kept is None


def test_a_board_that_breaks_is_an_error_result() -> None:
    board = Board()
    board.breaks = True
    output = call(board, "task_write", tasks=[item("a")])
    assert not output.success
    assert output.text == "Failed to update tasks: disk full"


def test_wrong_arguments_are_described() -> None:
    with pytest.raises(ToolFailure, match="invalid arguments for task_write"):
        call(Board(), "task_write", tasks=[{"content": "a"}])


def test_calls_at_once_change_the_list_one_after_the_other() -> None:
    async def play() -> list[Task]:
        board = Board(*(task(f"t{number}") for number in range(8)))
        complete = next(one for one in task_tools(board) if one.spec.name == "task_complete")
        await asyncio.gather(
            *(complete.run({"id": f"t{number}"}, ToolContext(cwd="/")) for number in range(8))
        )
        return board.kept or []

    assert all(kept.status == "completed" for kept in asyncio.run(play()))


def test_schemas_hold_no_references() -> None:
    for tool in task_tools(Board()):
        assert "$ref" not in str(tool.spec.schema)
        assert tool.spec.schema["type"] == "object"
    write = task_tools(Board())[0].spec.schema
    assert set(write["properties"]["tasks"]["items"]["required"]) == {"content", "status", "activeForm"}


class Window:
    """The lane of the task list, and what the model still sees."""

    def __init__(self) -> None:
        self.lanes = StateLanes()
        self.forgotten: set[str] = set()
        self.emitted: list[Signal] = []

    def sees(self, id: str) -> bool:
        return id not in self.forgotten

    def tell(self, *tasks: Task) -> StateReport | None:
        update = TaskSignal().update(self.lanes.lane("tasks"), tasks, self.sees)
        if update is None:
            return None
        signal = self.lanes.signal(update, id=f"s{len(self.emitted)}", is_visible=self.sees)
        assert signal is not None
        self.emitted.append(signal)
        self.lanes.feed(signal)
        return update


def test_the_whole_list_is_reported_first_and_then_what_changes() -> None:
    window = Window()
    assert window.tell() is None
    first = window.tell(task("a"), task("b"))
    assert first is not None
    assert (first.mode, first.tag_name, first.attributes) == ("snapshot", "current-task-list", {"count": 2})
    assert first.contents == "\n  ○ [pending] {id: a} a\n  ○ [pending] {id: b} b\n"
    second = window.tell(task("a", status="completed"), task("c"))
    assert second is not None
    assert (second.mode, second.tag_name, second.attributes) == ("delta", "task-list-update", {"changes": 3})
    assert [change["op"] for change in second.delta["ops"]] == ["update", "add", "remove"]
    assert window.tell(task("a", status="completed"), task("c")) is None
    assert [known["id"] for known in shown_tasks(window.lanes.lane("tasks"))] == ["a", "c"]
    assert [signal.state["version"] for signal in window.emitted if signal.state] == [1, 2]


def test_after_ten_deltas_the_whole_list_is_reported_again() -> None:
    window = Window()
    modes = [update.mode for number in range(13) if (update := window.tell(task("a", f"text {number}")))]
    assert modes == ["snapshot", *["delta"] * MOST_DELTAS, "snapshot", "delta"]


def test_a_base_that_left_the_window_is_reported_again_even_if_nothing_changed() -> None:
    window = Window()
    window.tell(task("a"))
    window.forgotten.add("s0")
    again = window.tell(task("a"))
    assert again is not None
    assert again.mode == "snapshot"


def test_an_emptied_list_is_reported_as_a_change() -> None:
    window = Window()
    window.tell(task("a"))
    emptied = window.tell()
    assert emptied is not None
    assert emptied.delta == {"ops": [{"op": "remove", "id": "a"}]}
    assert window.tell() is None


def test_no_two_lists_have_the_same_key() -> None:
    one, other = Window(), Window()
    first = one.tell(Task(text="b", id="a", active_form=""))
    second = other.tell(Task(text="", id="a", active_form="b"))
    assert first is not None
    assert second is not None
    assert first.cache_key != second.cache_key
    assert first.cache_key == "tasks:1:a7:pending1:b0:"
