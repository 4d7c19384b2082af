"""The bill over many sessions: what a run used, what it cost, and how that is rolled up."""

from __future__ import annotations

from typing import Any

import pytest

from harness.events import Event, Info, Message, Usage
from harness.log import codec
from harness.log.store import Metadata
from harness.usage.ledger import WORDS, Amount, Ledger, rolled_up, total
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

# --- What a run used


def test_deltas_add_up_and_the_result_is_not_added_to_them() -> None:
    amount = sum_of(
        [
            started("r"),
            used("r", Usage(input=100, output=10)),
            used("r", Usage(input=1)),
            ended("r", Usage(input=101, output=10)),
        ]
    )

    assert (amount.input, amount.output, amount.sessions) == (101, 10, 1)


def test_a_class_that_was_not_reported_is_unknown_and_one_that_was_zero_is_zero() -> None:
    amount = sum_of([started("r"), used("r", Usage(input=5, cache_read=0))])

    assert (amount.input, amount.cache_read, amount.cache_write, amount.reasoning) == (5, 0, None, None)


def test_nothing_used_is_nothing_known() -> None:
    amount = sum_of([started("r"), ended("r", Usage(input=7))])

    assert amount == Amount(
        sessions=0,
        input=None,
        cache_read=None,
        cache_write=None,
        output=None,
        reasoning=None,
        cost_usd=None,
        cost_source=None,
        is_cost_complete=True,
    )


def test_sessions_that_tell_nothing_are_counted_apart() -> None:
    ledger = Ledger()
    ledger.add(Metadata(session_id="a"), [started("a", at=5), ended("a")])
    ledger.add(Metadata(session_id="b"), [started("b", at=5), used("b", Usage(input=1)), ended("b")])
    ledger.add(Metadata(session_id="c"), [started("c", at=1), ended("c")])

    assert (ledger.silent(), ledger.silent(since_ms=2)) == (2, 1)


# --- What it cost


def test_what_the_agent_states_counts_and_nothing_is_computed_beside_it() -> None:
    amount = sum_of(
        [started("r"), used("r", Usage(input=1_000_000)), used("r", stated(0.5, output=1)), ended("r")]
    )

    assert (amount.cost_usd, amount.cost_source, amount.is_cost_complete) == (0.5, "stated", True)


def test_a_stated_cost_is_that_of_the_sub_agents_as_well() -> None:
    amount = sum_of(
        [
            started("top"),
            started("kid", parent_id="call", name="Explore"),
            used("kid", Usage(input=1_000_000)),
            ended("kid"),
            used("top", stated(2.0, input=5)),
            ended("top"),
        ]
    )

    assert (amount.input, amount.cost_usd, amount.cost_source) == (1_000_005, 2.0, "stated")


def test_a_stated_cost_of_nothing_is_a_cost() -> None:
    amount = sum_of([started("r"), used("r", stated(0.0, input=9))])

    assert (amount.cost_usd, amount.cost_source) == (0.0, "stated")


def test_a_cost_that_is_stated_of_one_call_says_nothing_of_the_others() -> None:
    """OpenCode, Kilo and Pi state it where they know the price of the model."""
    known, unlisted = Usage(input=1_000_000), Usage(input=1)
    first: list[Event] = [started("r"), used("r", stated(0.5, input=9), call="1"), used("r", known, call="2")]
    amount = sum_of(first)
    assert (amount.cost_usd, amount.cost_source, amount.is_cost_complete) == (10.5, "mixed", True)

    amount = sum_of([*first, used("r", unlisted, model="unheard-of", call="3")])
    assert (amount.cost_usd, amount.is_cost_complete) == (10.5, False)

    amount = sum_of([*first, used("r", stated(0.75))])  # of the whole run
    assert (amount.cost_usd, amount.cost_source) == (1.25, "stated")


def test_what_failed_and_cost_nothing_states_no_cost_of_the_run() -> None:
    failed = stated(0.0, input=0, output=0)
    assert (
        sum_of([started("r"), used("r", failed), used("r", Usage(input=1_000_000), call="1")]).cost_usd == 10
    )


def test_without_a_statement_the_cost_is_computed_model_by_model() -> None:
    amount = sum_of(
        [
            started("r"),
            used("r", Usage(input=1_000_000)),
            used("r", Usage(output=1_000_000), model="vendor/small-20250101"),
        ]
    )

    assert (amount.cost_usd, amount.cost_source, amount.is_cost_complete) == (15.0, "computed", True)


def test_tokens_without_a_price_have_no_cost() -> None:
    amount = sum_of([started("r", model="unheard-of"), used("r", Usage(input=1))])

    assert (amount.cost_usd, amount.cost_source, amount.is_cost_complete) == (None, None, False)


def test_a_sum_with_tokens_that_have_no_price_says_that_it_is_too_low() -> None:
    amount = sum_of(
        [started("r"), used("r", Usage(input=1_000_000)), used("r", Usage(input=1), model="unheard-of")]
    )

    assert (amount.cost_usd, amount.cost_source, amount.is_cost_complete) == (10.0, "computed", False)


def test_stated_and_computed_costs_together_are_mixed() -> None:
    one, other = [started("a"), used("a", stated(1.0))], [started("b"), used("b", Usage(input=1_000_000))]

    assert (sum_of(one, other).cost_usd, sum_of(one, other).cost_source) == (11.0, "mixed")


def test_the_model_is_that_of_the_call_then_of_the_run_then_what_was_asked_for() -> None:
    ledger = Ledger()
    events = [
        started("r", model=""),
        used("r", Usage(input=1)),
        used("r", Usage(input=1), model="small"),
        started("kid", parent_id="c", model="middle"),
        used("kid", Usage(input=1)),
        started("other", parent_id="d", model=""),
        used("other", Usage(input=1)),
    ]
    ledger.add(Metadata(session_id="l", model="asked-for"), events)

    assert [charge.model for charge in ledger.charges(PRICES, day_of)] == ["asked-for", "small", "middle", ""]


# --- Rolling up

TWO_DAYS: list[Event] = [
    started("top", at=DAY_MS),
    used("top", Usage(input=1_000_000), at=DAY_MS),
    started("kid", parent_id="c", name="Explore", model="small", at=DAY_MS),
    used("kid", Usage(input=1_000_000), at=DAY_MS),
    ended("kid"),
    used("top", Usage(input=2_000_000), at=2 * DAY_MS),
    ended("top"),
]
LATER: list[Event] = [
    started("z", at=3 * DAY_MS, agent="codex", model=""),
    used("z", Usage(input=1), at=3 * DAY_MS),
]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("agent", [("claude", 31.0), ("codex", None)]),
        ("model", [("big", 30.0), ("small", 1.0), ("", None)]),
        ("day", [("day 1", 11.0), ("day 2", 20.0), ("day 3", None)]),
        ("session", [("log 1", None), ("log 0", 31.0)]),
        ("sub-agent", [("", 30.0), ("Explore", 1.0)]),
    ],
)
def test_everything_is_rolled_up_without_counting_twice(by: Any, expected: list[tuple[str, Any]]) -> None:
    found = charges(TWO_DAYS, LATER)
    rows = rolled_up(found, by)

    assert [(row.key, row.amount.cost_usd) for row in rows] == expected
    assert sum(row.amount.input or 0 for row in rows) == total(found).input == 4_000_001


def test_only_what_was_used_since_then_counts_but_earlier_totals_are_still_taken_off() -> None:
    first: list[Event] = [started("a", session_id="t", at=1), used("a", Usage(input=100), at=1)]
    second: list[Event] = [
        started("b", session_id="t", at=DAY_MS),
        used("b", Usage(input=150), at=DAY_MS),
        cumulative("b"),
    ]

    assert total(charges(first, second, since_ms=DAY_MS)).input == 50
    assert total(charges(TWO_DAYS, since_ms=2 * DAY_MS)).input == 2_000_000


def test_events_that_do_not_speak_of_usage_make_no_difference() -> None:
    def chatty(events: list[Event]) -> list[Event]:
        return [
            one for event in events for one in (event, Message(role="user", text="x", run_id=event.run_id))
        ]

    assert charges(chatty(TWO_DAYS), chatty(LATER)) == charges(TWO_DAYS, LATER)


def test_every_event_that_matters_has_one_of_the_words_in_its_line() -> None:
    kinds = [
        started("r"),
        used("r", Usage()),
        ended("r"),
        cumulative("r"),
        Info(message="", code="session_id", session_id="s"),
        Info(message="", code="new_session", session_id="s"),
        asked("r", "call-1"),
    ]
    for event in kinds:
        line = codec.encode(event).decode()
        assert any(f'"{word}"' in line for word in WORDS), line
