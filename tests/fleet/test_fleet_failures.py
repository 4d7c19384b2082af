"""Whose fault a failed run is: judged from recordings of real agents, and from the words of their errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from harness.events import Error, Event, Message, Result, ToolStart, Warning
from harness.events.run import Outcome
from harness.fleet.failures import fault_of
from harness.fleet.records.attempt import Attempt, retries_used
from harness.folds.provider_trouble import ProviderTrouble, refused_at_end, trouble_of
from harness.formats.limit_words import end_of_limit
from harness.log import codec

RECORDINGS = Path(__file__).parents[1] / "agents"
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def _recorded(name: str) -> tuple[list[Event], Result]:
    lines = (RECORDINGS / name / "events.ndjson").read_bytes().splitlines()
    events = [codec.decode(line) for line in lines]
    return events, next(event for event in reversed(events) if isinstance(event, Result))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("claude/2.1.325/rate-limit-rejected", "rate_limited"),
        ("claude/2.1.325/err-429", "rate_limited"),
        ("codex/0.166.0/err-429-usage", "rate_limited"),
        ("codex/0.98.0/err-failed-quota", "rate_limited"),
        ("codex/0.50.0/err-failed-quota", "rate_limited"),
        ("codex/0.166.0/err-429", "rate_limited"),
        ("gemini/0.61.0/error-429", "rate_limited"),
        ("antigravity/derived-not-captured/quota", "rate_limited"),
        ("goose/1.52.0/error-429", "rate_limited"),
        ("cline/3.0.65/err429_forever", "rate_limited"),
        ("codex/0.166.0/err-500", "provider_failed"),
        ("copilot/1.0.102/error-500", "provider_failed"),
        ("goose/1.52.0/no-server", "provider_failed"),
        ("claude/2.0.60/err-credit", "provider_failed"),
        ("opencode/1.18.33/err401", "provider_failed"),
        ("claude/2.1.325/sigkill-tool", ""),
        ("codex/0.98.0/sigkill-tool", ""),  # its last words are about a timeout of the network
        ("cline/3.0.65/badcalls", ""),
        ("gemini/0.61.0/loop", ""),
        ("claude/2.1.325/err-prompt-too-long", ""),
        ("kilo/7.7.9/err400_context", ""),
    ],
)
def test_the_fault_of_a_recorded_run(name: str, fault: str) -> None:
    events, result = _recorded(name)
    assert result.outcome == "failed"
    assert fault_of(result, trouble_of(events, result, NOW)) == fault


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("a request to the model failed (429 Rate limit reached); attempt 9 of 10", "rate_limited"),
        ("500 Internal Server Error, trying again", "provider_failed"),
        ("the tool is tried again", ""),
    ],
)
@pytest.mark.parametrize("outcome", ["failed", "timed_out", "stalled"])
def test_a_run_that_ends_while_its_model_is_refused_says_nothing_about_the_agent(
    message: str, fault: str, outcome: Outcome
) -> None:
    result, none = Result(success=False, outcome=outcome), ProviderTrouble()
    retry = Warning(message=message, code="retry")
    prompt, answer = Message(role="user", text="Go."), Message(role="assistant", text="Well.")
    assert fault_of(result, none, refused_at_end([answer, retry, prompt])) == fault
    assert fault_of(result, none, refused_at_end([retry, answer])) == ""
    assert fault_of(result, none, refused_at_end([retry, ToolStart(call_id="1", tool_name="sh")])) == ""
    assert fault_of(Result(success=True, outcome="completed"), none, refused_at_end([retry])) == ""


def test_an_agent_that_was_killed_while_it_waited_for_its_provider_has_not_failed() -> None:
    events, result = _recorded("kimi/2.1.0/error-429")
    assert fault_of(result, trouble_of(events, result, NOW), refused_at_end(events)) == "rate_limited"


def test_what_an_agent_says_is_not_believed() -> None:
    events = [Message(role="assistant", text="You've hit your usage limit. Try again in 1 s.")]
    result = Result(success=False, outcome="failed")
    assert trouble_of(events, result, NOW).kind == ""


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ("Individual quota reached. Resets in 34m13s.", timedelta(minutes=34, seconds=13)),
        ("Your quota will reset after 53s.", timedelta(seconds=53)),
        ("try again in 5 days 22 hours 11 minutes.", timedelta(days=5, hours=22, minutes=11)),
        ("Please try again in 51 hours.", timedelta(hours=51)),
        ("retry-after: 90", timedelta(seconds=90)),
        ("You've hit your 5-hour limit · resets Nov 15, 2026, 5:46pm (UTC)", timedelta(hours=5, minutes=46)),
        ("limit to reset on November 16, 2026 at 2:00 AM or switch", timedelta(hours=14)),
        ("or try again at 8:29 PM.", timedelta(hours=8, minutes=29)),
        ("try again at 11:59 AM", timedelta(hours=23, minutes=59)),
        ("resets 3:00pm (UTC)", timedelta(hours=3)),
        ("resets Mar 17, 2030, 5:46pm (UTC)", None),  # too far away to be believed
        ("resets Foo 47, 2026, 5:46pm", None),
        ("Try again later.", None),
        ("", None),
    ],
)
def test_the_end_of_a_limit_is_read_from_words(words: str, after: timedelta | None) -> None:
    assert end_of_limit(words, NOW) == (None if after is None else NOW + after)


def test_times_without_a_zone_are_those_of_the_agent() -> None:
    here = NOW.astimezone(timezone(timedelta(hours=9)))  # 21:00
    assert end_of_limit("try again at 11:30 PM", here) == NOW + timedelta(hours=2, minutes=30)
    assert end_of_limit("resets 3:00pm (UTC)", here) == NOW + timedelta(hours=3)


def test_a_limit_whose_end_is_known_uses_up_no_retry_but_not_without_end() -> None:
    def limited(number: int, until_ms: int | None) -> Attempt:
        return Attempt(case="c", number=number, fault="rate_limited", limited_until_ms=until_ms)

    assert retries_used([limited(1, 5), limited(2, 6)]) == 0
    assert retries_used([limited(1, None), limited(2, 6)]) == 1
    assert retries_used([limited(number, 5) for number in range(1, 9)]) == 3


def test_the_end_of_the_limit_comes_from_the_error() -> None:
    error = Error(message="You\u2019ve hit your usage limit. Try again in 20 minutes.", code="turn_failed")
    found = trouble_of([error], Result(success=False, outcome="failed"), NOW)
    assert (found.kind, found.until_ms) == ("window", int((NOW + timedelta(minutes=20)).timestamp() * 1000))
