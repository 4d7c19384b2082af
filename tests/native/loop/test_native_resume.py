"""The agent of our own continues an earlier session: a new log, the same conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import FileStore, Request, Run, start
from harness.contracts.model import Ask, AssistantTurn, ToolTurn, UserTurn
from harness.events import Error, Message, Result, SessionStart
from harness.log.hub import Hub
from harness.log.store import Metadata, read_all

RECORDING = Path(__file__).parents[2] / "agents" / "claude" / "2.1.325" / "shell" / "stdout.jsonl"


@pytest.fixture(autouse=True)
def lone_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The turns of every model call, without the system prompt."""
    from harness.models.scripted import Scripted

    seen: list[list[Any]] = []
    answer = Scripted.answer

    def remembering(self: Scripted, ask: Ask) -> Any:
        seen.append(list(ask.turns[1:]))
        return answer(self, ask)

    monkeypatch.setattr(Scripted, "answer", remembering)
    return seen


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = FileStore(str(folder / "sessions"))
        (folder / "work").mkdir()

    def run(self, prompt: str, *answers: Any, hub: Hub | None = None, **options: Any) -> Run:
        script = self.folder / "script.json"
        events = [
            [{"type": "text", "content": answer}] if isinstance(answer, str) else [answer]
            for answer in answers
        ]
        script.write_bytes(msgspec.json.encode({"responses": [{"events": one} for one in events]}))
        options.setdefault("cwd", str(self.folder / "work"))
        request = Request(agent="native", model=f"scripted/{script}", prompt=prompt, **options)
        run = start(request, store=self.store, hub=hub)
        run.wait()
        return run

    def failure(self, run: Run) -> str:
        assert run.wait().outcome == "spawn_failed"
        [error] = [event for event in run if isinstance(event, Error)]
        return error.message


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("how", ["resume", "prefix", "continue"])
def test_it_continues_where_it_was(how: str, world: World, asked: list[list[Any]]) -> None:
    call = {"type": "tool_call", "id": "c", "name": "bash", "input": {"command": "echo hi"}}
    first = world.run("one", call, "done")
    asked.clear()
    wanted: dict[str, dict[str, Any]] = {
        "resume": {"resume": first.id},
        "prefix": {"resume": first.id[:30]},
        "continue": {"continue_last": True},
    }
    second = world.run("two", "sure", **wanted[how])

    assert [type(turn) for turn in asked[0]] == [UserTurn, AssistantTurn, ToolTurn, AssistantTurn, UserTurn]
    assert (asked[0][0].text, asked[0][3].text, asked[0][4].text) == ("one", "done", "two")
    assert second.id != first.id
    events = list(second)
    assert isinstance(events[0], SessionStart)
    assert events[0].session_id == first.id
    assert [event.text for event in events if isinstance(event, Message)] == ["two", "sure"]
    assert isinstance(events[-1], Result)


def test_a_new_file_in_the_folder_changes_nothing_of_what_the_model_has_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.models.scripted import Scripted

    asks: list[Ask] = []
    answer = Scripted.answer

    def remembering(self: Scripted, ask: Ask) -> Any:
        asks.append(ask)
        return answer(self, ask)

    monkeypatch.setattr(Scripted, "answer", remembering)
    first = world.run("one", "1")
    (world.folder / "work" / "new.txt").write_text("")
    second = world.run("two", "2", resume=first.id)
    world.run("three", "3", resume=second.id)
    assert "new.txt" not in asks[0].turns[0].text
    assert {ask.turns[0].text for ask in asks} == {asks[0].turns[0].text}
    assert {ask.conversation_id for ask in asks} == {first.id}
    world.run("other", "4")
    assert "new.txt" in asks[-1].turns[0].text
    assert asks[-1].conversation_id != first.id


def test_it_knows_its_to_do_list_when_it_continues(world: World, asked: list[list[Any]]) -> None:
    todos = [{"content": "Look", "status": "completed"}, {"content": "Mend", "status": "in_progress"}]
    first = world.run(
        "one", {"type": "tool_call", "id": "c", "name": "todo", "input": {"todos": todos}}, "more later"
    )
    asked.clear()
    world.run("two", "sure", resume=first.id)

    assert asked[0][1].calls[0].input == {"todos": todos}
    assert asked[0][2].text == "The list is kept: 1 of 2 completed.\nin progress: Mend"
    assert not asked[0][2].is_error


def test_a_session_of_three_logs_is_one_conversation(world: World, asked: list[list[Any]]) -> None:
    first = world.run("one", "1")
    second = world.run("two", "2", resume=first.id)
    world.run("three", "3", resume=second.id)
    world.run("another", "x")
    world.run("four", "4", resume=first.id)

    assert [turn.text for turn in asked[2]] == ["one", "1", "two", "2", "three"]
    assert [turn.text for turn in asked[4]] == ["one", "1", "two", "2", "three", "3", "four"]


def test_it_continues_with_what_another_agent_did(world: World, asked: list[list[Any]]) -> None:
    request = Request(agent="replay", recording=str(RECORDING), extra_args=("--fast",))
    claude = start(request, store=world.store)
    claude.wait()
    run = world.run("go on", "sure", resume=claude.id)

    assert isinstance(asked[0][0], UserTurn)
    assert any(isinstance(turn, ToolTurn) for turn in asked[0])
    assert asked[0][-1] == UserTurn("go on")
    assert next(iter(run)).session_id == run.id


def test_latest_means_the_latest_in_this_directory(world: World, asked: list[list[Any]]) -> None:
    world.run("here", "1")
    other = world.folder / "other"
    other.mkdir()
    world.run("there", "2", cwd=str(other))
    world.run("again", "3", continue_last=True)

    assert [turn.text for turn in asked[2]] == ["here", "1", "again"]


def test_a_session_that_is_not_there_is_how_the_run_ended(world: World) -> None:
    assert "unknown session: nobody" in world.failure(world.run("go", "x", resume="nobody"))
    empty = world.folder / "empty"
    empty.mkdir()
    words = world.failure(world.run("go", "x", continue_last=True, cwd=str(empty)))
    assert f"there is no earlier session in {empty}" in words


def test_inside_a_thread_it_continues_with_the_thread(world: World, asked: list[list[Any]]) -> None:
    hub = Hub(world.store, "thread", world.store.create(Metadata(session_id="thread", kind="thread")))
    first = world.run("one", "1", hub=hub)
    second = world.run("two", "2", hub=hub, resume=first.id)
    hub.close()

    assert [turn.text for turn in asked[1]] == ["one", "1", "two"]
    starts = [event for event in read_all(world.store, "thread") if isinstance(event, SessionStart)]
    assert [(event.run_id, event.session_id) for event in starts] == [
        (first.id, first.id),
        (second.id, first.id),
    ]
