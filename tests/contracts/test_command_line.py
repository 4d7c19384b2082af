"""A request as flags: whatever table an agent has."""

from __future__ import annotations

import pytest

from harness.contracts.command_line import flags_of, has, numbers_of
from harness.contracts.request import Limits, Request

REQUEST = Request(
    agent="otter",
    model="m",
    resume="s-1",
    continue_last=True,
    limits=Limits(max_turns=0, max_budget_usd=0.0000025),
)


def test_flags_stand_in_the_order_of_the_table_and_only_for_what_was_asked() -> None:
    table = {"max_turns": "--turns", "system_prompt": "--system", "model": "--model"}

    assert flags_of(REQUEST, table) == ["--turns", "0", "--model", "m"]
    assert flags_of(Request(agent="otter"), table) == []


def test_a_session_that_is_named_goes_before_the_latest_one() -> None:
    assert flags_of(REQUEST, {"resume": "--session", "continue_last": "--last"}) == ["--session", "s-1"]
    assert flags_of(REQUEST, {"continue_last": "--last"}) == ["--last"]


def test_a_flag_with_an_equals_sign_keeps_its_value() -> None:
    assert flags_of(REQUEST, {"resume": "--resume="}) == ["--resume=s-1"]


def test_an_amount_has_no_exponent() -> None:
    assert flags_of(REQUEST, {"max_budget_usd": "--budget"}) == ["--budget", "0.0000025"]


@pytest.mark.parametrize(
    ("version", "expected"), [("2.1.325-beta", True), ("v2.1", True), ("2.0.9", False), ("", True)]
)
def test_a_version_that_is_unknown_is_taken_for_the_latest(version: str, expected: bool) -> None:
    assert has(numbers_of(version), (2, 1)) is expected
