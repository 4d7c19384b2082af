"""From a log to a conversation, the budget, the tools of the target, and masked secrets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handed_conversations import made_up, recorded
from harness.contracts.conversation import (
    NO_OUTPUT,
    NO_RESULT,
    HandedAnswer,
    HandedCall,
    HandedConversation,
    HandedPrompt,
)
from harness.contracts.own_tools import OwnTool, own_call
from harness.contracts.writer import origin_note
from harness.events import (
    Compacted,
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.events.operation import Command, Read, Write
from harness.folds.handed_conversation import conversation_of
from harness.histories.handover.budget import cut, size_of, within_budget
from harness.histories.handover.delivery import masked

RUN = "run"


def _log(*events: Event) -> list[Event]:
    start = SessionStart(agent="claude", version="2.1.325", session_id="s", run_id=RUN)
    return [start, *events]


def _call(call_id: str) -> ToolStart:
    return ToolStart(call_id=call_id, tool_name="Bash", input={"command": call_id}, run_id=RUN)


def _end(call_id: str, output: str | None = "done", *, success: bool | None = True) -> ToolEnd:
    return ToolEnd(call_id=call_id, tool_name="Bash", output=output, success=success, run_id=RUN)


def _said(role: Any, text: str) -> Message:
    return Message(role=role, text=text, run_id=RUN)


def _shape(conversation: HandedConversation) -> list[Any]:
    return [
        turn.text if isinstance(turn, HandedPrompt) else (turn.text, [call.output for call in turn.calls])
        for turn in conversation.turns
    ]


def test_parallel_calls_are_one_answer_and_later_ones_another() -> None:
    log = _log(
        _said("user", "go"), _said("assistant", "I look"), _call("a"), _call("b"), _end("b", "B"), _end("a", "A"),
        _call("c"), _end("c", "C"), _said("assistant", "done"), Result(success=True, run_id=RUN),
    )  # fmt: skip
    assert _shape(conversation_of(log)) == ["go", ("I look", ["A", "B"]), ("", ["C"]), ("done", [])]


def test_words_said_while_a_call_is_open_come_after_it() -> None:
    log = _log(
        _said("user", "go"), _call("a"), _said("user", "wait"), _said("assistant", "yes"), _end("a", "A")
    )
    assert _shape(conversation_of(log)) == ["go", ("", ["A"]), "wait", ("yes", [])]


def test_a_call_without_a_result_is_said_to_have_none() -> None:
    log = _log(
        _said("user", "go"),
        _call("a"),
        _call("b"),
        _end("a", None, success=None),
        Result(success=False, run_id=RUN),
    )
    conversation = conversation_of(log)
    assert [(call.output, call.has_failed) for call in conversation.calls] == [(NO_RESULT, True)] * 2
    assert conversation.losses.no_result == 2
    assert conversation_of(_log(_call("a"), _end("a", ""))).calls[0].output == NO_OUTPUT


def test_a_text_that_was_cut_off_is_there_and_reasoning_is_not() -> None:
    log = _log(
        _said("user", "go"),
        ReasoningDelta(text="secret thoughts", run_id=RUN),
        TextDelta(id="m", text="I beg", run_id=RUN),
        TextDelta(id="m", text="in", run_id=RUN),
        Result(success=False, outcome="interrupted", run_id=RUN),
    )
    conversation = conversation_of(log)
    assert _shape(conversation) == ["go", ("I begin", [])]
    assert conversation.losses.reasoning
    assert "reasoning left out" in origin_note(conversation)


def test_files_are_counted_and_calls_of_a_message_are_not() -> None:
    call, image = {"type": "tool_call", "id": "a"}, {"type": "image", "data": "AAAA"}
    said = [
        Message(role="user", text="", parts=[image], run_id=RUN),
        Message(role="assistant", text="x", parts=[call], run_id=RUN),
    ]
    conversation = conversation_of(_log(*said))
    assert conversation.losses.files == 1
    assert _shape(conversation) == ["[a file, which is left out]", ("x", [])]


def test_sub_agents_are_counted_and_left_out() -> None:
    child = SessionStart(run_id="child", parent_id=RUN)
    log = _log(_said("user", "go"), child, Message(role="assistant", text="inner", run_id="child"))
    conversation = conversation_of(log)
    assert _shape(conversation) == ["go"]
    assert conversation.losses.sub_agents == 1


def test_a_summary_stands_for_what_came_before_it() -> None:
    log = _log(_said("user", "old"), Compacted(summary="was done", run_id=RUN), _said("user", "new"))
    assert _shape(conversation_of(log)) == ["[Summary of what was said before]\n\nwas done", "new"]
    unknown = _log(_said("user", "old"), Compacted(run_id=RUN), _said("user", "new"))
    assert _shape(conversation_of(unknown)) == ["old", "new"]


EVENTS = st.one_of(
    st.builds(_call, st.sampled_from("abc")),
    st.builds(_end, st.sampled_from("abc"), st.sampled_from(["", "x", None])),
    st.builds(_said, st.sampled_from(["user", "assistant", "system"]), st.sampled_from(["", " ", "hello"])),
    st.just(Result(success=True, run_id=RUN)),
    st.just(SessionStart(agent="codex", run_id=RUN)),
    st.just(TextDelta(id="m", text="piece", run_id=RUN)),
    st.just(Compacted(summary="s", run_id=RUN)),
)


@given(st.lists(EVENTS, max_size=30))
def test_any_log_gives_turns_that_are_whole(events: list[Event]) -> None:
    conversation = conversation_of(events)
    for turn in conversation.turns:
        assert turn.text or (isinstance(turn, HandedAnswer) and turn.calls)
    assert all(call.output for call in conversation.calls)


def test_every_recorded_call_has_a_result() -> None:
    assert len(recorded()) > 100
    assert all(call.output for conversation in recorded().values() for call in conversation.calls)


def _long(outputs: int, *, failed: int = -1) -> HandedConversation:
    calls = [
        HandedCall(tool_name="t", output="x\n" * 5_000, has_failed=number == failed)
        for number in range(outputs)
    ]
    turns = [HandedAnswer(text=f"step {number}", calls=(call,)) for number, call in enumerate(calls)]
    return HandedConversation(agent="a", turns=(HandedPrompt(text="go"), *turns))


def test_older_outputs_are_shortened_first_and_failures_never() -> None:
    short = within_budget(_long(20, failed=1), 100_000)
    sizes = [len(call.output) for call in short.calls]
    assert sizes[0] < 1_000
    assert sizes[1] == 10_000
    assert sizes[-5:] == [10_000] * 5
    assert "characters left out" in short.calls[0].output
    assert short.losses.shortened == sum(size < 10_000 for size in sizes)
    assert size_of(short.turns) <= 100_000
    assert len(short.turns) == 21


def test_what_is_still_too_long_loses_its_oldest_messages_but_the_first() -> None:
    short = within_budget(_long(20), 30_000)
    assert short.turns[0] == HandedPrompt(text="go")
    assert short.losses.left_out == 20 - len(short.calls) > 0
    assert "older messages left out" in origin_note(short)


@given(st.text(max_size=400), st.integers(20, 200))
def test_a_cut_text_has_its_beginning_and_its_end(text: str, most: int) -> None:
    short = cut(text, most)
    assert short == text or ("characters left out" in short and short[:3] == text[:3])


TABLE = {
    "command": OwnTool("sh", {"cmd": "{command}"}),
    "read": OwnTool("cat", {"file": "{path}", "from": "{first}"}),
}


@pytest.mark.parametrize(
    ("call", "made"),
    [
        (HandedCall(tool_name="x", input={"command": "bash -lc 'ls -l'"}), ("sh", {"cmd": "ls -l"})),
        (HandedCall(tool_name="x", operations=(Command(command="/bin/sh -c pwd"),)), ("sh", {"cmd": "pwd"})),
        (
            HandedCall(tool_name="x", operations=(Read(path="/a", start_line=2),)),
            ("cat", {"file": "/a", "from": 2}),
        ),
        (HandedCall(tool_name="sh", input={"a": 1}), ("otter_sh", {"a": 1})),
        (HandedCall(tool_name="otter_sh", input="text"), ("otter_sh", {"input": "text"})),
        (
            HandedCall(tool_name="a/b c" * 40, operations=(Write(path="/a"),)),
            (f"otter_{'a_b_c' * 40}"[:64], {}),
        ),
        (HandedCall(tool_name="…"), ("otter", {})),
    ],
)
def test_a_call_is_named_by_its_meaning_or_by_a_name_that_is_no_tool(call: HandedCall, made: Any) -> None:
    assert own_call(call, TABLE, source="otter", target="badger") == made


def test_a_call_of_the_same_agent_stays_as_it_is() -> None:
    call = HandedCall(tool_name="sh", input={"odd": True})
    assert own_call(call, TABLE, source="badger", target="badger") == ("sh", {"odd": True})


def test_secrets_are_masked_in_all_parts_and_counted() -> None:
    token = "ghp_" + "a1B2" * 9
    call = HandedCall(tool_name="t", input={"x": [f"token {token}"]}, output=f"TOKEN={token}")
    turns = (HandedPrompt(text=f"use {token}"), HandedAnswer(text=f"ok {token}", calls=(call,)))
    found = masked(HandedConversation(agent="a", turns=turns), {})
    assert token not in str(found)
    assert found.losses.masked == 4
    assert masked(made_up(), {}) == made_up()
