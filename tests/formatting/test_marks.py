"""Places of a text that would be read wrongly."""

from __future__ import annotations

import pytest

from harness.formatting.escapes import revealed
from harness.formatting.marks import marks_of, utf16_length


@pytest.mark.parametrize(
    ("text", "kind", "label"),
    [
        ("a\x1bb", "control", "␛"),
        ("a\u200bb", "invisible", "<U+200B>"),
        ("a\u202eb", "direction", "<U+202E>"),
        ("a\u00a0b", "blank", "<U+00A0>"),
        ("rm" + " " * 40 + "x", "blanks", "⟨40 blanks⟩"),
        ("a\n\n\n\n\nb", "empty-lines", "⟨4 empty lines⟩"),
        ("pаypal", "look-alike", "а⟨U+0430⟩"),
        ("ls ／etc", "look-alike", "／⟨U+FF0F⟩"),
    ],
)
def test_what_is_marked(text: str, kind: str, label: str) -> None:
    (mark,) = marks_of(text)
    assert (mark.kind, mark.label) == (kind, label)


@pytest.mark.parametrize(
    "text", ["make test", "привет, мир", "日本語 テスト", "naïve café — “quoted”", "a\n\tb\n\nc", "🎉"]
)
def test_what_people_write_is_not(text: str) -> None:
    assert marks_of(text) == []


def test_places_count_as_javascript_counts() -> None:
    (mark,) = marks_of("🎉\u200bx")
    assert (mark.start, mark.end) == (2, 3)
    assert utf16_length("🎉x") == 3


def test_every_character_that_is_spelled_out_is_marked() -> None:
    for code in range(0x11_0000):
        character = chr(code)
        if revealed(character) != character:
            assert marks_of(f"a{character}b"), hex(code)


def test_very_many_marks_are_bounded() -> None:
    assert len(marks_of("\u200b" * 10_000)) == 200
