"""The README is one screen for each thing that it says, and each of its figures is one that was recorded."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from harness.agents import registry
from harness.histories.registry import names as histories
from source_tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
WORDS = {"eleven": 11, "thirteen": 13, "dozen": 12}
_ROW = re.compile(r"^\| [A-Z][\w ]+ \| ✓ \| (✓?) ?\|", re.MULTILINE)


def _recorded(name: str) -> Any:
    return json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))


def _figure(pattern: str) -> int:
    [found] = re.findall(pattern, README)
    return WORDS[found.lower()] if found.lower() in WORDS else int(found)


def test_it_is_no_longer_than_a_reader_has_patience() -> None:
    assert len(README.splitlines()) <= 120


def test_agents_are_counted_as_the_table_has_them() -> None:
    rows = _ROW.findall(README)
    assert len(rows) == _figure(r"(\w+) agent programs, \w+ of which can be asked")
    assert rows.count("✓") == _figure(r"agent programs, (\w+) of which can be asked")
    assert set(histories()) <= set(registry.names())
    assert len(histories()) == _figure(r"what\s+(\d+) agents have stored")


def test_hand_overs_are_those_that_were_tried() -> None:
    pairs = [verdict for to in _recorded("hand_overs.json").values() for verdict in to.values()]
    assert pairs == ["verified"] * _figure(r"(\d+) pairs of agents tried")


def test_hostile_command_lines_are_those_that_agents_were_asked_to_run() -> None:
    """And what was found says of none that it ran or was not asked about."""
    agents = _recorded("held_modes.json").values()
    tried = {
        one.get("tried")
        for agent in agents
        for one in agent["held"]
        if (one["mode"], one["what"]) == ("ask", "command lines")
    }
    assert _figure(r"(\d+) hostile command lines") in tried
    found = {finding for agent in agents for finding in agent["findings"]}
    assert found <= {"an edit below the folder is asked about where edits are accepted"}


@pytest.mark.parametrize(
    ("said", "measured"),
    [
        (
            "a third of a second over 10,000 sessions of 2 GB",
            "search for words / for a command | 0.26–0.31 s",
        ),
        ("a\n  quarter of a second for the same 2 GB", "`usage` / `sessions list` | 0.25 s"),
    ],
)
def test_what_was_measured_is_in_the_table_of_measurements(said: str, measured: str) -> None:
    assert said in README
    assert measured in (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
