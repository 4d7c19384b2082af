"""Sessions that are continued: nothing is counted twice."""

from __future__ import annotations

import pytest

from harness.events import Event, Info, Usage
from harness.log.store import Metadata
from harness.usage.ledger import Ledger, total
from ledger_logs import (
    DAY_MS,
    PRICES,
    asked,
    charges,
    cumulative,
    day_of,
    ended,
    started,
    stated,
    sum_of,
    used,
)


def test_a_run_that_reports_its_whole_session_counts_for_what_it_adds() -> None:
    def run(name: str, at: int, count: int, *, whole: bool) -> list[Event]:
        notice = [cumulative(name)] if whole else []
        usage = Usage(input=count, output=count // 10)
        return [started(name, at=at, session_id="thread"), used(name, usage, at=at), *notice, ended(name)]

    first, second, third = (
        run("a", 1, 3000, whole=False),
        run("b", 2, 4500, whole=True),
        run("c", 3, 6000, whole=True),
    )

    for order in ([first, second, third], [third, first, second]):
        amount = sum_of(*order)
        assert (amount.input, amount.output, amount.sessions) == (6000, 600, 3)


def test_what_it_adds_is_taken_from_its_first_words_on() -> None:
    first: list[Event] = [started("a", session_id="t", at=1), used("a", Usage(input=100, output=10))]
    second: list[Event] = [
        started("b", session_id="t", at=2),
        used("b", Usage(input=150, output=15), at=DAY_MS, model="big"),
        cumulative("b"),
        used("b", Usage(input=7, output=1), at=2 * DAY_MS, model="small"),
    ]

    found = {charge.model: charge.usage for charge in charges(first, second) if charge.session_id == "log 1"}

    assert (found["big"].input, found["big"].output) == (50, 5)
    assert (found["small"].input, found["small"].output) == (7, 1)


def test_a_stated_cost_of_the_whole_session_is_split_as_well() -> None:
    first: list[Event] = [started("a", session_id="t", at=1), used("a", stated(1.0, input=100))]
    second: list[Event] = [
        started("b", session_id="t", at=2),
        used("b", stated(1.5, input=150)),
        cumulative("b"),
    ]

    amount = sum_of(first, second)

    assert (amount.input, amount.cost_usd) == (150, 1.5)


def test_a_run_that_was_cut_off_before_it_reported_anything_is_counted_with_the_next() -> None:
    first: list[Event] = [started("a", session_id="t", at=1), used("a", Usage(input=100))]
    lost: list[Event] = [started("b", session_id="t", at=2), ended("b")]
    third: list[Event] = [started("c", session_id="t", at=3), used("c", Usage(input=400)), cumulative("c")]

    assert sum_of(first, lost, third).input == 400


@pytest.mark.parametrize("other", [{"session_id": "another"}, {"agent": "codex"}])
def test_only_earlier_runs_of_the_same_session_of_the_same_agent_are_taken_off(other: dict[str, str]) -> None:
    first: list[Event] = [started("a", **{"session_id": "t", **other}), used("a", Usage(input=100))]
    second: list[Event] = [
        started("b", session_id="t", at=2),
        used("b", Usage(input=150)),
        cumulative("b"),
    ]
    ledger = Ledger()
    ledger.add(Metadata(session_id="x"), first)
    ledger.add(Metadata(session_id="y"), second)

    assert total(ledger.charges(PRICES, day_of)).input == 250
    assert ledger.unsettled == ["y"]


def test_a_total_that_started_at_zero_again_is_not_that_of_the_earlier_runs() -> None:
    first: list[Event] = [started("a", session_id="t", at=1), used("a", Usage(input=1000))]
    second: list[Event] = [started("b", session_id="t", at=2), used("b", Usage(input=150)), cumulative("b")]

    assert sum_of(first, second).input == 1150


def test_a_newer_version_may_split_the_same_total_into_more_classes() -> None:
    old = Usage(input=600, cache_read=900, output=64)
    new = Usage(input=1000, cache_read=1800, cache_write=200, output=60, reasoning=68)
    first: list[Event] = [started("a", session_id="t", at=1), used("a", old)]
    second: list[Event] = [started("b", session_id="t", at=2), used("b", new), cumulative("b")]

    amount = sum_of(first, second)

    assert (amount.input, amount.cache_read, amount.cache_write, amount.reasoning) == (1000, 1800, 200, 68)


def test_runs_that_tell_only_their_own_usage_add_up() -> None:
    first: list[Event] = [started("a", session_id="t", at=1), used("a", Usage(input=100))]
    second: list[Event] = [started("b", session_id="t", at=2), used("b", Usage(input=150))]

    assert sum_of(first, second).input == 250


def test_a_model_call_that_a_later_run_of_the_session_reports_again_counts_once() -> None:
    first: list[Event] = [
        started("a", session_id="t", at=1),
        used("a", Usage(input=100, output=10), call="m1"),
        used("a", Usage(input=200, output=20), call="m2"),
    ]
    again: list[Event] = [
        started("b", session_id="t", at=2),
        used("b", Usage(input=100, output=10), call="m1"),
        used("b", Usage(input=200, output=20), call="m2"),
        used("b", Usage(input=300, output=30), call="m3"),
    ]

    amount = sum_of(first, again, again)

    assert (amount.input, amount.output) == (600, 60)
    assert [charge.session_id for charge in charges(first, again)] == ["log 0", "log 1"]


def test_what_a_call_is_reported_to_have_used_later_counts_when_it_is_more() -> None:
    cut_off: list[Event] = [
        started("a", session_id="t", at=1),
        used("a", Usage(input=100, output=1), call="m"),
    ]
    whole: list[Event] = [
        started("b", session_id="t", at=2),
        used("b", Usage(input=100, output=42), call="m"),
    ]
    again: list[Event] = [
        started("c", session_id="t", at=3),
        used("c", Usage(input=100, output=42), call="m"),
    ]

    amount = sum_of(cut_off, whole, again)

    assert (amount.input, amount.output) == (100, 42)


def test_within_a_run_the_pieces_of_a_call_add_up_also_when_it_is_reported_again() -> None:
    pieces = [Usage(input=100, output=1), Usage(output=41)]
    first: list[Event] = [
        started("a", session_id="t", at=1),
        *(used("a", piece, call="m") for piece in pieces),
    ]
    again: list[Event] = [
        started("b", session_id="t", at=2),
        *(used("b", piece, call="m") for piece in pieces),
    ]

    assert (sum_of(first).output, sum_of(first, again).output) == (42, 42)
    assert sum_of(first, again).input == 100


def test_the_same_id_in_another_session_is_another_call() -> None:
    first: list[Event] = [started("a", session_id="t", at=1), used("a", Usage(input=100), call="m1")]
    other: list[Event] = [started("b", session_id="u", at=2), used("b", Usage(input=100), call="m1")]

    assert sum_of(first, other).input == 200


def test_a_session_id_that_is_reported_only_at_the_end_is_the_sessions() -> None:
    def run(name: str, at: int) -> list[Event]:
        named = Info(message="", code="session_id", run_id=name, session_id="t")
        return [
            started(name, at=at, session_id=name),
            used(name, Usage(input=100), call="m1"),
            named,
            ended(name),
        ]

    assert sum_of(run("a", 1), run("b", 2)).input == 100


def test_a_log_may_hold_many_runs_each_with_its_own_cost() -> None:
    thread: list[Event] = [
        started("a", at=1, session_id="t"),
        used("a", stated(1.0, input=100)),
        ended("a"),
        started("b", at=2, session_id="t", agent="codex"),
        started("kid", parent_id="call", name="Explore"),
        used("kid", Usage(input=1_000_000)),
        ended("kid"),
        used("b", Usage(input=1_000_000)),
        ended("b"),
    ]

    found = charges(thread)

    assert [(charge.agent, charge.usage.cost_usd, charge.sub_agent) for charge in found] == [
        ("claude", 1.0, ""),
        ("codex", 10.0, "Explore"),
        ("codex", 10.0, ""),
    ]
    assert total(found).cost_source == "mixed"


def test_a_child_without_a_call_is_still_part_of_the_run() -> None:
    events: list[Event] = [
        started("top"),
        started("kid", agent="", model=""),
        used("kid", stated(1.0)),
        ended("kid"),
        used("top", Usage(input=1_000_000)),
        ended("top"),
    ]

    assert sum_of(events).cost_usd == 1.0


def _through_gateway(run: str, at: int, *usages: Usage) -> list[Event]:
    calls: list[Event] = []
    for number, usage in enumerate(usages, 1):
        calls += [asked(run, f"call-{number}"), used(run, usage, at=at, call=f"call-{number}")]
    return [started(run, at=at, session_id="t"), *calls, ended(run)]


def test_each_run_through_a_gateway_has_calls_of_its_own() -> None:
    """A gateway numbers them from 1 on, whichever session its agent continues."""
    used_once = Usage(input=100, output=10)
    first, second = _through_gateway("a", 1, used_once), _through_gateway("b", 2, used_once, used_once)
    alone: list[Event] = [started("c", at=3, session_id="t"), used("c", used_once, at=3, call="call-1")]
    for logs in ([first, second, alone], [alone, second, first]):
        assert sum_of(*logs).input == 400


def test_what_an_agent_says_of_its_whole_session_is_not_taken_for_what_a_gateway_has_counted() -> None:
    first: list[Event] = [started("a", at=1, session_id="t"), used("a", Usage(input=100), at=1)]
    second = [*_through_gateway("b", 2, Usage(input=250)), cumulative("b")]
    assert sum_of(first, second).input == 350
    ledger = Ledger()
    ledger.add(Metadata(session_id="only"), second)
    ledger.charges(PRICES, day_of)
    assert ledger.unsettled == []
