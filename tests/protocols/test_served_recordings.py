"""Recorded conversations with the servers of OpenCode and Kilo, as they were and with changed lines."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts.driver import NotTaken, Prompt, TurnEnded, TurnStarted
from served_dialogue import CASES, ServedDialogue, busy, play, recorded

ENDS = {
    ("opencode", "abort-in-text"): ["interrupted", "completed"],
    ("opencode", "abort-in-tool"): ["interrupted", "completed"],
    ("opencode", "all-in-one"): ["completed"] * 6,
    ("opencode", "kill-and-resume"): [],
    ("opencode", "malformed"): ["completed"],  # the recording breaks off before the second end
    ("opencode", "reject-stops"): ["completed", "completed"],
    ("opencode", "steer"): ["completed"],
    ("opencode", "subagent"): ["completed"],
    ("kilo", "abort-in-tool"): ["interrupted", "completed"],
    ("kilo", "all-in-one"): ["completed"] * 6,
    ("kilo", "steer"): ["completed"],
    ("kilo", "subagent"): ["completed"],
}


@pytest.mark.parametrize(("agent", "name"), CASES)
def test_a_recorded_conversation_is_held_in_the_same_way(agent: str, name: str) -> None:
    dialogue, differences = play(agent, name)

    # A rejection without a reason would end the turn: one is always given.
    assert [each for each in differences if not each.startswith("reply: ")] == []
    ends = [move.outcome for move in dialogue.moves if isinstance(move, TurnEnded)]
    assert ends == ENDS[agent, name]
    assert [move for move in dialogue.moves if isinstance(move, NotTaken | TurnStarted)] == []


@pytest.mark.parametrize("agent", ["opencode", "kilo"])
def test_a_recorded_steering_message_is_taken_when_the_model_answers_it(agent: str) -> None:
    dialogue, _ = play(agent, "steer")

    kinds = [type(move).__name__ for move in dialogue.moves]
    assert kinds == ["SessionKnown", "Asked", "Taken", "TurnEnded"]


@pytest.mark.parametrize("agent", ["opencode", "kilo"])
def test_a_recorded_question_of_a_sub_agent_names_it_and_the_call_that_started_it(agent: str) -> None:
    dialogue, _ = play(agent, "subagent")

    [relay] = [move.relay for move in dialogue.asked]
    assert (relay.subagent, relay.spawn_call_id) == ("general", "call_main_0_1_0")
    assert (relay.call_id, relay.tool_name) == ("call_sub_0_2_0", "bash")


@settings(deadline=None)
@given(st.sampled_from(CASES), st.integers())
def test_no_change_of_a_recorded_line_makes_the_driver_fail(case: tuple[str, str], seed: int) -> None:
    chance = random.Random(seed)
    dialogue = ServedDialogue(case[0])
    dialogue.begin(_session_of(case))
    dialogue.do(dialogue.driver.prompt(Prompt(id="p", text="go")))
    for entry in recorded(*case):
        record = {"event": entry["msg"]["type"], "data": entry["msg"]} if entry["dir"] == "event" else {}
        if entry["dir"] == "out" and isinstance(entry["msg"], dict):
            record = {
                "id": chance.randint(0, 4),
                "status": entry["msg"]["status"],
                "body": entry["msg"].get("body"),
            }
        changed = _changed(record, chance)
        if isinstance(changed, dict):
            dialogue.hears(changed)


def _session_of(case: tuple[str, str]) -> str:
    messages = [entry["msg"] for entry in recorded(*case) if entry["dir"] == "out"]
    return str(next(each["body"]["id"] for each in messages if isinstance(each, dict)))


def _changed(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.02:
        return chance.choice([None, 0, "", [], {}, True, "x", -1.5])
    if isinstance(value, dict):
        return {key: _changed(each, chance) for key, each in value.items() if chance.random() > 0.01}
    return [_changed(each, chance) for each in value] if isinstance(value, list) else value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


EVENTS = [
    *("server.connected", "transport.lost", "session.created", "session.status", "session.idle"),
    *("session.error", "session.updated", "message.updated", "message.part.updated", "message.part.delta"),
    *("permission.asked", "permission.replied", "question.asked", "question.replied", "else"),
]


@settings(deadline=None)
@given(st.sampled_from(EVENTS), JSON)
def test_whatever_an_event_holds_the_driver_does_not_fail(name: str, data: Any) -> None:
    dialogue = busy()

    dialogue.hears({"event": name, "data": data}, {"event": name, "data": {"properties": data}})
    dialogue.hears({"id": data, "status": data, "body": data})
