"""The lines of a conversation: questions, sub-agents and turns are where the run tree says."""

from __future__ import annotations

from msgspec.structs import replace

from harness.events import Event, Message, Relay, Result, SessionStart, ToolStart
from harness.interfaces.tui.transcript_lines import TranscriptLines

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
