"""Observations as text: how messages become input, answers become notes, and notes become context."""

from __future__ import annotations

from datetime import UTC, date

import pytest

from harness.contracts.model import AssistantTurn, Attachment, Call, ToolTurn, UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.session.memory import dates, observations
from harness.session.memory.observer import parse, tagged
from harness.session.memory.reflector import parse_reflection
from harness.session.memory.steps import ObserverTranscript
from harness.session.memory.tokens import estimated_tokens, turn_tokens
from memory_bench import START_MS

DAY_MS = 86_400_000


def test_tokens_are_about_four_bytes() -> None:
    assert [estimated_tokens(text) for text in ("", "abcd", "abcde", "日本")] == [0, 1, 2, 2]
    call = AssistantTurn("abcd", (Call("1", "read", {"path": "a.txt"}),))
    assert turn_tokens(call) == 4 + 1 + 1 + estimated_tokens('{"path":"a.txt"}')
    assert turn_tokens(UserTurn("", (Attachment("image/png", "xx"),))) > 1_000


def test_messages_are_reported_by_day_with_who_said_them_and_when() -> None:
    picture, paper = Attachment("image/png", "AAAA", "plan.png"), Attachment("application/pdf", "AAAA")
    said = [
        TranscriptEntry(UserTurn("Look at this", (picture, paper)), "m1", START_MS, 1),
        TranscriptEntry(
            AssistantTurn("Let me see.", (Call("c1", "read", {"path": "a"}),)), "m2", START_MS + 60_000, 2
        ),
        TranscriptEntry(ToolTurn("c1", "x" * 50_000), "m2", START_MS + 60_000, 3),
        TranscriptEntry(AssistantTurn("Done."), "m3", START_MS + DAY_MS, 4),
    ]
    transcript = ObserverTranscript(said, UTC, attachments=("image/*",))
    lines = transcript.text.split("\n")
    assert lines[:5] == [
        "Dec 4, 2025",
        "User (15:00): Look at this",
        "[Image #1: plan.png]",
        "[File #1]",
        "Assistant (15:01): Let me see.",
    ]
    assert lines[5] == 'Tool Call read (15:01): {"path":"a"}'
    assert lines[6] == "Tool Result read (15:01): " + "x" * 40_000
    assert lines[7:] == ["[the rest is left out]", "", "Dec 5, 2025", "Assistant (15:00): Done."]
    assert transcript.attachments == [picture]


def test_an_answer_is_read_by_its_tags() -> None:
    observed = parse(
        "Sure!\n<observations>\nDate: Dec 4, 2025\n* 🔴 (15:00) One, with <b>markup</b>\n</observations>\n"
        "<current-task>\nPrimary: two\n</current-task>\n<suggested-response>Three</suggested-response>\n"
        "<thread-title>Four</thread-title>"
    )
    assert observed.observations == "Date: Dec 4, 2025\n* 🔴 (15:00) One, with <b>markup</b>"
    assert (observed.current_task, observed.suggested_response, observed.title) == (
        "Primary: two",
        "Three",
        "Four",
    )


def test_a_tag_counts_only_at_the_beginning_of_a_line() -> None:
    assert tagged("he said <observations> loudly", "observations") is None
    assert tagged("<observations>\n* the tag <observations> was named\n", "observations") is not None


def test_without_tags_an_observer_counts_as_far_as_it_lists_and_a_reflector_as_a_whole() -> None:
    text = "Here are my notes:\nDate: Dec 4, 2025\n* one\n  - two\nThat is all."
    assert parse(text).observations == "Date: Dec 4, 2025\n* one\n  - two"
    assert parse("I have nothing to say.").observations == ""
    assert parse_reflection(text) == text


def test_endless_lines_are_cut() -> None:
    (line,) = parse(f"<observations>\n* {'x' * 20_000}\n</observations>").observations.split("\n")
    assert len(line) < 10_100
    assert line.endswith("[truncated]")


@pytest.mark.parametrize(
    ("text", "is_degenerate"),
    [
        ("the same thing " * 100, False),  # too short to decide
        ("the same thing " * 1_000, True),
        ("\n".join(f"* (15:{number:02}) thing number {number} was done" for number in range(500)), False),
        ("x" * 50_001, True),
        ("".join(f"{number} " for number in range(20_000)), True),
        ("\n".join(f"* {number}" for number in range(20_000)), False),
    ],
)
def test_a_model_that_repeats_itself_is_noticed(text: str, is_degenerate: bool) -> None:
    assert observations.is_degenerate(text) is is_degenerate


def test_earlier_notes_are_shortened_to_the_newest_and_the_most_important() -> None:
    lines = [f"* 🟡 ({number:02}:00) detail" for number in range(20)]
    lines[3] = "* 🔴 (03:00) must not be forgotten"
    lines[8] = "* ✅ (08:00) is done"
    text = "\n".join(lines)
    assert observations.shortened(text, 10_000) == text
    short = observations.shortened(text, 60).split("\n")
    assert short[0] == "[3 observations truncated here]"
    assert short[1] == lines[3]
    assert short[2] == "[4 observations truncated here]"
    assert short[3] == lines[8]
    assert short[4].endswith("observations truncated here]")
    assert short[5:] == lines[-len(short[5:]) :]
    assert sum(map(estimated_tokens, short)) < 100
    assert observations.shortened(text, 1) == "[20 observations truncated here]"


def test_no_more_important_lines_are_stored_than_new_ones() -> None:
    lines = [f"* 🔴 ({number:02}:00) important" for number in range(20)]
    short = observations.shortened("\n".join(lines), 40).split("\n")
    kept = [line for line in short if "truncated" not in line]
    assert kept == lines[-len(kept) :]


def test_parts_of_the_log_are_joined_by_boundaries_and_cut_there_again() -> None:
    log = observations.appended("", "* one", START_MS)
    log = observations.appended(log, "* two", START_MS)
    assert log == "* one\n\n--- message boundary (2025-12-04T15:00:00.000Z) ---\n\n* two"
    assert observations.parts_of(log) == ["* one", "* two"]
    assert observations.appended(log, "  ", START_MS) == log
    assert observations.tail_after(log, 1) == "* two"


def test_groups_are_together_and_survive_a_reflection() -> None:
    first = observations.grouped("* one\n* two", "g1", "m1:m4")
    log = observations.appended(first, observations.grouped("* three", "g2", "m5:m9"), START_MS)
    assert observations.ranges_in(log) == ["m1:m4", "m5:m9"]
    assert observations.oldest_lines(log, 3) == 4  # the whole group, though two lines of it would do
    assert (
        observations.regrouped("* less", log, "g3")
        == '<observation-group id="g3" range="m1:m9">\n* less\n</observation-group>'
    )
    assert observations.regrouped(first, log, "g3") == first
    assert observations.ungrouped(first) == "* one\n* two\n"


def test_the_model_is_not_shown_marks_for_those_who_write_notes() -> None:
    text = "* 🔴 (15:00) keep [user-fact] this\n  * 🟡 -> result → of [it](link)\n* ✅ done 🟢"
    assert observations.for_the_model(text) == "* 🔴 (15:00) keep this\n  * result of [it](link)\n* ✅ done"


def test_days_are_reported_as_seen_from_today() -> None:
    text = (
        "Date: Dec 4, 2025\n* User will travel (meaning Dec 7, 2025)\n* User was ill (estimated late November 2025)\n"
        "\nDate: Dec 24, 2025\n* User will dance (meaning Jan 3, 2026)"
    )
    assert dates.with_relative_days(text, date(2025, 12, 25)).split("\n") == [
        "Date: Dec 4, 2025 (3 weeks ago)",
        "* User will travel (meaning Dec 7, 2025 - 2 weeks ago, likely already happened)",
        "* User was ill (estimated late November 2025 - 1 month ago)",
        "",
        "[2 weeks later]",
        "",
        "Date: Dec 24, 2025 (yesterday)",
        "* User will dance (meaning Jan 3, 2026 - in 1 week)",
    ]


def test_a_day_that_does_not_exist_stays_as_it_is() -> None:
    assert dates.with_relative_days("Date: Feb 31, 2025", date(2025, 12, 25)) == "Date: Feb 31, 2025"


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (9, ""),
        (10, "10 minutes later"),
        (125, "2 hours 5 minutes later"),
        (1_440, "1 day later"),
        (20_160, "2 weeks later"),
    ],
)
def test_a_pause_is_described(minutes: int, text: str) -> None:
    assert dates.gap_text(minutes * 60_000) == text
