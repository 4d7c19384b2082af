"""What was used by which run and model; unknown is not zero."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.events import Event, Result, SessionStart, Usage, UsageDelta
from harness.stage import ViewOptions
from harness.views import usage
from harness.views.usage import UsageFold, summary
from showing import shown

NOTHING = {
    "input": None,
    "output": None,
    "cache_read": None,
    "cache_write": None,
    "reasoning": None,
    "cost_usd": None,
    "cost_source": None,
}

RUN: list[Event] = [
    SessionStart(session_id="s", agent="claude", model="big", run_id="top"),
    UsageDelta(
        usage=Usage(input=100, output=10, cache_read=0, cost_usd=0.02, cost_source="stated"), run_id="top"
    ),
    SessionStart(run_id="kid", parent_id="call_1", name="Explore", model="small"),
    UsageDelta(usage=Usage(input=5, output=0), run_id="kid"),
    UsageDelta(usage=Usage(input=1, output=2), model="other", run_id="kid"),
    Result(success=True, run_id="kid", usage=Usage(input=9999)),
    Result(success=True, run_id="top", duration_ms=1500),
]


def fold(*events: Event) -> UsageFold:
    view = UsageFold()
    for event in events:
        view.feed(event)
    return view


def report(*events: Event) -> Any:
    return json.loads(shown("usage", *events))


def test_totals_models_and_runs_are_separate() -> None:
    own = {
        **NOTHING,
        "input": 100,
        "output": 10,
        "cache_read": 0,
        "cost_usd": 0.02,
        "cost_source": "stated",
    }

    assert report(*RUN) == {
        "type": "usage",
        "session_id": "s",
        "agent": "claude",
        "total": {**own, "input": 106, "output": 12},
        "duration_ms": 1500,
        "models": [
            {"model": "big", "usage": own},
            {"model": "small", "usage": {**NOTHING, "input": 5, "output": 0}},
            {"model": "other", "usage": {**NOTHING, "input": 1, "output": 2}},
        ],
        "runs": [
            {
                "run_id": "top",
                "parent_id": None,
                "name": None,
                "agent": "claude",
                "model": "big",
                "usage": own,
            },
            {
                "run_id": "kid",
                "parent_id": "call_1",
                "name": "Explore",
                "agent": None,
                "model": "small",
                "usage": {**NOTHING, "input": 6, "output": 2},
            },
        ],
    }


def test_silence_is_null_and_a_stated_zero_is_zero() -> None:
    total = report(SessionStart(agent="a"), UsageDelta(usage=Usage(output=0)))["total"]

    assert (total["input"], total["output"]) == (None, 0)


def test_a_run_that_used_nothing_is_listed_with_nothing() -> None:
    found = report(SessionStart(agent="a"), Result(success=True))

    assert found["total"] == NOTHING
    assert found["models"] == []
    assert [run["usage"] for run in found["runs"]] == [NOTHING]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["stated", "stated"], "stated"),
        (["computed"], "computed"),
        (["computed", "stated"], "mixed"),
        ([], None),
    ],
)
def test_it_is_said_where_the_cost_comes_from(sources: list[Any], expected: str | None) -> None:
    deltas = [UsageDelta(usage=Usage(cost_usd=0.5, cost_source=source)) for source in sources]

    assert report(SessionStart(agent="a"), *deltas)["total"]["cost_source"] == expected


def test_what_the_run_says_at_its_end_counts_if_it_is_more() -> None:
    total = report(
        SessionStart(agent="a"),
        UsageDelta(usage=Usage(input=10, output=5)),
        Result(success=True, total_cost_usd=0.3, usage=Usage(input=8, output=7)),
    )["total"]

    assert total == {**NOTHING, "input": 10, "output": 7, "cost_usd": 0.3, "cost_source": "stated"}


@pytest.mark.parametrize("cut", range(len(RUN) + 1))
def test_a_restored_snapshot_continues_as_if_nothing_had_happened(cut: int) -> None:
    before = fold(*RUN[:cut])
    snapshot = json.loads(json.dumps(before.snapshot()))
    after = UsageFold()
    after.restore(snapshot)
    for event in RUN[cut:]:
        after.feed(event)

    assert after.value == fold(*RUN).value
    assert before.value == fold(*RUN[:cut]).value


def test_the_view_is_the_fold() -> None:
    assert isinstance(usage.open(ViewOptions()), UsageFold)


@pytest.mark.parametrize(
    ("used", "duration_ms", "line"),
    [
        (Usage(input=1234, output=950, cost_usd=0.0426), 12_340, "Total: 1.2k in / 950 out, $0.043, 12.3s"),
        (Usage(input=3_400_000, output=999), None, "Total: 3.4M in / 999 out"),
        (Usage(output=5, reasoning=7), 100, "Total: 0 in / 12 out, 0.1s"),
        (Usage(input=9, cost_usd=0.0), None, "Total: 9 in / 0 out, $0.000"),
        (Usage(input=999_960, cost_usd=0.0004), None, "Total: 1.0M in / 0 out, <$0.001"),
        (Usage(cost_usd=1.0), None, "Total: 0 in / 0 out, $1.000"),
        (Usage(input=0, output=0, cost_usd=0.0), 100, ""),
        (Usage(), 100, ""),
    ],
)
def test_the_summary_is_one_line_or_nothing(used: Usage, duration_ms: int | None, line: str) -> None:
    value = fold(
        SessionStart(agent="a"), UsageDelta(usage=used), Result(success=True, duration_ms=duration_ms)
    ).value

    assert summary(value) == line
