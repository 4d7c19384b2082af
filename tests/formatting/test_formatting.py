"""The small things that views are made of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.events import SessionStart, TextDelta, ToolStart, Usage
from harness.formatting.amounts import cost, duration, money, settled, tokens
from harness.formatting.escapes import neutralised, single_line
from harness.formatting.fences import closed, code_span, fenced
from harness.formatting.json_text import compact, pretty
from harness.log.run_tree import RunTree, Shown

ANY_TEXT = st.text(st.characters(exclude_categories=()))
MARKUP = st.text(st.sampled_from("`~a \n"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\n\ttext é 漢 😀", "plain\n\ttext é 漢 😀"),
        ("\x1b[31m", "␛[31m"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("\x00\x07\x7f", "␀␇␡"),
        ("\x85\x9b", "<U+0085><U+009B>"),
        ("\u202e\u2066", "<U+202E><U+2066>"),
        ("\ud800", "\ufffd"),
        ("שלום \u200f", "שלום \u200f"),
    ],
)
def test_commanding_characters_are_shown(text: str, expected: str) -> None:
    assert neutralised(text) == expected


@given(ANY_TEXT)
def test_whatever_comes_in_nothing_commanding_goes_out(text: str) -> None:
    safe = neutralised(text)

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", safe)
    assert neutralised(safe) == safe
    assert "\n" not in single_line(text)
    safe.encode()


@given(MARKUP)
def test_a_fence_holds_whatever_it_is_put_around(text: str) -> None:
    first, *body, last = fenced(text, "x").split("\n")

    assert last == first.removesuffix("x")
    assert all(last not in line for line in body)


@given(MARKUP)
def test_closing_twice_is_closing_once(text: str) -> None:
    assert closed(closed(text)) == closed(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a"),
        ("```\nx\n```", "```\nx\n```"),
        ("```py\nx", "```py\nx\n```"),
        ("~~~\n```\n", "~~~\n```\n~~~"),
        ("````\n```\n", "````\n```\n````"),
        ("```not`a fence", "```not`a fence"),
        ("    ```\nindented code", "    ```\nindented code"),
    ],
)
def test_an_open_code_block_is_closed(text: str, expected: str) -> None:
    assert closed(text) == expected


def test_code_in_a_line_may_hold_backticks() -> None:
    assert [code_span("a"), code_span("a``b"), code_span("")] == ["`a`", "``` a``b ```", ""]


def test_numbers_are_short() -> None:
    assert [tokens(0), tokens(999), tokens(1000), tokens(2_345_678)] == ["0", "999", "1.0k", "2.3M"]
    assert [duration(40), duration(61_000), duration(3_720_000)] == ["0.0s", "1m 01s", "1h 02m"]
    assert [money(0.0004), money(0.0426), money(12)] == ["<$0.001", "$0.043", "$12.000"]


def test_a_small_cost_is_not_shown_as_none() -> None:
    assert [cost(one) for one in (0.0, 0.0004, 0.001, 0.0094, 0.01, 12.344)] == [
        *("$0.00", "<$0.001", "$0.001", "$0.009", "$0.01", "$12.34"),
    ]
    assert (cost(0.0004, is_complete=False), cost(None)) == ("≥ $0.000", "")


def test_any_value_can_be_written_as_json() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]

    assert compact({"a": "\ud800"}) == '{"a":"\ufffd"}'
    assert compact(deep).startswith("[[[")
    assert pretty(deep)
    assert pretty({"a": []}) == '{\n  "a": []\n}'


def test_runs_hang_below_the_calls_that_began_them() -> None:
    tree = RunTree()
    early = SessionStart(run_id="early", parent_id="call_0")
    for event in (
        early,
        SessionStart(run_id="top"),
        ToolStart(call_id="call_1", tool_name="t", run_id="top"),
        SessionStart(run_id="kid", parent_id="call_1"),
        ToolStart(call_id="call_2", tool_name="t", run_id="kid"),
        SessionStart(run_id="grandkid", parent_id="call_2"),
        SessionStart(run_id="second"),
        SessionStart(run_id="top"),
    ):
        tree.feed(event)

    depths = {run: tree.depth(run) for run in ("top", "kid", "grandkid", "second", "early", "unheard of")}
    assert depths == {"top": 0, "kid": 1, "grandkid": 2, "second": 1, "early": 1, "unheard of": 1}
    assert tree.ancestors("grandkid") == ["kid", "top"]
    assert [tree.feed(TextDelta(text="", run_id=run)).depth for run in ("top", "early")] == [0, 1]


def test_before_the_top_run_is_known_only_announced_children_are_children() -> None:
    tree = RunTree()
    tree.feed(SessionStart(run_id="kid", parent_id="c"))

    assert [tree.depth("kid"), tree.depth("unknown")] == [1, 0]


def test_a_message_is_known_by_its_pieces() -> None:
    shown = Shown()
    shown.add("Hé")
    shown.add("llo")

    assert shown.rest("m", "Héllo there") == " there"
    assert shown.rest("m", "Héll") == ""
    assert shown.rest("", "Other") is None
    assert Shown().rest("m", "Héllo") is None


def test_the_larger_of_sum_and_statement_counts() -> None:
    used = Usage(input=5, output=0, cost_usd=0.2, cost_source="computed")

    assert settled(used, None, None) == used
    assert settled(used, Usage(input=3, cache_read=1), 0.1) == Usage(
        input=5, output=0, cache_read=1, cost_usd=0.2, cost_source="computed"
    )
    assert settled(Usage(), None, 0.1) == Usage(cost_usd=0.1, cost_source="stated")
