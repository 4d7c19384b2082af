"""What runs say, and how they end: messages and agent_start to agent_end."""

from __future__ import annotations

import pytest

from harness.events import (
    Error,
    GoalEvaluated,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
)
from harness.events.operation import Command
from harness.folds.session import events as wire
from harness.folds.session.translation import SessionTranslation, history_messages
from session_log import DONE, START, emitted, logged, texts, types, wired


def test_a_run_with_a_call_is_emitted_in_this_order() -> None:
    events = emitted(
        START,
        Message(role="user", id="u1", text="Hi"),
        StepStart(id="s"),
        ReasoningDelta(id="x", text="hm"),
        TextDelta(id="t", text="Let me "),
        TextDelta(id="t", text="look."),
        ToolInputDelta(call_id="c", text='{"a"', tool_name="bash"),
        ToolInputDelta(call_id="c", text=":1}"),
        Message(role="assistant", id="t", text="Let me look."),
        StepEnd(id="s", stop_reason="tool_calls"),
        ToolStart(call_id="c", tool_name="bash", input={"a": 1}, operations=[Command(command="ls")]),
        ToolProgress(call_id="c", text="a.py\n"),
        ToolEnd(call_id="c", tool_name="bash", success=True, output="a.py\n", exit_code=0),
        DONE,
    )

    assert types(events, chunks=True) == [
        "agent_start",
        *("message_start", "message_end"),
        *("message_start", "thinking", "message_update"),
        *("text", "message_update") * 2,
        *("tool_input_start", "tool_input_delta", "tool_input_delta", "tool_input_end"),
        *("tool_call", "tool_start", "message_update"),
        "shell_output",
        *("command_exit", "tool_result", "tool_end", "message_update"),
        *("message_end", "agent_end"),
    ]
    message = wired(events[-2])["message"]
    assert message == {
        "id": "r/3",
        "role": "assistant",
        "createdAt": 1003,
        "stopReason": "complete",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_call", "id": "c", "name": "bash", "args": {"a": 1}},
            {"type": "tool_result", "id": "c", "name": "bash", "result": "a.py\n", "isError": False},
        ],
    }
    assert wired(events[-1]) == {"type": "agent_end", "reason": "complete"}
    assert wired(events[2])["message"] == {
        "id": "u1",
        "role": "user",
        "createdAt": 1001,
        "content": [{"type": "text", "text": "Hi"}],
    }


def test_an_event_that_was_kept_does_not_change() -> None:
    updates = [
        event
        for event in emitted(
            START, *(TextDelta(id="t", text=letter) for letter in "abc"), TextRetracted(id="t")
        )
        if isinstance(event, wire.MessageUpdateEvent)
    ]

    assert [texts(update.message) for update in reversed(updates)] == [[], ["abc"], ["ab"], ["a"]]
    assert [texts(update.message) for update in updates] == [["a"], ["ab"], ["abc"], []]


def test_a_message_that_was_not_streamed_is_emitted_whole_and_one_that_was_is_not_emitted_again() -> None:
    events = emitted(
        START,
        Message(role="assistant", text="One."),
        TextDelta(text="Tw"),
        Message(role="assistant", text="Two."),
        TextDelta(id="t", text="Three. "),
        Message(role="assistant", id="t", text="Three."),
        DONE,
    )

    assert texts(events[-2].message) == ["One.", "Two.", "Three."]  # type: ignore[attr-defined]
    assert [event.text for event in events if isinstance(event, wire.TextPart)] == [
        "One.",
        "Tw",
        "o.",
        "Three. ",
    ]


def test_the_answer_of_a_run_that_said_nothing_else_is_that_of_its_result() -> None:
    events = emitted(START, Result(success=True, text="42"))

    assert types(events) == ["agent_start", "message_start", "message_update", "message_end", "agent_end"]


def test_streams_that_are_written_at_the_same_time_stay_apart() -> None:
    events = emitted(
        START,
        TextDelta(id="a", text="1"),
        ReasoningDelta(id="b", text="x"),
        TextDelta(id="a", text="2"),
        ReasoningDelta(id="b", text="y"),
        DONE,
    )

    assert wired(events[-2])["message"]["content"] == [
        {"type": "text", "text": "12"},
        {"type": "thinking", "thinking": "xy"},
    ]


def test_words_of_the_user_end_the_message_before_them() -> None:
    events = emitted(
        START, TextDelta(id="a", text="1"), Message(role="user", text="more"), TextDelta(text="2"), DONE
    )

    ends = [event.message for event in events if isinstance(event, wire.MessageEndEvent)]
    assert [(message.role, message.text) for message in ends] == [
        ("assistant", "1"),
        ("user", "more"),
        ("assistant", "2"),
    ]
    assert len({message.id for message in ends}) == 3


def test_a_judged_goal_ends_the_message_so_that_the_next_attempt_is_another() -> None:
    events = emitted(
        START,
        TextDelta(text="try 1"),
        GoalEvaluated(payload={"passed": False}),
        TextDelta(text="try 2"),
        DONE,
    )

    assert types(events)[3:6] == ["message_end", "goal_evaluation", "message_start"]
    assert [message.text for message in history_messages(logged(START, TextDelta(text="a")))] == ["a"]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (Result(success=True), "complete"),
        (Result(success=False, outcome="interrupted"), "aborted"),
        (Result(success=False, outcome="failed"), "error"),
        (Result(success=False, outcome="timed_out"), "error"),
    ],
)
def test_how_a_run_ends(result: Result, reason: str) -> None:
    events = emitted(START, TextDelta(text="x"), result)

    assert wired(events[-1]) == {"type": "agent_end", "reason": reason}
    assert wired(events[-2])["message"]["stopReason"] == reason
    assert ("error" in types(events)) == (reason == "error")


def test_an_error_is_emitted_once_and_is_in_the_message() -> None:
    events = emitted(
        START,
        TextDelta(text="x"),
        Error(message="no credit", code="billing"),
        StepEnd(id="s", stop_reason="error"),
        Result(success=False, outcome="failed"),
    )

    assert wired(events[-3]) == {"type": "error", "error": {"message": "no credit"}, "errorType": "billing"}
    assert wired(events[-2])["message"]["errorMessage"] == "no credit"


@pytest.mark.parametrize("stop_reason", ["length", "refusal", "content-filter", "max_tokens"])
def test_an_answer_that_was_cut_off_is_an_error_even_if_the_run_succeeds(stop_reason: str) -> None:
    events = emitted(START, TextDelta(text="x"), StepEnd(id="s", stop_reason=stop_reason), DONE)

    assert types(events)[-3:] == ["error", "message_end", "agent_end"]
    assert wired(events[-1])["reason"] == "error"


@pytest.mark.parametrize("stop_reason", ["end", "tool_calls", "", "whatever"])
def test_any_other_reason_to_stop_is_none_to_worry(stop_reason: str) -> None:
    assert wired(emitted(START, StepEnd(id="s", stop_reason=stop_reason), DONE)[-1])["reason"] == "complete"


def test_an_answer_that_was_cut_off_and_continued_is_no_error() -> None:
    events = emitted(START, StepEnd(id="s", stop_reason="length"), StepStart(id="t"), StepEnd(id="t"), DONE)

    assert wired(events[-1])["reason"] == "complete"


def test_what_comes_after_the_end_of_a_run_is_passed_over() -> None:
    events = emitted(
        START,
        Result(success=False, outcome="interrupted"),
        TextDelta(text="late"),
        ToolStart(call_id="c", tool_name="t"),
        Error(message="late"),
        Result(success=True),
    )

    assert types(events) == ["agent_start", "agent_end"]


def test_a_log_that_is_read_from_its_middle_is_translated_as_well_as_possible() -> None:
    events = logged(
        START, Message(role="user", text="a"), TextDelta(text="b"), Message(role="user", text="c")
    )
    more = logged(*events, TextDelta(text="d"), DONE)

    whole, late = history_messages(more), history_messages(more[3:])

    assert [message.text for message in late] == ["c", "d"]
    assert [message.id for message in late] == [message.id for message in whole[-2:]]
    assert late[-1].stop_reason == "complete"


def test_what_is_kept_does_not_grow_with_the_thread() -> None:
    translation = SessionTranslation()
    sizes = []
    for number in range(200):
        run = {"run_id": f"r{number % 100:02}"}
        for event in (
            SessionStart(**run),
            Message(role="user", text="x" * 100, **run),
            TextDelta(id="t", text="y" * 100, **run),
            Message(role="assistant", id="t", text="y" * 100, **run),
            ToolStart(call_id="c", tool_name="t", **run),
            SessionStart(run_id="kid", parent_id="c"),
            ToolStart(call_id="d", tool_name="t", run_id="kid"),
            Result(success=True, run_id="kid"),
            ToolEnd(call_id="c", tool_name="t", **run),
            Result(success=True, **run),
        ):
            translation.feed(event)
        sizes.append(len(str(translation.snapshot())))

    assert sizes[-1] <= sizes[40] + 20
