"""The line that is being typed: any split of the keys gives the same lines, and nothing typed is obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli.chat.line_editor import LineEditor, LineSplitter
from harness.formatting.columns import columns

UP, DOWN, LEFT, RIGHT, HOME, END = (f"\x1b[{letter}" for letter in "ABDCHF")


def typed(*keys: str) -> list[str | None]:
    return LineEditor().feed("".join(keys).encode())


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("hello\r", "hello"),
        ("héllo wörld\n", "héllo wörld"),
        ("ab\x7fc\r", "ac"),
        (f"ac{LEFT}b\r", "abc"),
        (f"bc{HOME}a{END}d\r", "abcd"),
        ("bc\x01a\x05d\r", "abcd"),
        ("one two\x17three\r", "one three"),
        ("one two\x15three\r", "three"),
        (f"one two{LEFT}{LEFT}{LEFT}\x0b\r", "one "),
        (f"abc{LEFT}{LEFT}\x1b[3~\r", "ac"),
        (f"ab{LEFT}{LEFT}{LEFT}{RIGHT}{RIGHT}{RIGHT}c\r", "abc"),
        ("a\x1b[17;5~b\x1bOPc\x1bxd\r", "abcd"),
        ("\x1b[200~two\rlines\x1b[201~\r", "two\nlines"),
        ("\x7f\x7fa\r", "a"),
        (f"ab\x1b[200~{UP}c\x15\x04\x1bd\x1b[201~\r", "ab[Acd"),
        ("\x1b[200~\x04\x1b[201~a\r", "a"),
        ("\x1b[200~one\ttwo\x1b\x1b[201~\r", "one\ttwo"),
    ],
)
def test_a_line_is_edited_as_everywhere(keys: str, line: str) -> None:
    assert typed(keys) == [line]


def test_earlier_lines_come_back() -> None:
    assert typed("one\rtwo\rtwo\r", UP, UP, "\r") == ["one", "two", "two", "one"]
    assert typed("one\r", UP, DOWN, "x\r") == ["one", "x"]


def test_the_end_of_input_is_no_line() -> None:
    assert typed("\x04") == [None]
    assert typed("ab", LEFT, "\x04", "\r") == ["a"]
    assert LineEditor().feed(b"") == [None]
    splitter = LineSplitter()
    assert splitter.feed(b"one\r\ntw") == ["one"]
    assert splitter.feed(b"o") == []
    assert splitter.feed(b"") == ["two", None]


KEYS = st.lists(
    st.sampled_from(
        [UP, LEFT, HOME, "\x1b[3~", "\x7f", "\x17", "\r", "\x1b[200~", "\x1b[201~", "é", "字", "a", " "]
    )
)


@settings(max_examples=60, deadline=None)
@given(KEYS, st.integers(1, 5))
def test_any_split_gives_the_same_lines(keys: list[str], size: int) -> None:
    data = "".join(keys).encode()
    one, other = LineEditor(), LineEditor()
    whole = one.feed(data) if data else []
    pieces = [line for start in range(0, len(data), size) for line in other.feed(data[start : start + size])]
    assert (pieces, other.text) == (whole, one.text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.integers(4, 30))
def test_what_is_drawn_fits_and_commands_nothing(text: str, width: int) -> None:
    editor = LineEditor()
    editor.feed(b"\x1b[200~" + text.encode("utf-8", "replace"))
    shown, cursor = editor.drawn(width)
    assert columns(shown) <= width
    assert cursor <= width
    assert not any(character < " " for character in shown)


def test_a_large_text_that_is_pasted_costs_what_its_length_does() -> None:
    """Key by key a megabyte took minutes."""
    editor, text = LineEditor(), "a line of a log\n" * 65_536
    data = f"\x1b[200~{text}\x1b[201~\r".encode()
    calls = 0
    insert = editor._insert

    def count(one: str) -> None:
        nonlocal calls
        calls += 1
        insert(one)

    editor._insert = count  # type: ignore[method-assign]
    lines = [line for at in range(0, len(data), 65_536) for line in editor.feed(data[at : at + 65_536])]
    assert lines == [text]
    assert calls <= len(data) // 65_536 + 1
