"""What the screen looks like, at the widths that terminals have. `HARNESS_REWRITE=1` rewrites the expected screens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripted_inbox import ScriptedInbox, checkout_log, twelve_rows
from terminal_screen import Seen, drive, still

__all__ = ["still"]

PICTURES = Path(__file__).parent / "screens"

CASES: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "list-60x24": ((60, 24), ()),
    "asked-60x24": ((60, 24), ("j", "enter")),
    "inbox-100x30": ((100, 30), ()),
    "question-100x30": ((100, 30), ("j", "j")),
    "keys-100x52": ((100, 52), ("question_mark",)),
    "alike-100x30": ((100, 30), ("Y",)),
    "call-100x30": ((100, 30), ("tab", "k", "k", "k", "k", "k", "k", "enter")),
    "changes-100x30": ((100, 30), ("d",)),
    "inbox-160x34": ((160, 34), ()),
}


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("name", CASES)
def test_the_screen_looks_as_it_did(name: str) -> None:
    size, keys = CASES[name]
    data = ScriptedInbox(twelve_rows(), {"checkout": checkout_log()})
    shown: list[str] = []

    async def look(seen: Seen) -> None:
        if size[0] >= 84:
            await seen.shows("the cart package to be")
        await seen.press(*keys)
        await seen.settle()
        shown.append(seen.text)

    drive(data, look, size=size)
    picture = PICTURES / f"{name}.txt"
    if os.environ.get("HARNESS_REWRITE"):
        picture.parent.mkdir(exist_ok=True)
        picture.write_text(shown[0], encoding="utf-8")
    assert shown[0] == picture.read_text(encoding="utf-8")


@pytest.mark.usefixtures("still")
def test_an_empty_inbox_shows_how_to_begin() -> None:
    async def look(seen: Seen) -> None:
        await seen.shows("There is no session yet: c starts one.")
        await seen.pilot.resize_terminal(80, 24)  # one pane
        await seen.shows("There is no session yet: c starts one.")

    drive(ScriptedInbox([]), look)


@pytest.mark.usefixtures("still")
def test_another_width_gives_the_other_arrangement() -> None:
    async def look(seen: Seen) -> None:
        await seen.shows("may it run this?")
        await seen.pilot.resize_terminal(60, 24)
        await seen.shows("y once  n no  e because …")
        assert "may it run this?" not in seen.text
        await seen.pilot.resize_terminal(120, 40)
        await seen.shows("may it run this?")
        await seen.shows("❯ The checkout test fails since yesterday. Find out why,")

    drive(ScriptedInbox(twelve_rows(), {"checkout": checkout_log()}), look)
