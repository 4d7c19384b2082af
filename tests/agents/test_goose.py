"""Goose, where recordings do not reach: command lines, older formats, and rules said one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import recorded_runs
from agent_runs import of
from goose_lines import COMPLETE, answer, call, message, play, text
from harness.agents.goose.acp import GooseAcp
from harness.agents.goose.agent import command
from harness.contracts.request import Limits, Request
from harness.events import (
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
    TextDelta,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Fetch, List, Read, Search, Skill, Spawn, Write
from harness.events.run import Task
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline
from harness.testing.golden import Case, translate
from harness.views.activity import Activities

CASES = {str(case): case for case in recorded_runs.CASES}
ALWAYS = ("run", "--output-format", "stream-json")


def operations(*lines: Any) -> list[Any]:
    events = play(*lines, COMPLETE)
    ends = of(ToolEnd, events)
    return [
        operation
        for start, end in zip(of(ToolStart, events), ends, strict=True)
        for operation in (start.operations if end.operations is None else end.operations)
    ]


@pytest.mark.parametrize(
    ("request_", "args", "env"),
    [
        (Request(agent="goose"), ("--with-builtin", "developer"), {"GOOSE_MODE": "auto"}),
        (Request(agent="goose", permissions="read-only"), (), {"GOOSE_MODE": "chat"}),
        (Request(agent="goose", permissions="agent-default"), (), {}),
        (
            Request(
                agent="goose",
                permissions="agent-default",
                model="gpt-4o",
                append_system_prompt="be brief",
                limits=Limits(max_turns=3),
                resume="20261115_1",
                extra_args=("--provider", "openai"),
            ),
            (
                *("--model", "gpt-4o", "--system", "be brief", "--max-turns", "3"),
                *("--resume", "--session-id", "20261115_1", "--provider", "openai"),
            ),
            {},
        ),
        (
            Request(agent="goose", permissions="agent-default", resume="my session"),
            ("--resume", "--name", "my session"),
            {},
        ),
        (Request(agent="goose", permissions="agent-default", continue_last=True), ("--resume",), {}),
    ],
)
def test_a_request_becomes_a_command_line(
    request_: Request, args: tuple[str, ...], env: dict[str, str]
) -> None:
    line = command(request_, ())

    assert line.args == (*ALWAYS, *args, "--instructions", "-")
    assert line.env == env


def test_the_prompt_goes_through_stdin() -> None:
    assert command(Request(agent="goose", prompt="--grüße"), ()).stdin == "--grüße".encode()


@pytest.mark.parametrize(
    ("case", "usage"),
    [
        ("1.37.0/hello", Usage(input=1200, output=40)),
        ("1.37.0/shell-fileops", Usage(input=8 * 1200, output=8 * 40)),
        ("1.37.0/delegate-async", Usage(input=3 * 1200, output=3 * 40)),
        ("1.37.0/reasoning-anthropic", Usage(input=2 * 1200 + 300 + 50, output=80)),
        ("1.37.0/error-401", None),
        ("1.52.0/hello", Usage(input=1200, output=40, cache_read=0, cache_write=0, cost_usd=0.0034)),
        ("1.52.0/reasoning-openai", Usage(input=2100, output=80, cache_read=300, cache_write=0)),
        ("1.52.0/reasoning-anthropic", Usage(input=2400, output=80, cache_read=300, cache_write=50)),
        # With the two model calls of the sub-agent.
        ("1.52.0/delegate-async", Usage(input=5 * 1200, output=5 * 40, cache_read=0, cache_write=0)),
        ("1.52.0/error-429", Usage(input=0, output=0, cache_read=0, cache_write=0)),
    ],
)
def test_usage_is_what_the_model_was_scripted_to_use(case: str, usage: Usage | None) -> None:
    _, events = translate(CASES[f"goose/{case}"])
    result = of(Result, events)[-1]
    reported = result.usage

    if usage is None:
        assert reported is None
        return
    classes = ("input", "output", "cache_read", "cache_write", "reasoning")
    assert [getattr(reported, name) for name in classes] == [getattr(usage, name) for name in classes]
    added = Usage()
    for delta in of(UsageDelta, events):
        added = added.plus(delta.usage)
    assert added in (reported, Usage())
    assert (reported.cost_source == "stated") == (reported.cost_usd is not None)


def test_the_usage_of_a_resumed_session_is_flagged() -> None:
    for case in ("1.37.0/resume", "1.52.0/resume"):
        _, events = translate(CASES[f"goose/{case}"])
        assert "usage_cumulative" in [warning.code for warning in of(Warning, events)]


@recorded_runs.each([case for case in CASES.values() if case.agent == "goose"])
def test_nothing_in_a_recording_is_unknown(case: Case) -> None:
    _, events = translate(case)

    assert not of(Unknown, events)


def test_records_without_metadata_may_state_the_whole_text_again() -> None:
    def record(words: str) -> dict[str, Any]:
        return {"type": "message", "message": {"id": "m", "role": "assistant", "content": [text(words)]}}

    events = play(record("hel"), record("hello"), record("hello"), record(" you"), COMPLETE)

    assert [delta.text for delta in of(TextDelta, events)] == ["hel", "lo", " you"]
    assert of(Message, events)[-1] == Message(role="assistant", text="hello you", id="m")


def test_pieces_are_never_taken_for_the_whole_text() -> None:
    pieces = ["ha", "ha", "ha", "haha", "!"]
    events = play(*(message(text(piece)) for piece in pieces), COMPLETE)

    assert of(Result, events)[-1].text == "hahahahaha!"
    assert {delta.id for delta in of(TextDelta, events)} == {"m1"}


def test_text_around_a_call_becomes_two_messages_with_names_of_their_own() -> None:
    events = play(
        message(text("first")), call("shell", command="date"), answer(), message(text("then")), COMPLETE
    )

    said = [event for event in of(Message, events) if event.role == "assistant"]
    assert [(event.id, event.text) for event in said] == [("m1", "first"), ("m1#2", "then")]
    assert [delta.id for delta in of(TextDelta, events)] == ["m1", "m1#2"]


def test_the_banner_states_session_model_and_directory() -> None:
    new = (
        "    __( O)>  ● resuming · openai gpt-4o",
        r"   \____)    20261115_1 · /repo",
        "     L L     goose is ready",
    )
    old = (
        "resuming session | provider: openai model: gpt-4o",
        "    session id: 20261115_1",
        "    working directory: /repo",
    )
    for banner in (new, old):
        events = play(*banner, call("write", path="a"), answer(), message(text("hi")), COMPLETE)
        start = of(SessionStart, events)[0]
        assert (start.session_id, start.model, start.cwd) == ("20261115_1", "gpt-4o", "/repo")
        assert of(ToolStart, events)[0].operations == [Write(path="/repo/a")]
        assert [warning.code for warning in of(Warning, events)] == ["usage_cumulative"]


@pytest.mark.parametrize(
    ("name", "arguments", "output", "expected"),
    [
        ("text_editor", {"command": "view", "path": "a.py"}, "", Read(path="/w/a.py")),
        (
            "developer__text_editor",
            {"command": "view", "path": "/a", "view_range": [3, 9]},
            "",
            Read(path="/a", start_line=3, end_line=9),
        ),
        ("developer__text_editor", {"command": "str_replace", "path": "a"}, "", Write(path="/w/a")),
        ("read", {"path": "a", "offset": 5, "limit": 10}, "", Read(path="/w/a", start_line=5, end_line=14)),
        ("read_image", {"source": "x.png"}, "", Read(path="/w/x.png")),
        ("read_image", {"source": "https://x/y.png"}, "", Fetch(url="https://x/y.png")),
        ("tree", {"path": "src", "depth": 2}, "", List(path="/w/src")),
        ("grep", {"pattern": "x", "path": "src"}, "", Search(query="x", path="/w/src")),
        ("developer__shell", {"command": "cat a"}, "", Read(path="/w/a")),
        (
            "write",
            {"path": "a", "content": "1\n2\n"},
            "Created a (2 lines)",
            Write(path="/w/a", start_line=1, end_line=2, change="create"),
        ),
        ("load_skill", {"name": "s"}, "Skill directory: /k/s\n", Skill(path="/k/s/SKILL.md", name="s")),
        ("web_scrape", {"url": "https://x"}, "", Fetch(url="https://x")),
    ],
)
def test_a_tool_means_an_operation(name: str, arguments: dict[str, Any], output: str, expected: Any) -> None:
    assert operations(call(name, **arguments), answer(output)) == [expected]


@pytest.mark.parametrize(("name", "arguments"), [("demo__shell", {"command": "ls"}), ("shell", "ls")])
def test_what_no_tool_rule_knows_is_preserved_raw(name: str, arguments: Any) -> None:
    asked = call(name)
    asked["message"]["content"][0]["toolCall"]["value"]["arguments"] = arguments

    start = of(ToolStart, play(asked, answer(), COMPLETE))[0]

    assert start.operations == []
    assert start.raw == asked["message"]["content"][0]


@pytest.mark.parametrize(
    ("result", "success"),
    [
        ({"status": "success", "value": {"content": [], "isError": True}}, False),
        ({"status": "success", "value": {"content": [], "isError": False}}, True),
        ({"status": "success", "value": {"content": []}}, None),
        ({"status": "success", "value": {"content": [], "structuredContent": {"exit_code": 0}}}, True),
        ({"status": "success", "value": {"content": [], "structuredContent": {"exit_code": 3}}}, False),
        ({"status": "success", "value": [text("old format")]}, None),
        ({"status": "error", "error": "-32602: bad"}, False),
        ({}, None),
    ],
)
def test_the_status_of_a_result_does_not_say_whether_the_tool_succeeded(
    result: dict[str, Any], success: bool | None
) -> None:
    ended = message({"type": "toolResponse", "id": "c1", "toolResult": result}, role="user")

    assert of(ToolEnd, play(call("shell", command="x"), ended, COMPLETE))[0].success is success


def test_what_is_sent_to_the_model_and_again_to_people_is_output_once() -> None:
    contents = [
        {"type": "text", "text": "for the model", "annotations": {"audience": ["assistant"]}},
        {"type": "text", "text": "for you", "annotations": {"audience": ["user"]}},
    ]
    events = play(call("shell", command="x"), answer(content=contents), COMPLETE)

    assert of(ToolEnd, events)[0].output == "for the model"


def test_a_checklist_is_the_list_of_tasks_and_no_activity() -> None:
    content = "# Plan\n- [x] first\n- [ ] second\n  1. [~] third"
    events = play(call("todo__todo_write", content=content), answer("Updated"), COMPLETE)

    assert of(TasksChanged, events)[0].tasks == [
        Task(text="first", status="completed"),
        Task(text="second"),
        Task(text="third", status="in_progress"),
    ]
    fold = Activities()
    assert not [activity for event in events for activity in fold.feed(event)]


def test_thoughts_are_emitted_and_what_a_running_tool_reports_too() -> None:
    log = {"type": "notification", "extension_id": "c1", "log": {"message": "[subagent:2] shell"}}
    progress = {"type": "notification", "extension_id": "c1", "progress": {"progress": 1.0, "total": 3.0}}
    stray = {"type": "notification", "extension_id": "gone", "log": {"message": "hello"}}
    thought = message({"type": "thinking", "thinking": "hm", "signature": ""})
    events = play(thought, call("x__y"), log, progress, answer(), stray, COMPLETE)

    assert of(ReasoningDelta, events) == [ReasoningDelta(id="m1:thinking", text="hm")]
    assert [event.text for event in of(ToolProgress, events)] == ["[subagent:2] shell", "1/3"]
    assert of(Unknown, events) == [Unknown(raw=stray)]


def test_a_sub_agent_is_a_run_with_its_task_and_its_answer() -> None:
    reported = {"subagent_session_id": "20261115_2"}
    asked = call("delegate", instructions="count", source="reviewer")
    events = play(asked, answer("42", _meta=reported), message(text("done")), COMPLETE)

    child = of(SessionStart, events)[1]
    assert (child.run_id, child.parent_id, child.session_id) == ("c1", "c1", "20261115_2")
    assert of(Result, events)[0] == Result(run_id="c1", success=True, text="42")
    assert of(ToolEnd, events)[0].operations == [Spawn(agent_id="20261115_2", name="reviewer", task="count")]


def test_a_sub_agent_in_the_background_that_is_never_asked_for_was_interrupted() -> None:
    reported = {"subagent_session_id": "20261115_2"}
    asked = call("delegate", **{"instructions": "count", "async": True})
    events = play(asked, answer("Task started", _meta=reported), message(text("done")), COMPLETE)

    assert [(result.run_id, result.outcome) for result in of(Result, events)] == [
        ("c1", "interrupted"),
        ("", "completed"),
    ]


def test_the_answer_of_a_recipe_is_preserved_as_data() -> None:
    events = play(call("recipe__final_output", total=3), answer(), message(text('{"total":3}')), COMPLETE)

    assert of(Result, events)[-1].structured == {"total": 3}


@pytest.mark.parametrize(
    "line",
    [
        {"type": "message"},
        {"type": "message", "message": {"content": 3}},
        {"type": "notification"},
        {"type": "surprise"},
        message({"type": "hologram"}),
        message({"type": "toolRequest"}),
        answer(call_id="never"),
        "words out of nowhere",
    ],
)
def test_what_no_rule_knows_is_unknown(line: Any) -> None:
    assert len(of(Unknown, play(line, message(text("x")), COMPLETE))) == 1


def test_whatever_the_to_do_extension_does_is_no_activity() -> None:
    fold = Activities()
    events = play(call("todo__new_tool", x=1), answer("ok"), COMPLETE)

    assert not [activity for event in events for activity in fold.feed(event)]


@pytest.mark.parametrize(("case", "session_id"), [("text-tool-text", "lab"), ("hello", "20261115_1")])
def test_a_quiet_run_belongs_to_the_session_that_it_was_started_with(case: str, session_id: str) -> None:
    _, events = translate(CASES[f"goose/1.52.0/{case}"])

    assert of(SessionStart, events)[0].session_id == session_id


def _acp_turn(carried: dict[str, Any], *costs: float | None) -> tuple[float | None, dict[str, Any]]:
    """The cost of a turn over ACP in which the session states these totals, and what the next turn is given."""
    translator = GooseAcp()
    pipeline = Pipeline(translator)
    start = RawStart(at_ms=0, agent="goose", cwd="/repo", prompt="go", two_way=True, carried=carried)
    events = [*pipeline.feed(start)]
    for cost in costs:
        stated = {} if cost is None else {"cost": {"amount": cost, "currency": "USD"}}
        update = {"sessionUpdate": "usage_update", "used": 1, "size": 2, **stated}
        line = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
        events += pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=msgspec.json.encode(line) + b"\n"))
    carried = translator.carried()
    events += pipeline.feed(RawExit(at_ms=2, is_alive=True, turn="completed"))
    return of(Result, events)[0].total_cost_usd, carried


def test_every_turn_of_a_held_conversation_costs_what_it_added() -> None:
    first, carried = _acp_turn({}, None, 0.00325, 0.00325)
    second, carried = _acp_turn(carried, 0.0065, 0.00975, 0.00975)
    third, carried = _acp_turn(carried, 0.013, 0.013)
    resumed, _ = _acp_turn({}, 0.013, 0.01625)  # another process, which says what the session has cost so far

    assert (first, second, third, resumed) == (0.00325, 0.0065, 0.00325, 0.00325)
    assert carried == {"cost": 0.013}
