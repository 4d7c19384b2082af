"""The task list in a session: stored with the thread, shown to listeners, and sent to the model when it changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.events import Signal, Task, TasksChanged
from harness.log.stores.files import FileStore
from harness_kit import Model, call, log_of, opened
from running_kit import in_loop


def item(content: str, status: str = "pending") -> dict[str, Any]:
    return {"content": content, "status": status, "activeForm": f"{content}ing"}


def emitted(model: Model, index: int) -> list[str]:
    """What the model was sent about the list before that answer, by tag."""
    return [
        text for text in model.received(index) if text.startswith(("<current-task-list", "<task-list-update"))
    ]


@in_loop
async def test_a_list_is_reported_to_listeners_and_to_the_model_with_its_next_step() -> None:
    model = Model(call("task_write", tasks=[item("Build"), item("Ship")]), "Written.", "Nothing new.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="make a list")
        [updated] = record.named("task_updated")
        assert [task["id"] for task in updated["tasks"]] == ["task_build", "task_ship"]
        [ended] = record.named("tool_end")
        assert (ended["result"]["tasks"], ended["result"]["isError"]) == (updated["tasks"], False)
        assert emitted(model, 0) == []
        [snapshot] = emitted(model, 1)
        assert snapshot.startswith('<current-task-list count="2">')
        shown = harness.session.display_state.get()
        assert [task.content for task in shown.tasks] == ["Build", "Ship"]
        assert "state_signal" in record.types
        await harness.send_message(content="and?")
        assert emitted(model, 2) == [snapshot]


@in_loop
async def test_what_changed_is_reported_as_a_delta_at_the_step_after_it() -> None:
    model = Model(
        call("task_write", tasks=[item("Build"), item("Ship")]),
        call("task_complete", id="c2") | {"events": [_complete("task_build")]},
        "One done.",
    )
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        assert len(emitted(model, 1)) == 1
        [snapshot, delta] = emitted(model, 2)
        assert snapshot.startswith("<current-task-list")
        assert delta.startswith("<task-list-update")
        assert "task_build" in delta
        assert "Ship" not in delta
        assert len(record.named("task_updated")) == 2


def _complete(id: str) -> dict[str, Any]:
    return {"type": "tool_call", "name": "task_complete", "id": f"done-{id}", "input": {"id": id}}


@in_loop
async def test_after_ten_deltas_the_whole_list_is_reported_again() -> None:
    tasks = [item(f"Part {number}") for number in range(12)]
    script: list[Any] = [call("task_write", tasks=tasks)]
    script += [{"events": [_complete(f"task_part_{number}")]} for number in range(12)]
    model = Model(*script, "All done.")
    async with opened(model) as (harness, _):
        await harness.send_message(content="go")
        tags = [text.partition(" ")[0] for text in emitted(model, -1)]
        assert tags == [
            "<current-task-list",
            *["<task-list-update"] * 10,
            "<current-task-list",
            "<task-list-update",
        ]


@in_loop
async def test_the_list_is_there_in_another_process_and_reported_again_only_when_it_is_not_seen(
    tmp_path: Path,
) -> None:
    first = Model(call("task_write", tasks=[item("Build")]), "Written.")
    async with opened(first, storage=FileStore(str(tmp_path))) as (harness, _):
        await harness.send_message(content="make a list")
    second = Model(call("task_check"), "One is left.")
    async with opened(second, storage=FileStore(str(tmp_path))) as (harness, _):
        await harness.select_or_create_thread()
        assert harness.session.internals.bus.fold.facts.tasks == [
            Task(text="Build", status="pending", id="task_build", active_form="Building")
        ]
        assert [task.content for task in harness.session.display_state.get().tasks] == ["Build"]
        await harness.send_message(content="what is left?")
        assert len(emitted(second, -1)) == 1
        events = log_of(harness)
        assert sum(isinstance(event, TasksChanged) for event in events) == 1
        assert sum(isinstance(event, Signal) for event in events) == 1


@in_loop
async def test_each_thread_has_its_own() -> None:
    model = Model(call("task_write", tasks=[item("Build")]), "Written.")
    async with opened(model) as (harness, _):
        await harness.send_message(content="make a list")
        await harness.create_thread()
        assert harness.session.internals.bus.fold.facts.tasks == []
        await harness.send_message(content="hello")
        assert emitted(model, -1) == []


@in_loop
async def test_a_tool_that_is_denied_is_not_shown_whatever_else_is_set() -> None:
    model = Model("Yes.")
    async with opened(model, initial_state={"yolo": True}) as (harness, _):
        await harness.session.permissions.set_for_tool(tool_name="task_write", policy="deny")
        await harness.send_message(content="go")
        assert "task_write" not in model.tool_names()
        assert "task_check" in model.tool_names()
