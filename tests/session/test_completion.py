"""What is completed on a session in a REPL or a notebook: what programs are meant to call, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness import Harness, Mode

PAGES = (Path(__file__).parents[2] / "docs").glob("harness*.md")
INSIDE = {
    "thread": ("current", "ensure", "release"),
    "mode": ("change", "enter"),
    "model": ("save_for_mode", "select"),
    "state": ("peek", "restore", "stored"),
    "permissions": ("of", "standing", "verdict", "verdict_on", "decide", "own_rules"),
    "follow_ups": ("dequeue", "requeue", "submit"),
    "goals": ("after_answer",),
    "run": ("join", "next_operation"),
    "approval": ("is_armed", "pending"),
    "suspensions": ("check", "give"),
    "display_state": ("restore_tasks",),
}


@pytest.fixture
def harness() -> Harness[Any]:
    return Harness(id="app", modes=[Mode(id="m")])


@pytest.mark.parametrize("part", INSIDE)
def test_the_inside_of_a_part_is_not_completed_and_still_there(part: str, harness: Harness[Any]) -> None:
    one = getattr(harness.session, part)
    assert not set(INSIDE[part]) & set(dir(one))
    assert all(hasattr(one, name) for name in INSIDE[part])
    assert all(not name.startswith("_") for name in dir(one))


def test_internals_are_not_completed(harness: Harness[Any]) -> None:
    for one in (harness, harness.session):
        assert "send_message" in dir(one)
        assert not {"internals", "bus", "append", "relays"} & set(dir(one))


def test_what_the_documents_name_is_completed(harness: Harness[Any]) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"\bsession\.(\w+)\.(\w+)", text))
    parts = {name for name in dir(harness.session) if not name.startswith("_")}
    missing = [
        f"{part}.{name}"
        for part, name in sorted(named)
        if part in parts and name not in dir(getattr(harness.session, part))
    ]
    assert len(named) > 10
    assert missing == []
