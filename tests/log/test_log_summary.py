"""What is known of a log is the same however it was learned."""

from __future__ import annotations

import random

import msgspec

from harness.events import (
    Event,
    GoalEvaluated,
    Message,
    Result,
    SessionStart,
    StepStart,
    Usage,
    UsageDelta,
)
from harness.log.log_summary import KINDS, LogSummary, MessagePosition
from harness.testing.small_logs import conversation, in_sequence


def events() -> list[Event]:
    nested: list[Event] = [
        SessionStart(run_id="outer"),
        Message(run_id="outer", role="user", text="go"),
        StepStart(run_id="outer", id="s"),
        SessionStart(run_id="inner", parent_id="call"),
        UsageDelta(run_id="inner", usage=Usage(input=3)),
        Message(run_id="inner", role="assistant", text="done"),
        Result(run_id="inner", success=True),
        GoalEvaluated(run_id="outer", payload={}),
        StepStart(run_id="outer", id="s"),
        UsageDelta(run_id="outer", usage=Usage(input=4)),
        Result(run_id="outer", success=True),
    ]
    return in_sequence([*conversation(0, turns=3), *nested, *conversation(0, turns=1)])


def test_a_summary_continues_from_its_saved_form() -> None:
    whole = LogSummary()
    expected = whole.feed(events())
    chance = random.Random(1)
    for _ in range(50):
        digest, starts, texts = LogSummary(), [], []
        rest = events()
        while rest:
            size = chance.randint(1, 6)
            gain = digest.feed(rest[:size])
            starts += gain.starts
            texts += gain.texts
            rest = rest[size:]
            digest = msgspec.json.decode(msgspec.json.encode(digest), type=LogSummary)
        assert digest == whole
        assert (starts, texts) == expected


def test_other_kinds_of_events_tell_it_nothing() -> None:
    whole, telling = LogSummary(), LogSummary()
    expected = whole.feed(events())

    assert telling.feed(event for event in events() if type(event) in KINDS) == expected
    assert telling.usage == whole.usage == Usage(input=7)


def test_a_verdict_on_the_goal_ends_a_message() -> None:
    starts = LogSummary().feed(events()).starts
    assert MessagePosition(21, 22) in starts, "the user's, with the start of the run"
    assert MessagePosition(23, 23) in starts, "the answer"
    assert MessagePosition(29, 29) in starts, "what was said after the verdict"
    assert len([start for start in starts if 21 <= start.seq < 32]) == 3
