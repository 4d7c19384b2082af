"""What must not leak, and must not be lost: workspaces, rules, secrets, settings, clones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from harness_kit import Model, Record, StoreMaker, call, log_of, make, opened, storage
from running_kit import YOLO, in_loop

from harness.errors import StoreError, UnknownSession, UsageError
from harness.events import Info, ThreadCreated
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.config import RequestContext, Subagent
from harness.session.harness import Harness
from harness.session.open_thread import folded
from harness.session.state import StateUpdate
from harness.session.thread_memory import Memory
from harness.session.workspaces import DirectoryWorkspace, WorkspaceConfig
from harness.sources.tool import ToolContext
from harness.views.session.usage import NOTHING_USED

__all__ = ["storage"]

SECRET = "sk-abcdefghij1234567890ZZZZ"
DENIED = {"tools": {"deploy": "deny"}, "categories": {}}


async def deploy() -> str:
    """Deploy."""
    return "done"


def files_with(text: str, folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if text.encode() in path.read_bytes()]


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
async def test_every_session_is_told_of_the_workspace_that_they_share(tmp_path: Path) -> None:
    harness = make(workspace=WorkspaceConfig(cwd=str(tmp_path)))
    records = [Record(harness.session), Record(harness.create_session(resource_id="bob"))]
    await harness.init()
    await harness.destroy_workspace()
    ready = ["workspace_status_changed", "workspace_status_changed", "workspace_ready"]
    for record in records:
        assert record.types == [*ready, "workspace_status_changed", "workspace_status_changed"]
    assert harness.create_session(resource_id="bob").workspace is None
    await harness.destroy()


@in_loop
async def test_an_old_thread_neither_lifts_a_rule_of_the_application_nor_turns_yolo_on() -> None:
    store = MemoryStore()
    async with opened(storage=store, initial_state=YOLO) as (harness, _):
        await harness.create_thread()
        await harness.session.state.set({"color": "red", "permissionRules": {"tools": {"deploy": "allow"}}})
    state: dict[str, Any] = {"yolo": False, "permissionRules": DENIED}
    async with opened(storage=store, initial_state=state) as (harness, record):
        await harness.select_or_create_thread()
        assert harness.session.permissions.is_denied("deploy")
        assert harness.session.state.get() == {"currentModelId": "test/model", "color": "red", **state}
        told = record.named("state_changed")
        assert [set(one["changedKeys"]) for one in told] == [{"yolo", "permissionRules"}, {"color"}]
        assert told[-1]["state"] == harness.session.state.get()
    async with opened(storage=store) as (harness, _):
        await harness.select_or_create_thread()
        assert harness.session.state.peek("yolo") is False
        assert harness.session.permissions.is_denied("deploy")


@in_loop
async def test_an_old_thread_says_nothing_of_yolo_that_a_new_one_would_inherit() -> None:
    store = MemoryStore()
    async with opened(storage=store) as (harness, _):
        await harness.create_thread()
        await harness.session.state.set({"yolo": True})
    async with opened(storage=store) as (harness, record):
        await harness.select_or_create_thread()
        assert harness.session.state.peek("yolo") is False
        assert record.named("state_changed")[-1]["state"]["yolo"] is False
        await harness.create_thread()
        assert harness.session.state.peek("yolo") is False


@in_loop
async def test_a_state_that_no_log_can_hold_is_refused_and_changes_nothing(storage: StoreMaker) -> None:
    async with opened(storage=storage.open()) as (harness, record):
        await harness.create_thread()
        before, state = harness.session.state.get(), harness.session.state
        record.clear()
        with pytest.raises(UsageError, match="Invalid state update: "):
            await state.set({"bad": object()})
        bad = StateUpdate(updates={"good": 1}, events=[Info(message=object())])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="Invalid event of a state update: "):
            await state.update(lambda _: bad)
        assert (state.get(), record.types) == (before, [])
        await state.set({"good": 2})
        assert record.named("state_changed")[-1]["state"] == {**before, "good": 2}
        await harness.send_message(content="go on")
        assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
    with pytest.raises(UsageError, match="Invalid state update: "):
        make(initial_state={"bad": object()})


@in_loop
async def test_a_listener_reads_the_state_that_it_is_told_of() -> None:
    async with opened() as (harness, _):
        seen: list[Any] = []
        harness.subscribe(lambda _: seen.append(harness.session.state.peek("count")))
        await harness.session.state.set({"count": 1})
        assert set(seen) == {1}


@in_loop
async def test_a_setting_that_cannot_be_kept_is_refused_and_spoils_no_other(storage: StoreMaker) -> None:
    store = storage.open()
    async with opened(storage=store) as (harness, _):
        thread = await harness.create_thread()
        with pytest.raises(UsageError, match="cannot be kept"):
            await harness.session.thread.set_setting(key="bad", value=object())
        await harness.session.thread.set_setting(key="good", value={"deep": [1]})
        kept = store.metadata(thread.id).settings
        assert (kept["good"], "bad" in kept) == ({"deep": [1]}, False)
        assert await harness.session.thread.get_setting(key="good") == {"deep": [1]}
    with pytest.raises(StoreError):
        store.create(Metadata(session_id="odd", settings={"bad": object()}))


def test_what_a_memory_store_keeps_is_shared_with_nobody() -> None:
    store, given = MemoryStore(), {"deep": [1]}
    store.create(Metadata(session_id="one", settings=given)).close()
    given["deep"].append(2)
    store.metadata("one").settings["deep"].append(3)
    assert store.metadata("one").settings == {"deep": [1]}
    with pytest.raises(StoreError):
        store.create(Metadata(session_id="two", settings={"bad": object()}))
    assert [one.session_id for one in store.list()] == ["one"]


@in_loop
async def test_a_setting_that_could_not_be_saved_is_not_said_to_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(storage=MemoryStore()) as (harness, _):
        await harness.create_thread()

        def fail(*_: Any) -> None:
            raise StoreError("full")

        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "save_metadata", fail)
            await harness.session.thread.set_setting(key="lost", value=1)
        assert await harness.session.thread.get_setting(key="lost") is None


@in_loop
async def test_a_tool_that_waits_is_answered_once_whatever_is_cloned(storage: StoreMaker) -> None:
    answers: list[Any] = []

    async def deploy(context: ToolContext) -> str:
        """Deploy."""
        answers.append(await context.suspend({"to": "where?"}, kind="tool"))
        return "done"

    options: dict[str, Any] = {"memory": Memory(), "tools": [deploy], "initial_state": YOLO}
    store = storage.open()
    async with opened(Model(call("deploy")), storage=store, **options) as (harness, record):
        source = await harness.create_thread()
        await harness.send_message(content="go")
        harness.session.follow_ups.enqueue(content="later")
        clone = await harness.clone_thread()
        assert not harness.session.suspensions.has_pending()
        assert harness.session.follow_ups.is_empty()
        assert not await harness.respond_to_tool_suspension(resume_data="in the clone")
        assert record.types[-4:] == [
            "thread_created",
            "follow_up_queued",
            "tool_suspension_cancelled",
            "tool_end",
        ]
        assert not harness.session.display_state.get().is_running
        await harness.send_message(content="and here?")
        await harness.switch_thread(thread_id=source.id)
        assert await harness.respond_to_tool_suspension(resume_data="in the source")
    assert answers == ["in the source"]
    async with opened(storage=storage.open(), **options) as (harness, _):
        await harness.switch_thread(thread_id=clone.id)
        assert not harness.session.suspensions.has_pending()


@in_loop
async def test_a_clone_of_a_thread_that_works_elsewhere_has_no_run_that_never_ends() -> None:
    store = MemoryStore()
    asking = Model(call("ask_user", question="Which?"))
    async with opened(asking, storage=store, memory=Memory()) as (harness, _):
        ann = harness.create_session(resource_id="ann")
        async with opened(Model(call("deploy")), storage=store, tools=[deploy]) as (other, told):
            thread = await other.create_thread()
            working = asyncio.create_task(other.send_message(content="go"))
            await told.until_told("tool_approval_required")
            await ann.thread.clone(source_thread_id=thread.id)
            facts = ann.internals.bus.fold.facts
            assert (facts.open_run, facts.relays, facts.last_outcome) == ("", {}, "interrupted")
            await ann.send_message(content="and here?")
            assert facts.last_outcome == "suspended"
            assert other.session.respond_to_tool_approval(decision="approve")
            await working
            assert told.wire[-1] == {"type": "agent_end", "reason": "complete"}


@in_loop
async def test_a_new_thread_says_all_that_it_begins_with_in_one_event(storage: StoreMaker) -> None:
    store = storage.open()
    async with opened(storage=store, initial_state={"color": "red"}) as (harness, record):
        thread = await harness.create_thread(title="First")
        assert record.types == ["thread_created"]
        assert record.wire[0]["thread"]["metadata"] == thread.metadata
        (created,) = log_of(harness)
        assert isinstance(created, ThreadCreated)
        assert (created.state, created.metadata) == (harness.session.state.get(), thread.metadata)
        assert folded(store, thread.id).facts.state == harness.session.state.get()


@in_loop
async def test_usage_that_is_reset_is_nothing_used() -> None:
    async with opened() as (harness, _):
        await harness.send_message(content="hi")
        harness.session.reset_token_usage()
        assert harness.session.get_token_usage() == NOTHING_USED


@in_loop
async def test_no_secret_gets_into_what_is_kept_beside_the_log(tmp_path: Path) -> None:
    harness = Harness(
        id="h",
        modes=[make().internals.default_mode],
        storage=FileStore(str(tmp_path)),
        initial_state={"currentModelId": "x/y", "projectPath": f"/home/{SECRET}"},
        resolve_model=lambda _: Model(),
        environ={"MY_API_KEY": SECRET},
    )
    await harness.init()
    thread = await harness.create_thread(title=f"with {SECRET}")
    assert thread.title == "with [REDACTED:MY_API_KEY]"
    await harness.session.thread.set_setting(key="key", value={"deep": [SECRET]})
    await harness.send_message(content=f"my {SECRET}")
    await harness.rename_thread(title=f"another {SECRET}")
    bound = harness.session.thread.current
    assert bound is not None
    bound.metadata.prompt = f"said {SECRET}"
    bound.save()
    await harness.destroy()
    assert FileStore(str(tmp_path)).metadata(thread.id).name == "another [REDACTED:MY_API_KEY]"
    assert files_with(SECRET, tmp_path) == []


@in_loop
async def test_a_thread_is_deleted_with_the_hidden_threads_of_its_sub_agents(storage: StoreMaker) -> None:
    model = Model(call("subagent", agentType="scout", task="look", forked=True))
    scout = Subagent(id="scout", name="Scout", description="Looks.", instructions="Look.")
    options: dict[str, Any] = {"memory": Memory(), "initial_state": YOLO, "subagents": [scout]}
    store = storage.open()
    async with opened(model, storage=store, **options) as (harness, _):
        thread = await harness.create_thread()
        await harness.send_message(content="private words")
        other = await harness.create_thread()
        threads = harness.session.thread.list(include_forked_subagents=True)
        assert len(threads) == 3
        await harness.memory.delete_thread(thread_id=thread.id)
        left = [one.session_id for one in store.list() if one.resource_id == "h"]
        assert left == [other.id]
        with pytest.raises(UnknownSession):
            store.snapshot(thread.id, "session")


@in_loop
async def test_the_session_of_the_harness_s_own_resource_is_its_own_session() -> None:
    async with opened(resource_id="ann") as (harness, _):
        assert harness.create_session() is harness.create_session(resource_id="ann") is harness.session
        assert harness.sessions() == [harness.session]
        assert harness.create_session(scope="editor") is not harness.session
        await harness.set_resource_id(resource_id="bob")
        assert harness.create_session(resource_id="bob") is harness.session
        assert harness.create_session(resource_id="ann") is not harness.session


@in_loop
async def test_files_may_be_bytes_and_what_is_no_file_is_refused() -> None:
    model = Model()
    async with opened(model) as (harness, _):
        files: list[Any] = [
            {"data": b"\x89PNG", "mediaType": "image/png"},
            {"data": "täxt".encode(), "mediaType": "text/plain", "filename": "a.txt"},
        ]
        await harness.send_message(content="look", files=files)
        assert model.asked[-1][0][-1].attachments[0].data == "iVBORw=="  # type: ignore[union-attr]
        assert "täxt" in model.heard()[-1]
        for bad in ({"data": "x"}, {"data": 3, "mediaType": "image/png"}):
            with pytest.raises(UsageError, match="not a file: "):
                await harness.send_message(content="look", files=[bad])
