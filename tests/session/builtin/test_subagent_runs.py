"""Sub-agents of a session: afresh in the same thread, or on a fork of it, which the parent's thread knows nothing of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.contracts.model import AssistantTurn, ToolTurn, UserTurn
from harness.events import Forked, Message, SessionStart
from harness.lab.script_run import ScriptRun
from harness.lab.server import LabServer
from harness.log.stores.files import FileStore
from harness.models.registry import open_model
from harness.models.script_file import parse_script
from harness.session.config import Subagent
from harness.session.memory.config import Memory
from harness_kit import Model, call, log_of, opened
from running_kit import YOLO, Gate, Live, check, ends, halting, in_loop, plain, started, texts, waiting

EXPLORE = Subagent(
    id="explore", name="Explore", description="Looks.", instructions="You explore.", default_model_id="sub"
)


def spawn(task: str = "look around", **more: Any) -> dict[str, Any]:
    return call("subagent", id="s1", agentType="explore", task=task, **more)


def models(parent: Model, child: Model) -> Any:
    return lambda model_id: child if model_id == "sub" else parent


@in_loop
async def test_a_fresh_one_works_in_the_thread_and_is_reported() -> None:
    parent = Model(spawn(), "It found things.")
    child = Model(call("peek"), "Things.", name="sub")
    options: dict[str, Any] = {
        "subagents": [Subagent(**{**_fields(EXPLORE), "tools": [plain("peek", "a file")]})],
        "resolve_model": models(parent, child),
    }
    async with opened(parent, **options, initial_state=YOLO) as (harness, record):
        await harness.send_message(content="explore")
        of_child = [data for data in record.wire if data["type"].startswith("subagent_")]
        assert [data["type"] for data in of_child] == [
            "subagent_start",
            "subagent_tool_start",
            "subagent_tool_end",
            "subagent_text_delta",
            "subagent_end",
        ]
        start, tool_start, tool_end, text, end = of_child
        assert {start["agentType"], start["task"], start["modelId"]} == {"explore", "look around", "sub"}
        assert (tool_start["subToolName"], tool_end["subToolResult"]) == ("peek", "a file")
        assert text["textDelta"] == "Things."
        assert (end["result"], end["isError"]) == ("Things.", False)
        assert len({data["toolCallId"] for data in of_child}) == 1
        assert (len(record.named("agent_start")), ends(record)) == (1, ["complete"])
        assert child.system() == "You explore."
        assert child.received() == ["look around"]
        assert parent.results() == ["Things."]
        assert "tool_approval_required" not in record.types
        check(harness, log_of(harness))


def _fields(subagent: Subagent) -> dict[str, Any]:
    return {name: getattr(subagent, name) for name in Subagent.__struct_fields__}


@in_loop
async def test_its_model_is_the_one_that_was_chosen_for_its_type() -> None:
    asked: list[str] = []
    parent, child = Model(spawn(), "Fine."), Model("Things.", name="chosen/one")

    def resolve(model_id: str) -> Model:
        asked.append(model_id)
        return child if model_id == "chosen/one" else parent

    async with opened(parent, subagents=[EXPLORE], resolve_model=resolve, initial_state=YOLO) as (
        harness,
        record,
    ):
        await harness.session.subagents.model.set(model_id="chosen/one", agent_type="explore")
        await harness.send_message(content="explore")
        assert record.named("subagent_start")[0]["modelId"] == "chosen/one"
        assert "chosen/one" in asked


@in_loop
async def test_stopping_the_run_stops_it_and_what_it_said_is_its_result() -> None:
    gate = Gate()
    parent, child = Live(spawn(), "Later."), Live(halting(gate, "Half a"), name="sub")
    options = {"subagents": [EXPLORE], "resolve_model": models(parent, child)}
    async with opened(parent, **options, initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="explore"))
        await gate.come()
        harness.abort()
        await first
        assert ends(record) == ["aborted"]
        assert harness.session.display_state.get().active_subagents == {}
        await harness.send_message(content="what came of it?")
        assert parent.results()[0] == "[Aborted by user]\n\nPartial output:\nHalf a"
        check(harness, log_of(harness))


def forking(**more: Any) -> tuple[Model, dict[str, Any]]:
    """A model that forks itself in its second run, and a harness for it."""
    model = Model("I am here.", spawn("try it", forked=True), call("peek", id="p"), "Tried.", "It was tried.")
    options: dict[str, Any] = {
        "subagents": [EXPLORE],
        "tools": [plain("peek", "a file")],
        "memory": Memory(),
        "instructions": "Be careful.",
        "initial_state": YOLO,
    }
    return model, options | more


@in_loop
async def test_a_forked_one_is_reported_like_any_other() -> None:
    model, options = forking()
    async with opened(model, **options) as (harness, record):
        await harness.send_message(content="hello")
        await harness.send_message(content="fork")
        of_child = [data for data in record.wire if data["type"].startswith("subagent_")]
        assert [data["type"] for data in of_child] == [
            "subagent_start",
            "subagent_tool_start",
            "subagent_tool_end",
            "subagent_text_delta",
            "subagent_end",
        ]
        first, last = of_child[0], of_child[-1]
        assert (first["forked"], first["task"], first["modelId"]) == (True, "try it", "test/model")
        assert (last["result"], last["isError"]) == ("Tried.", False)
        assert (len(record.named("agent_start")), ends(record)) == (2, ["complete", "complete"])
        assert texts(record)[-1] == "It was tried."
        assert harness.session.internals.bus._forks == {}


@in_loop
async def test_a_fork_is_sent_the_very_same_beginning() -> None:
    model, options = forking()
    async with opened(model, **options) as (harness, _):
        await harness.send_message(content="hello")
        await harness.send_message(content="fork")
        asked, forked = model.asked[1], model.asked[2]
        assert forked[1] == asked[1]
        assert forked[2] == asked[2]
        assert forked[0][: len(asked[0])] == asked[0]
        answer, result, task = forked[0][len(asked[0]) :]
        assert isinstance(answer, AssistantTurn)
        assert isinstance(result, ToolTurn)
        assert isinstance(task, UserTurn)
        assert task.text.startswith("try it\n\n")


@in_loop
async def test_a_fork_leaves_the_thread_alone_and_is_hidden(tmp_path: Path) -> None:
    model, options = forking(storage=FileStore(str(tmp_path)))
    async with opened(model, **options) as (harness, _):
        await harness.send_message(content="hello")
        await harness.send_message(content="fork")
        events = log_of(harness)
        [fork] = [event for event in events if isinstance(event, Forked)]
        assert not [event for event in events if isinstance(event, SessionStart) and event.parent_id]
        assert not [event for event in events if isinstance(event, Message) and event.text == "Tried."]
        check(harness, events)
        assert [thread.id for thread in harness.session.thread.list()] == [harness.session.thread.get_id()]
        hidden = harness.session.thread.list(include_forked_subagents=True)
        [side] = [thread for thread in hidden if thread.id == fork.log_id]
        assert side.title == "Fork: Explore subagent"
        assert side.metadata is not None
        assert side.metadata["forkedSubagent"] is True
        assert side.metadata["parentThreadId"] == harness.session.thread.get_id()


@in_loop
async def test_two_forks_at_once_are_distinguished_and_to_their_ends() -> None:
    both = {
        "events": [
            {
                "type": "tool_call",
                "name": "subagent",
                "id": id,
                "input": {"agentType": "explore", "task": id, "forked": True},
            }
            for id in ("a", "b")
        ]
    }
    model = Live(both, "One.", "Two.", "Both.")
    async with opened(model, subagents=[EXPLORE], memory=Memory(), initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        ended = {data["toolCallId"]: data["result"] for data in record.named("subagent_end")}
        said = {data["toolCallId"]: data["textDelta"] for data in record.named("subagent_text_delta")}
        assert sorted(ended.values()) == ["One.", "Two."]
        assert said == ended
        assert harness.session.internals.bus._forks == {}


@in_loop
async def test_a_fork_is_stopped_with_its_parent() -> None:
    gate = Gate()
    model = Live(spawn("try", forked=True), call("work"), "Never.")
    options: dict[str, Any] = {"subagents": [EXPLORE], "tools": [waiting(gate)], "memory": Memory()}
    async with opened(model, **options, initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        harness.abort()
        await first
        assert gate.was_stopped
        assert ends(record) == ["aborted"]
        assert len(record.named("subagent_end")) == 1
        check(harness, log_of(harness))


@in_loop
async def test_a_fork_shows_its_model_what_the_memory_showed_to_the_parent() -> None:
    """With the memory at work the parent sees notes in place of messages; its fork must see the very same."""
    notes = "<observations>\n* (10:00) The user said hello.\n</observations>"
    long = "word " * 400
    model = Live(f"First {long}", call("peek", id="p"), spawn("try", forked=True), "Tried.", "Done.")
    observer = Model(notes, notes, notes, name="observer")

    def resolve(model_id: str) -> Model:
        return observer if model_id.startswith("google/") else model

    memory = Memory(observational={"observation": {"messageTokens": 200, "bufferTokens": False}})
    options: dict[str, Any] = {"subagents": [EXPLORE], "tools": [plain("peek", long)], "memory": memory}
    async with opened(resolve_model=resolve, initial_state=YOLO, **options) as (harness, record):
        await harness.send_message(content="hello")
        await harness.send_message(content="go")
        assert record.named("om_observation_end")
        asked, forked = model.asked[2], model.asked[3]
        assert any("The user said hello." in getattr(turn, "text", "") for turn in asked[0])
        assert forked[0][: len(asked[0])] == asked[0]
        assert len(forked[0]) == len(asked[0]) + 3


@in_loop
async def test_without_a_memory_there_are_no_forks_and_the_model_learns_it() -> None:
    model = Model(spawn("try", forked=True), "Then not.")
    async with opened(model, subagents=[EXPLORE], initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        assert "need a memory" in model.results()[0]
        assert record.named("tool_end")[0]["isError"] is True
        assert ends(record) == ["complete"]


@in_loop
async def test_the_request_of_a_fork_that_reaches_a_server_begins_like_that_of_its_parent() -> None:
    task = {"content": "Try", "status": "in_progress", "activeForm": "Trying"}
    turns = [
        {"tool": "task_write", "input": {"tasks": [task]}},
        {"text": "Hello."},
        [
            {"text": "I fork."},
            {"tool": "subagent", "input": {"agentType": "explore", "task": "try", "forked": True}},
        ],
        {"text": "Done."},
    ]
    script = parse_script({"turns": turns, "side": {"toolless": False}})
    with LabServer(ScriptRun(script)) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "test-key-0123456789abcdef"}
        options: dict[str, Any] = {
            "subagents": [EXPLORE],
            "memory": Memory(),
            "instructions": "Be careful.",
            "resolve_model": lambda _id: open_model("anthropic/claude-sonnet-4-6", environ),
        }
        async with opened(**options, initial_state=YOLO) as (harness, record):
            await harness.send_message(content="hello")
            await harness.send_message(content="fork")
            assert record.named("subagent_end")[0]["result"] == "Done."
        bodies = [entry.body for entry in server.requests if entry.outcome == "answered"]
        assert server.faults == []
    before, in_fork = bodies[2], bodies[3]
    assert "current-task-list" in str(before["messages"])
    for name in ("model", "max_tokens", "system", "tools"):
        assert msgspec.json.encode(in_fork[name]) == msgspec.json.encode(before[name])
    beginning = in_fork["messages"][: len(before["messages"])]
    assert msgspec.json.encode(_unmarked(beginning)) == msgspec.json.encode(_unmarked(before["messages"]))


def _unmarked(value: Any) -> Any:
    """How far to cache changes each time."""
    if isinstance(value, dict):
        return {name: _unmarked(inner) for name, inner in value.items() if name != "cache_control"}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value
