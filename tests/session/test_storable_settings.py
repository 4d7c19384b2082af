"""Texts that no file can hold: half characters, as names of files and arguments have them. They are stored, shown,
and cost no thread."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import StoreError
from harness.events import Event, StateChanged
from harness.folds.session.encoding import to_wire
from harness.log.codec import decode, encode
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.config import BackingAgent, Mode, Subagent
from harness.session.drivers import Drivers
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness.session.native_driver import NativeDriver
from harness.session.open_thread import OpenThread
from harness.session.thread_fold import ThreadFold
from harness_kit import Model, StoreMaker, call, log_of, make, opened, run, storage
from running_kit import in_loop

__all__ = ["storage"]

HALVES = ("\udc80.txt", "a\ud83d", "\ude00\ud83d", "\ud83d\ude00", "\ud800" * 40)
Door = Callable[[Harness, str], Awaitable[object]]


async def _answer(harness: Harness, text: str) -> None:
    await harness.send_message(content="ASK")
    await harness.respond_to_tool_suspension(resume_data=text)


async def _decline(harness: Harness, text: str) -> None:
    def listen(event: Any) -> None:
        if event.type == "tool_approval_required":
            harness.session.respond_to_tool_approval(decision="decline", reason=text)

    stop = harness.subscribe(listen)
    await harness.send_message(content="WORK")
    stop()


async def _queue(harness: Harness, text: str) -> None:
    harness.session.follow_ups.enqueue(content=text)
    await harness.session.follow_ups.send()


DOORS: dict[str, Door] = {
    "title": lambda harness, text: harness.rename_thread(title=text),
    "title of a new thread": lambda harness, text: harness.create_thread(title=text),
    "title of a clone": lambda harness, text: harness.clone_thread(title=text),
    "state": lambda harness, text: harness.session.state.set({"a": text}),
    "key of the state": lambda harness, text: harness.session.state.set({text: 1}),
    "nested key": lambda harness, text: harness.session.state.set({"a": [{text: {text: [text]}}]}),
    "setting": lambda harness, text: harness.session.thread.set_setting(key="a", value={text: text}),
    "name of a setting": lambda harness, text: harness.session.thread.set_setting(key=text, value=1),
    "message": lambda harness, text: harness.send_message(content=text),
    "name of a file": lambda harness, text: harness.send_message(
        content="", files=[{"data": b"x", "mediaType": "text/plain", "filename": text}]
    ),
    "name of a picture": lambda harness, text: harness.send_message(
        content="", files=[{"data": b"x", "mediaType": "image/png", "filename": text}]
    ),
    "follow-up": _queue,
    "steering": lambda harness, text: harness.steer(content=text),
    "answer": _answer,
    "reason": _decline,
    "notification": lambda harness, text: harness.send_notification_signal(
        {"source": text, "kind": text, "summary": text, "payload": {text: text}}
    ),
    "signal": lambda harness, text: harness.send_signal({"type": "reactive", "contents": text}),
    "attribute of a signal": lambda harness, text: harness.send_signal(
        {"type": "reactive", "contents": "x", "attributes": {"a": text}, "metadata": {text: text}}
    ),
    "reminder": lambda harness, text: harness.save_system_reminder_message(message=text, reminder_type=text),
    "model": lambda harness, text: harness.session.model.switch(model_id=text),
    "rule": lambda harness, text: harness.session.permissions.set_for_tool(tool_name=text, policy="ask"),
    "observer": lambda harness, text: harness.session.om.observer.switch_model(model_id=text),
    "sub-agent's model": lambda harness, text: harness.session.subagents.model.set(
        model_id=text, agent_type=text
    ),
    "resource": lambda harness, text: harness.set_resource_id(resource_id=text),
}


async def _goal(harness: Harness, text: str) -> None:
    harness.session.goals.set(text, prompt=text, id=text, judge_model_id=text)


DOORS["goal"] = _goal


class Talker(Model):
    """Calls what the last message asks for."""

    def answer(self, ask: Any) -> Any:
        said = getattr(ask.turns[-1], "text", "")
        responses = {"ASK": call("ask_user", question="Which?"), "WORK": call("work", text="\udc80")}
        return Model(responses.get(said, "Yes.")).answer(ask)


async def work(text: str) -> str:
    """Work."""
    return text


@pytest.mark.parametrize("door", DOORS)
def test_text_of_any_kind_passes_every_door(
    door: str, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in ("memory", "files"):
        for redact in (True, False):
            maker = StoreMaker(kind, tmp_path / f"{kind}{redact}")
            run(_pass_through, DOORS[door], maker, redact)
            maker.close()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def _pass_through(door: Door, maker: StoreMaker, redact: bool) -> None:
    """All the texts, each in a thread of its own; then once more, as another process finds the threads."""
    options: dict[str, Any] = {"tools": [work], "memory": Memory(), "redact": redact}
    seen: dict[str, tuple[Any, Any, Any]] = {}
    async with opened(Talker(), storage=maker.open(), **options) as (harness, _):
        for text in HALVES:
            thread_id = await _pass_one(harness, door, text)
            shown = [to_wire(message) for message in harness.session.thread.list_active_messages()]
            assert {"type": "text", "text": "after"} in [part for one in shown for part in one["content"]]
            logged = log_of(harness)
            assert [decode(encode(event)) for event in logged] == logged, (
                "what is shown is what is in the log"
            )
            seen[thread_id] = shown, harness.session.state.get(), harness.session.goals.get()
    async with opened(Talker(), storage=maker.open(), **options) as (harness, _):
        for thread_id, (shown, state, goal) in seen.items():
            await harness.switch_thread(thread_id=thread_id)
            assert {key: harness.session.state.get()[key] for key in state} == state
            assert harness.session.goals.get() == goal
            again = [to_wire(message) for message in harness.session.thread.list_active_messages()]
            assert again == shown
            await harness.send_message(content="once more")
        resources = harness.get_known_resource_ids()
    assert all(one.encode() for one in resources)


async def _pass_one(harness: Harness, door: Door, text: str) -> str:
    await harness.create_thread()
    await harness.send_message(content="before")
    await door(harness, text)
    await harness.session.wait_until_idle()
    if not harness.session.thread.is_set():
        await harness.create_thread()
    await harness.send_message(content="after")
    return harness.session.thread.require_id()


def test_names_of_a_harness_its_modes_and_its_agents_may_be_of_any_kind(storage: StoreMaker) -> None:
    half = "\udc80"

    async def work() -> None:
        model = Model(call("subagent", agentType=half, task=half, id=half))
        for _ in range(2):
            async with opened(
                model,
                id=half,
                storage=storage.open(),
                modes=[Mode(id=half, name=half, instructions=half, default_model_id=half)],
                agent=BackingAgent(name=half, instructions=half),
                subagents=[Subagent(id=half, name=half, description=half, instructions=half)],
                initial_state={"yolo": True, half: half},
            ) as (harness, record):
                await harness.select_or_create_thread()
                await harness.send_message(content=half)
                assert record.named("agent_end")[-1]["reason"] == "complete"
                assert len(harness.session.thread.list()) == 1

    run(work)


def test_two_resources_that_differ_by_half_a_character_stay_two(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, _):
            ids = []
            for resource in ("user\udc80", "user\udc81"):
                session = harness.create_session(resource_id=resource)
                ids.append((await session.thread.create()).id)
                assert [thread.id for thread in session.thread.list()] == ids[-1:]

    run(work)


def test_keys_that_differ_by_half_a_character_stay_two() -> None:
    event = decode(encode(StateChanged(changes=dict(zip(("a\udc80", "a\udc81"), (1, 2), strict=True)))))
    assert isinstance(event, StateChanged)
    assert sorted(event.changes.values()) == [1, 2]


@pytest.mark.parametrize("what", ["snapshot", "hub", "driver", "drivers"])
def test_a_thread_is_free_after_its_release_whatever_fails(
    what: str, storage: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise RuntimeError("no")

    async def work() -> None:
        store = storage.open()
        async with opened(storage=store) as (harness, _):
            first = await harness.create_thread()
            if what == "snapshot":
                monkeypatch.setattr(ThreadFold, "snapshot", fail)
            elif what == "driver":
                assert harness.session.internals.driver
                monkeypatch.setattr(NativeDriver, "close", fail)
            elif what == "drivers":
                monkeypatch.setattr(Drivers, "close", fail)
            else:
                close = OpenThread.close
                monkeypatch.setattr(OpenThread, "close", lambda bound: (close(bound), fail())[0])
            second = await harness.create_thread()
            await harness.switch_thread(thread_id=first.id)
            await harness.switch_thread(thread_id=second.id)
        monkeypatch.undo()
        assert not store.is_live(first.id)
        assert not store.is_live(second.id)

    run(work)


def test_an_event_that_the_store_wrote_otherwise_is_shown_as_it_was_written() -> None:
    store = MemoryStore()
    emitted: list[Event] = []

    async def work() -> None:
        async with opened(storage=store, redact=False) as (harness, _):
            await harness.create_thread()
            appended = harness.session.internals.append(StateChanged(changes={"a": "\udc80"}))
            emitted.append(appended)
            assert log_of(harness)[-1] == appended

    run(work)
    assert emitted[0].changes == {"a": "\ufffd"}  # type: ignore[attr-defined]


SECRET = "sk-abcdefghij1234567890ZZZZ"


def files_with(text: str, folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if text.encode() in path.read_bytes()]


def test_what_a_memory_store_holds_is_shared_with_no_one() -> None:
    store, given = MemoryStore(), {"deep": [1]}
    store.create(Metadata(session_id="one", settings=given)).close()
    given["deep"].append(2)
    store.metadata("one").settings["deep"].append(3)
    assert store.metadata("one").settings == {"deep": [1]}
    with pytest.raises(StoreError):
        store.create(Metadata(session_id="two", settings={"bad": object()}))
    assert [one.session_id for one in store.list()] == ["one"]


@in_loop
async def test_no_secret_gets_into_what_is_stored_beside_the_log(tmp_path: Path) -> None:
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
