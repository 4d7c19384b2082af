"""The lines of a conversation: questions, sub-agents and turns are where the run tree says."""

from __future__ import annotations

from msgspec.structs import replace

from harness.events import (
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    ToolStart,
)
from harness.tui.lines import parts_of
from harness.tui.transcript_lines import TranscriptLines

QUESTION = Relay(run_id="top", id="q", kind="question", question="Which one?")
START = SessionStart(run_id="top", agent="claude")


def lines_of(*events: Event) -> TranscriptLines:
    lines = TranscriptLines(80)
    lines.feed([replace(event, seq=number) for number, event in enumerate(events)])
    return lines


def test_a_question_is_not_shown_as_long_as_it_waits() -> None:
    assert "Which one?" not in "\n".join(lines_of(START, QUESTION).lines)


def test_a_question_that_ended_with_its_run_is_shown() -> None:
    assert "Which one?" in "\n".join(lines_of(START, QUESTION, Result(run_id="top", success=True)).lines)


def test_what_is_below_a_sub_agent_is_folded_with_it() -> None:
    lines = lines_of(
        START,
        ToolStart(run_id="top", call_id="c", tool_name="agent"),
        SessionStart(run_id="kid", parent_id="c"),
        ToolStart(run_id="kid", call_id="d", tool_name="agent"),
        SessionStart(run_id="grandkid", parent_id="d"),
        Message(run_id="unannounced", role="assistant", text="below"),
    )

    assert lines.is_within("grandkid", {"kid"})
    assert not lines.is_within("top", {"kid"})
    assert lines.is_within("unannounced", {"top"})


def test_an_answer_is_drawn_as_markdown_while_it_is_written_and_afterwards() -> None:
    answer = "It is **done**:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nSee `cart.py`"
    pieces = [TextDelta(run_id="top", id="t", text=answer[at : at + 5]) for at in range(0, len(answer), 5)]
    written = lines_of(START, *pieces)
    assert "See `cart.py`" in written.tail
    whole = lines_of(START, *pieces, Message(run_id="top", id="t", role="assistant", text=answer))
    alone = lines_of(START, Message(run_id="top", id="t", role="assistant", text=answer))
    shown = ["".join(text for _, text in parts_of(line)) for line in whole.lines]
    assert shown[-7:] == ["It is done:", "", "a │ b", "──┼──", "1 │ 2", "", "See cart.py"]
    assert whole.lines == alone.lines
    assert not whole.tail


def test_an_answered_question_is_in_words_and_not_in_json() -> None:
    ask = Relay(
        run_id="top", id="q", call_id="c", tool_name="Edit", input={"file_path": "a.py", "replace_all": False}
    )
    text = "\n".join(lines_of(START, ask, RelayReply(run_id="top", id="q", approved=True)).lines)
    assert "file_path: a.py" in text
    assert '{"' not in text
