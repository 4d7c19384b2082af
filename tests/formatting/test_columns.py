"""Text fits its room, and no character is broken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.formatting.columns import Flow, clusters, columns, cut, wrapped

TEXT = st.text(
    st.one_of(st.sampled_from("ab \n\t漢字é\u0301👨\u200d👩🇩🇪\ufe0f☂🏽각"), st.characters(codec="utf-8"))
).map(lambda text: text.replace("\r", ""))
FAMILY = "👨\u200d👩\u200d👧"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", 3),
        ("漢字", 4),
        ("e\u0301", 1),
        ("\u200b", 0),
        ("☂\ufe0f", 2),
        ("🇩🇪", 2),
        ("ﾊﾝｶｸ", 4),
        ("각", 2),
    ],
)
def test_the_width_is_what_a_terminal_shows(text: str, expected: int) -> None:
    assert columns(text) == expected


def test_what_belongs_together_stays_together() -> None:
    assert list(clusters(f"ae\u0301{FAMILY}🇩🇪🇫🇷👍🏽")) == ["a", "e\u0301", FAMILY, "🇩🇪", "🇫🇷", "👍🏽"]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("hello", 5, "hello"),
        ("hello", 4, "hel…"),
        ("漢字漢", 5, "漢字…"),
        ("漢字漢", 4, "漢…"),
        (FAMILY + "ab", 5, "…"),
        ("x" * 1_000_000, 3, "xx…"),
        ("ab", 0, ""),
        ("ab", -1, ""),
    ],
)
def test_what_does_not_fit_is_cut_between_characters(text: str, width: int, expected: str) -> None:
    assert cut(text, width) == expected


@given(TEXT.map(lambda text: text.replace("\n", "")), st.integers(0, 30))
def test_a_cut_text_is_never_too_wide(text: str, width: int) -> None:
    assert columns(cut(text, width)) <= width


def test_words_are_kept_whole_and_indentation_is_kept() -> None:
    flow = Flow(11)

    assert flow.feed("one two three four\n  in dented\n\nend ") + flow.end_line() == (
        "one two\nthree four\n  in dented\n\nend\n"
    )


def test_the_last_word_waits_until_it_is_whole() -> None:
    flow = Flow(8)

    assert [flow.feed("abc de"), flow.feed("fgh"), flow.feed(" i"), flow.flush()] == [
        "abc",
        "",
        "\ndefgh",
        " i",
    ]


def test_scripts_without_blanks_flow_at_once_and_fill_the_line() -> None:
    flow = Flow(7)

    assert flow.feed("漢字漢字") + "|" + flow.feed("漢") + flow.flush() == "漢字漢|\n字漢"


def test_a_word_wider_than_the_line_is_broken() -> None:
    flow = Flow(4)

    assert flow.feed("a bcdefghijk l") + flow.flush() == "a bc\ndefg\nhijk\nl"


@given(st.lists(TEXT), st.integers(2, 30))
def test_flowing_text_is_never_too_wide_and_loses_nothing_but_blanks(pieces: list[str], width: int) -> None:
    flow = Flow(width)
    shown = "".join(map(flow.feed, pieces)) + flow.flush()

    widest = max([width, *(columns(cluster) for cluster in clusters("".join(pieces)))])
    assert all(columns(line) <= widest for line in shown.split("\n"))
    assert _inked(shown) == _inked("".join(pieces))


def _inked(text: str) -> str:
    return text.translate(dict.fromkeys(map(ord, " \t\n")))


def test_an_endless_word_is_not_kept_in_memory() -> None:
    flow = Flow(80)
    for _ in range(1000):
        flow.feed("x" * 50)

    assert len(flow._pending) <= 80


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("a b", 2, ["a b"]),
        ("a\nb\n\n", 2, ["a", "b"]),
        ("a\nb\nc", 2, ["a", "b …"]),
        ("word " * 1000, 2, ["word word", "word wor…"]),
    ],
)
def test_a_long_text_is_shown_by_its_beginning(text: str, most: int, expected: list[str]) -> None:
    assert wrapped(text, 9, most=most) == expected


def test_an_item_of_a_list_continues_below_its_text() -> None:
    text = "- first item of these\n  10. nested and long\nplain words again"

    assert wrapped(text, 16, most=9) == [
        "- first item of",
        "  these",
        "  10. nested and",
        "      long",
        "plain words",
        "again",
    ]
