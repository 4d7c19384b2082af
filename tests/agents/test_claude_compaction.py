"""What a compaction of Claude Code has used, which only its sums know."""

from __future__ import annotations

import msgspec
import pytest

from harness.agents.claude.compaction_calls import CompactionCalls, Counts

MODEL = "claude-opus-5-5"


def _counts(tokens: int) -> Counts:
    return tokens, 0, 0, 0, 0, 0


def _used(calls: CompactionCalls, *totals: int) -> list[int]:
    return [sum(call.counts) for total in totals for call in calls.state({MODEL: _counts(total)})]


def test_what_no_answer_explains_is_the_compactions() -> None:
    calls = CompactionCalls()
    calls.answer("a", f"{MODEL}[1m]", _counts(60))
    calls.answer("a", MODEL, _counts(100))  # another line of the same answer
    assert _used(calls, 100) == []
    calls.compact("u", is_first=False)
    calls.answer("b", MODEL, _counts(100))
    (found,) = calls.state({MODEL: _counts(450)})
    assert found == (f"compaction:u:{MODEL}", MODEL, _counts(250))
    calls.answer("c", MODEL, _counts(100))
    assert _used(calls, 600) == [], "a title that was asked for is nobody's"


def test_the_first_sum_counts_from_nothing_unless_the_file_continues_another_one() -> None:
    """A fork of a session that was compacted begins with that."""
    whole, forked = CompactionCalls(), CompactionCalls()
    whole.answer("a", MODEL, _counts(100))
    whole.compact("u", is_first=False)
    assert _used(whole, 300) == [200]
    forked.compact("u", is_first=True)
    forked.answer("b", MODEL, _counts(100))
    assert _used(forked, 1000) == []
    forked.compact("v", is_first=False)
    assert _used(forked, 1200) == [200]


@pytest.mark.parametrize("total", [50, 150])
def test_sums_that_do_not_fit_say_nothing(total: int) -> None:
    """A process that was killed has not written its sum."""
    calls = CompactionCalls()
    calls.answer("a", MODEL, _counts(200))
    calls.compact("u", is_first=False)
    assert _used(calls, total) == []


def test_sub_agents_and_unknown_models_leave_it_open() -> None:
    calls = CompactionCalls()
    calls.has_sub_agents = True
    calls.compact("u", is_first=False)
    assert _used(calls, 300) == []
    calls.answer("a", "another-name", _counts(100))
    calls.compact("v", is_first=False)
    assert _used(calls, 500) == []


def test_it_continues_after_it_was_stored() -> None:
    calls = CompactionCalls()
    calls.answer("a", MODEL, _counts(100))
    calls.compact("u", is_first=False)
    stored = msgspec.json.decode(msgspec.json.encode(calls), type=CompactionCalls)
    assert _used(stored, 300) == [200]
