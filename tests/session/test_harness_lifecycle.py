"""From init to destroy: services, workspaces, heartbeats, and what is left when a harness is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.tool import Tool
from harness.errors import UsageError
from harness.log.stores.memory import MemoryStore
from harness.session.config import HeartbeatHandler, RequestContext
from harness.session.workspaces import DirectoryWorkspace, WorkspaceConfig
from harness_kit import Model, Record, call, make, opened, run
from running_kit import in_loop


class Place:
    """A workspace that records what is done with it."""

    def __init__(self, folder: Path, fails_at: str = "") -> None:
        self.id, self.name, self.cwd = "place", "Place", str(folder)
        self.done: list[str] = []
        self._fails_at = fails_at

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what == self._fails_at:
            raise RuntimeError(f"{what} does not work")

    async def init(self) -> None:
        self._do("init")

    def tools(self) -> Sequence[Tool]:
        return ()

    async def destroy(self) -> None:
        self._do("destroy")


def test_services_are_there_from_init_on() -> None:
    async def work() -> None:
        store = MemoryStore()
        harness = make(storage=store)
        before = harness.services
        await harness.init()
        services = harness.services
        await harness.destroy()
        assert before is None is harness.services
        assert services is not None
        assert services.store is store
        assert services.resolve_model("any").name == "test/model"

    run(work)


def test_init_may_be_called_twice() -> None:
    async def work() -> None:
        place, beats = Place(Path.cwd()), list[int]()
        heart = HeartbeatHandler(id="a", interval_ms=60_000, handler=lambda: beats.append(1))
        harness = make(workspace=place, heartbeat_handlers=[heart])
        await harness.init()
        await harness.init()
        await asyncio.sleep(0)
        assert (place.done, beats) == (["init"], [1])
        await harness.destroy()
        await harness.destroy()
        assert place.done == ["init", "destroy"]

    run(work)


def test_a_given_workspace_is_made_ready_and_released_and_both_are_reported(tmp_path: Path) -> None:
    async def work() -> None:
        place = Place(tmp_path)
        harness = make(workspace=place)
        record = Record(harness.session)
        assert harness.has_workspace()
        assert not harness.is_workspace_ready()
        assert harness.get_workspace() is None
        await harness.init()
        assert record.wire == [
            {"type": "workspace_status_changed", "status": "initializing"},
            {"type": "workspace_status_changed", "status": "ready"},
            {"type": "workspace_ready", "workspaceId": "place", "workspaceName": "Place"},
        ]
        assert harness.is_workspace_ready()
        assert harness.get_workspace() is place
        assert await harness.resolve_workspace() is place
        assert harness.session.working_directory == str(tmp_path)
        await harness.create_thread()
        record.clear()
        await harness.destroy()
        assert [data["status"] for data in record.named("workspace_status_changed")] == [
            "destroying",
            "destroyed",
        ]
        assert not harness.is_workspace_ready()

    run(work)


def test_what_is_no_workspace_is_refused_before_anything_begins() -> None:
    with pytest.raises(UsageError, match="workspace cannot be a dict"):
        make(workspace={"cwd": "."})


def test_a_workspace_that_fails_is_dropped_and_init_continues(tmp_path: Path) -> None:
    async def work() -> None:
        beats: list[int] = []
        heart = HeartbeatHandler(id="a", interval_ms=60_000, handler=lambda: beats.append(1))
        async with opened(workspace=Place(tmp_path, "init"), heartbeat_handlers=[heart]) as (harness, record):
            problem = {"message": "init does not work"}
            assert record.wire == [
                {"type": "workspace_status_changed", "status": "initializing"},
                {"type": "workspace_status_changed", "status": "error", "error": problem},
                {"type": "workspace_error", "error": problem},
            ]
            assert harness.get_workspace() is None
            assert not harness.is_workspace_ready()
            assert await harness.resolve_workspace() is None
            await asyncio.sleep(0)
            assert beats == [1]
            await harness.send_message(content="it works without")
            assert record.types[-1] == "agent_end"

    run(work)


def test_one_that_cannot_be_destroyed_is_removed_all_the_same(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(workspace=Place(tmp_path, "destroy")) as (harness, record):
            await harness.destroy_workspace()
            assert record.wire[-1] == {"type": "workspace_status_changed", "status": "destroyed"}
            assert harness.get_workspace() is None
            record.clear()
            await harness.destroy_workspace()
            assert record.wire == []

    run(work)


def test_a_described_workspace_is_a_directory_with_tools(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "a.txt").write_text("inside")
        model = Model()
        config = WorkspaceConfig(cwd=str(tmp_path), id="w", name="Work")
        async with opened(model, workspace=config) as (harness, record):
            assert record.wire[-1] == {
                "type": "workspace_ready",
                "workspaceId": "w",
                "workspaceName": "Work",
            }
            await harness.send_message(content="hi")
            assert {"read", "write", "bash"} <= set(model.tool_names())
        missing = WorkspaceConfig(cwd=str(tmp_path / "missing"))
        async with opened(workspace=missing) as (harness, record):
            assert "workspace_error" in record.types
            assert harness.get_workspace() is None

    run(work)


def test_a_factory_is_asked_for_each_request_and_its_work_is_its_own_affair(tmp_path: Path) -> None:
    async def work() -> None:
        made: list[tuple[Any, Place]] = []

        async def factory(context: RequestContext) -> Place:
            made.append((context.get("user"), Place(tmp_path)))
            return made[-1][1]

        async with opened(workspace=factory) as (harness, record):
            assert (harness.has_workspace(), harness.is_workspace_ready()) == (True, True)
            assert harness.get_workspace() is None
            assert record.types == []
            first = await harness.resolve_workspace(request_context=RequestContext(user="ann"))
            assert await harness.resolve_workspace() is first is harness.get_workspace()
            assert [user for user, _ in made] == ["ann"]
            await harness.send_message(content="hi", request_context=RequestContext(user="bob"))
            assert [user for user, _ in made] == ["ann", "bob"]
            assert harness.get_workspace() is made[-1][1]
            await harness.destroy_workspace()
            assert harness.get_workspace() is made[-1][1]
        assert all(place.done == [] for _, place in made)

    run(work)


def test_two_sessions_do_not_work_in_each_others_workspace(tmp_path: Path) -> None:
    async def work() -> None:
        def factory(context: RequestContext) -> Place:
            folder = tmp_path / context["user"]
            folder.mkdir(exist_ok=True)
            return Place(folder)

        async with opened(workspace=factory) as (harness, _):
            ann, bob = (harness.create_session(resource_id=name) for name in ("ann", "bob"))
            await ann.send_message(content="hi", request_context=RequestContext(user="ann"))
            await bob.send_message(content="hi", request_context=RequestContext(user="bob"))
            assert ann.working_directory == str(tmp_path / "ann")
            assert bob.working_directory == str(tmp_path / "bob")

    run(work)


def test_without_a_workspace_there_is_none() -> None:
    async def work() -> None:
        async with opened() as (harness, record):
            assert not harness.has_workspace()
            assert not harness.is_workspace_ready()
            assert await harness.resolve_workspace() is None
            await harness.destroy_workspace()
            assert record.types == []

    run(work)


def test_heartbeats_begin_with_init_and_end_with_destroy() -> None:
    async def work() -> None:
        received: list[str] = []
        handlers = [
            HeartbeatHandler(
                id=name,
                interval_ms=60_000,
                handler=lambda name=name: received.append(name),  # type: ignore[misc]
                shutdown=lambda name=name: received.append(f"{name} down"),  # type: ignore[misc]
            )
            for name in ("a", "b", "c")
        ]
        harness = make(heartbeat_handlers=handlers)
        await asyncio.sleep(0)
        assert received == []
        await harness.init()
        await asyncio.sleep(0)
        assert received == ["a", "b", "c"]
        await harness.remove_heartbeat(id="b")
        assert received[3:] == ["b down"]
        again = HeartbeatHandler(id="a", interval_ms=60_000, handler=lambda: received.append("a again"))
        await harness.register_heartbeat(again)
        await asyncio.sleep(0)
        assert received[4:] == ["a down", "a again"]
        await harness.destroy()
        assert received[6:] == ["c down"]
        await harness.stop_heartbeats()

    run(work)


def test_a_heartbeat_of_the_application_may_have_any_name() -> None:
    async def work() -> None:
        own = HeartbeatHandler(id="notifications", interval_ms=60_000, handler=lambda: None)
        async with opened(heartbeat_handlers=[own]) as (harness, _):
            assert len(harness.internals.heartbeats.ids) == 2

    run(work)


def test_destroy_stops_the_active_run_and_frees_the_thread() -> None:
    async def work() -> None:
        store = MemoryStore()
        started = asyncio.Event()

        async def wait() -> str:
            """Wait for ever."""
            started.set()
            await asyncio.Event().wait()
            return "never"

        harness = make(Model(call("wait")), storage=store, tools=[wait], initial_state={"yolo": True})
        record = Record(harness.session)
        await harness.init()
        thread = await harness.create_thread()
        sending = asyncio.create_task(harness.send_message(content="go"))
        await started.wait()
        await harness.destroy()
        await sending
        assert record.wire[-1] == {"type": "agent_end", "reason": "aborted"}
        assert not store.is_live(thread.id)

    run(work)


def test_what_cannot_be_closed_does_not_keep_the_rest_from_being_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck:
        def tools(self) -> Sequence[Tool]:
            return ()

        async def close(self) -> None:
            raise RuntimeError("stuck")

    async def work() -> None:
        place, store = Place(tmp_path), MemoryStore()
        harness = make(workspace=place, storage=store, browser=lambda _context: Stuck())
        await harness.init()
        thread = await harness.create_thread()
        await harness.destroy()
        assert place.done == ["init", "destroy"]
        assert not store.is_live(thread.id)
        assert harness.internals.browser is None
        assert "stuck" in caplog.text

    run(work)


def test_a_harness_in_another_event_loop_says_so_and_can_still_be_put_away() -> None:
    harness = make(Model(), storage=MemoryStore())
    asyncio.run(harness.init())
    asyncio.run(harness.send_message(content="one"))
    with pytest.raises(UsageError, match="lives in another event loop"):
        asyncio.run(harness.send_message(content="two"))
    assert [message.text for message in harness.session.thread.list_active_messages()] == ["one", "Yes."]
    asyncio.run(harness.destroy())


@in_loop
async def test_what_a_factory_made_for_one_user_is_not_the_workspace_of_another(tmp_path: Path) -> None:
    own = DirectoryWorkspace(WorkspaceConfig(cwd=str(tmp_path)))

    def made(context: RequestContext) -> DirectoryWorkspace | None:
        return own if context["harness"].resource_id == "ann" else None

    async with opened(workspace=made, resource_id="ann") as (harness, _):
        bob = harness.create_session(resource_id="bob")
        await bob.send_message(content="hi")
        await harness.send_message(content="hi")
        assert harness.session.workspace is harness.get_workspace() is own
        assert bob.workspace is None
        assert bob.working_directory != str(tmp_path)
    async with opened(workspace=made, resource_id="ann") as (harness, _):
        assert harness.get_workspace() is None
        assert await harness.resolve_workspace() is own
        assert harness.create_session(resource_id="bob").workspace is None


@in_loop
async def test_every_session_emits_the_workspace_that_they_share(tmp_path: Path) -> None:
    harness = make(workspace=WorkspaceConfig(cwd=str(tmp_path)))
    records = [Record(harness.session), Record(harness.create_session(resource_id="bob"))]
    await harness.init()
    await harness.destroy_workspace()
    ready = ["workspace_status_changed", "workspace_status_changed", "workspace_ready"]
    for record in records:
        assert record.types == [*ready, "workspace_status_changed", "workspace_status_changed"]
    assert harness.create_session(resource_id="bob").workspace is None
    await harness.destroy()
