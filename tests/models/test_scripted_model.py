"""The scripted model: deterministic, from Python or from a file, and honest about its end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.model import Ask, AssistantTurn, ToolTurn, UserTurn
from harness.contracts.script import Script, ScriptText, ScriptTurn
from harness.errors import UsageError
from harness.events import (
    Error,
    Message,
    ReasoningDelta,
    StepEnd,
    TextDelta,
    ToolInputDelta,
    Usage,
    UsageDelta,
)
from harness.models.registry import open_model
from harness.models.script_file import parse_turn, read_script
from harness.models.scripted import Scripted
from model_asking import HELLO, all_of, ask, collect, kinds, only, text_of

LOOK = {
    "events": [
        {"type": "reasoning", "content": "Hm."},
        {"type": "text", "content": "Let me look.", "pieces": 3},
        {"type": "tool_call", "id": "tc-1", "name": "read", "input": {"path": "a.txt"}},
        {"type": "usage", "inputTokens": 9, "outputTokens": 4, "cacheReadTokens": 2},
    ]
}
TOML = """
pause_ms = 1

[[responses]]
events = [{ type = "text", content = "One.", pieces = 2 }]

[[lanes]]
marker = "COUNT"
responses = [{ events = [{ type = "text", content = "Two." }], stop_reason = "length" }]
"""


def test_a_response_becomes_the_events_of_an_answer() -> None:
    events = ask(Scripted([LOOK]))
    assert text_of(events, ReasoningDelta) == "Hm."
    assert [event.text for event in all_of(events, TextDelta)] == ["Let ", "me l", "ook."]
    assert only(events, ToolInputDelta).call_id == "tc-1"
    assert only(events, Message).parts == [
        {"type": "tool_call", "id": "tc-1", "name": "read", "input": {"path": "a.txt"}}
    ]
    assert only(events, UsageDelta).usage == Usage(input=7, output=4, cache_read=2)
    assert kinds(events)[-3:] == ["Message", "UsageDelta", "StepEnd"]
    assert only(events, StepEnd).stop_reason == "tool_calls"


def test_each_call_takes_the_next_response_until_there_is_none() -> None:
    model = Scripted(
        ["one", ScriptTurn(parts=(ScriptText(text="two"),)), lambda asked: asked.turns[-1].text * 2]
    )
    texts = [only(ask(model), Message).text for _ in range(3)]
    assert texts == ["one", "two", "hellohello"]
    events = ask(model)
    assert kinds(events) == ["Error", "StepEnd"]
    assert only(events, Error).message == "no scripted response at index 3"
    assert only(events, StepEnd).stop_reason == "error"


def test_an_error_ends_its_response() -> None:
    response = {
        "events": [*LOOK["events"][:2], {"type": "error", "message": "boom", "code": "x"}, LOOK["events"][3]]
    }
    events = ask(Scripted([response]))
    assert (only(events, Error).message, only(events, Error).code) == ("boom", "x")
    assert kinds(events)[-2:] == ["Error", "StepEnd"]
    assert all_of(events, Message) == []


def test_arguments_can_be_what_no_object_is() -> None:
    response = {"events": [{"type": "tool_call", "name": "read", "input": '{"path":'}]}
    (part,) = only(ask(Scripted([response])), Message).parts or []
    assert part["input"]["__toolParseError"] is True
    assert part["id"].startswith("call_")


def test_a_file_may_be_toml_or_json_and_have_lanes(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TOML)
    model = open_model(f"scripted/{tmp_path}/a.toml", {})
    counted = ask(model, Ask(turns=[UserTurn("please COUNT")]))
    assert (only(counted, Message).text, only(counted, StepEnd).stop_reason) == ("Two.", "length")
    assert len(all_of(ask(model), TextDelta)) == 2
    (tmp_path / "a.json").write_text('{"responses": [{"events": [{"type": "text", "content": "Hi."}]}]}')
    assert only(ask(open_model(f"scripted/{tmp_path}/a.json", {})), Message).text == "Hi."


@pytest.mark.parametrize(
    ("text", "emitted"),
    [
        ("{", "bad.json:1: not JSON"),
        ('{"responses": [{"events": [{"type": "song"}]}]}', "song"),
        ('{"responses": [{"events": [{"type": "text"}]}]}', "content"),
        ('{"answers": []}', "answers"),
    ],
)
def test_a_file_that_is_no_script_is_a_mistake_of_the_caller(tmp_path: Path, text: str, emitted: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=emitted):
        open_model(f"scripted/{path}", {})
    with pytest.raises(UsageError, match="cannot read the script"):
        open_model("scripted/missing.json", {})
    with pytest.raises(UsageError, match="cannot be read"):
        Scripted([{"events": 7}])


def test_many_may_ask_at_once_and_each_gets_another_response() -> None:
    async def many(model: Scripted) -> Any:
        return await asyncio.gather(*(collect(model, HELLO) for _ in range(50)))

    answers = asyncio.run(many(Scripted([str(number) for number in range(50)], pause_ms=1)))
    assert sorted(int(only(events, Message).text) for events in answers) == list(range(50))


def test_a_script_that_goes_by_the_conversation_forgets_nothing_and_remembers_nothing() -> None:
    async def said(model: Scripted, answers: int) -> str:
        turns = [UserTurn("hi"), *(AssistantTurn("so") for _ in range(answers))]
        return "".join([e.text async for e in model.answer(Ask(turns=turns)) if isinstance(e, TextDelta)])

    for _ in range(2):
        model = Scripted(["one", "two"], goes_by="conversation")
        assert [asyncio.run(said(model, count)) for count in (1, 0, 1, 2, 3)] == [
            "two",
            "one",
            "two",
            "one",
            "two",
        ]


def test_the_demo_is_part_of_the_package() -> None:
    assert open_model("scripted/demo", {}).name == "scripted/demo"


NEW = """
pause_ms = 1
order = "arrival"
turns = [{ text = "One.", pieces = 2 }]

[lanes.lane-1]
marker = "COUNT"
order = "arrival"
turns = [[{ text = "Two." }, { stop = "length" }]]
"""


def test_a_file_of_the_old_spelling_is_the_same_script(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(TOML)
    (tmp_path / "new.toml").write_text(NEW)
    old, new = (read_script(f"{tmp_path}/{name}.toml") for name in ("old", "new"))
    assert old.pause_ms == new.pause_ms

    def plain(script: Script) -> Any:
        return {
            name: (one.marker, one.order, [(turn.parts, turn.usage, turn.stop) for turn in one.turns])
            for name, one in script.conversations.items()
        }

    assert plain(old) == plain(new)


def test_parts_of_the_old_spelling_are_the_same_parts() -> None:
    turn = [
        {"reasoning": "Hm."},
        {"text": "Let me look.", "pieces": 3},
        {"tool": "read", "input": {"path": "a.txt"}, "id": "tc-1", "literal": True},
        {"usage": {"input": 7, "output": 4, "cache_read": 2}},
    ]
    old, new = parse_turn(LOOK), parse_turn(turn)
    assert (old.parts, old.usage) == (new.parts, new.usage)
    failed = parse_turn(
        {"events": [{"type": "error", "message": "boom", "code": "x"}], "stop_reason": "other"}
    )
    assert failed.parts == parse_turn({"error": "boom", "code": "x"}).parts
    assert failed.stop == "other"


def test_what_one_turn_used_several_times_is_added_up() -> None:
    used = {"type": "usage", "inputTokens": 9, "cacheReadTokens": 2}
    assert parse_turn({"events": [used, used]}).usage == Usage(input=14, cache_read=4)
    assert parse_turn("Hello.").usage == Usage()


def test_an_input_takes_what_the_latest_results_hold() -> None:
    turns = [
        UserTurn("go"),
        AssistantTurn(""),
        ToolTurn("1", "old 1"),
        AssistantTurn(""),
        ToolTurn("2", "id 42"),
    ]
    model = Scripted([{"tool": "stop", "input": {"id": r"{{id (\d+)}}", "all": r"{{all \d+}}"}}])
    (part,) = only(ask(model, Ask(turns=turns)), Message).parts or []
    assert part["input"] == {"id": 42, "all": [42]}
    literal = Scripted([{"tool": "stop", "input": {"id": "{{x}}"}, "literal": True}])
    (part,) = only(ask(literal, Ask(turns=turns)), Message).parts or []
    assert part["input"] == {"id": "{{x}}"}


def test_a_file_goes_by_the_conversation_and_ends_or_repeats_or_starts_over(tmp_path: Path) -> None:
    def said(options: str) -> list[str]:
        path = tmp_path / "script.toml"
        path.write_text(options + '\nturns = [{ text = "one" }, { text = "two" }]\n')
        model = open_model(f"scripted/{path}", {})
        asked = [Ask(turns=[UserTurn("hi"), *[AssistantTurn("so")] * count]) for count in (1, 0, 2, 3)]
        return [text_of(ask(model, one), TextDelta) for one in asked]

    assert said("") == ["two", "one", "", ""]
    assert said("repeat_last = true") == ["two", "one", "two", "two"]
    assert said("start_over = true") == ["two", "one", "one", "two"]
    assert said('order = "arrival"') == ["one", "two", "", ""]


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"call": "run", "command": "ls"}, "a call by intent needs an agent"),
        ({"fault": "429"}, "a fault needs a server"),
    ],
)
def test_what_only_the_lab_can_do_is_refused(tmp_path: Path, part: dict[str, str], reason: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"turns": [part]}))
    with pytest.raises(UsageError, match=f"script.json:1: {reason}") as caught:
        open_model(f"scripted/{path}", {})
    assert "harness lab serve" in (caught.value.hint or "")
