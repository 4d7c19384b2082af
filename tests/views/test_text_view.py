"""Plain text is what the agent says, each word once."""

from __future__ import annotations

from harness.events import (
    Error,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolStart,
    Warning,
)
from showing import shown


def test_deltas_come_without_line_ends_and_the_message_only_ends_the_line() -> None:
    text = shown(
        "text",
        SessionStart(agent="claude"),
        Message(role="user", text="hello?"),
        TextDelta(id="m1", text="Hello "),
        TextDelta(id="m1", text="there"),
        Message(role="assistant", id="m1", text="Hello there"),
        Result(success=True, text="Hello there"),
    )

    assert text == "Hello there\n"


def test_a_delta_is_written_at_once() -> None:
    assert shown("text", TextDelta(id="m", text="so far")) == "so far\n"


def test_a_message_that_was_not_streamed_is_written_whole() -> None:
    text = shown("text", Message(role="assistant", text="One."), Message(role="assistant", text="Two.\n"))

    assert text == "One.\nTwo.\n"


def test_what_the_deltas_left_out_of_a_message_is_added() -> None:
    text = shown("text", TextDelta(id="m", text="Hel"), Message(role="assistant", id="m", text="Hello"))

    assert text == "Hello\n"


def test_the_rest_of_a_message_ends_its_line_also_after_a_line_end() -> None:
    text = shown("text", TextDelta(id="m", text="a\n"), Message(role="assistant", id="m", text="a\nb"))

    assert text == "a\nb\n"


def test_a_message_that_was_trimmed_after_streaming_is_not_repeated() -> None:
    text = shown("text", TextDelta(id="m", text="a  \n\n"), Message(role="assistant", id="m", text="a"))

    assert text == "a  \n\n"


def test_one_id_may_stream_several_messages_after_one_another() -> None:
    text = shown(
        "text",
        TextDelta(id="m", text="one"),
        Message(role="assistant", id="m", text="one"),
        TextDelta(id="m", text="two"),
        Message(role="assistant", id="m", text="two"),
    )

    assert text == "one\ntwo\n"


def test_streams_that_alternate_stay_on_their_own_lines() -> None:
    text = shown("text", TextDelta(id="a", text="aa"), TextDelta(id="b", text="bb"))

    assert text == "aa\nbb\n"


def test_after_retracted_text_the_new_answer_begins_on_its_own_line() -> None:
    text = shown(
        "text",
        TextDelta(id="m1", text="This is cut o"),
        TextRetracted(id="m1"),
        TextDelta(id="m2", text="Whole."),
        Message(role="assistant", id="m2", text="Whole."),
    )

    assert text == "This is cut o\nWhole.\n"


def test_an_answer_that_is_only_in_the_result_is_written() -> None:
    assert shown("text", SessionStart(agent="a"), Result(success=True, text="42")) == "42\n"


def test_tools_notices_reasoning_and_children_are_not_text() -> None:
    text = shown(
        "text",
        SessionStart(agent="claude"),
        ReasoningDelta(text="hm"),
        ToolStart(call_id="c", tool_name="Task"),
        SessionStart(run_id="kid", parent_id="c"),
        TextDelta(id="k", text="child", run_id="kid"),
        Message(role="assistant", id="k", text="child", run_id="kid"),
        Result(success=True, text="child", run_id="kid"),
        ToolEnd(call_id="c", tool_name="Task", success=True, output="child"),
        Warning(message="w"),
        Error(message="e"),
        Result(success=False, outcome="failed", text="e"),
    )

    assert text == ""


def test_escapes_are_shown_instead_of_obeyed() -> None:
    text = shown("text", TextDelta(text="\x1b]52;c;aGk=\x07"), Message(role="assistant", text="\x9b2J\u202e"))

    assert text == "␛]52;c;aGk=␇\n<U+009B>2J<U+202E>\n"
