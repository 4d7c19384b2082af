"""The page and the terminal have one list of characters that are shown instead of obeyed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness.formatting.escapes import neutralised, revealed

_TABLE = Path(__file__).parents[2] / "web" / "src" / "text" / "unseen_characters.json"


def _characters(*names: str) -> set[int]:
    table = json.loads(_TABLE.read_text())
    found: set[int] = set()
    for code_range in (one for name in names for one in table[name]):
        first, _, last = code_range.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


def test_the_page_and_the_terminal_mark_the_same_characters() -> None:
    every = range(sys.maxunicode + 1)
    assert _characters("forbidden") == {code for code in every if neutralised(chr(code)) != chr(code)}
    unseen = _characters("forbidden", "joining", "blank")
    assert unseen == {code for code in every if revealed(chr(code)) != chr(code)}


def test_every_character_that_unicode_calls_invisible_is_on_the_list() -> None:
    """Those that a renderer may leave out by default, and those that set a direction."""
    invisible = (
        [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0],
        range(0x180B, 0x1810),
        range(0x200B, 0x2010),
        range(0x2028, 0x202F),
        range(0x2060, 0x2070),
        range(0xFE00, 0xFE10),
        range(0xFFF0, 0xFFF9),
        range(0x1BCA0, 0x1BCA4),
        range(0x1D173, 0x1D17B),
        range(0xE0000, 0xE1000),
    )
    assert {code for codes in invisible for code in codes} <= _characters("forbidden", "joining", "blank")
