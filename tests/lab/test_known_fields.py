"""Fields that no recording has are noticed, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.lab import fixture_names
from harness.lab.expectations import collect, load_known, paths_of, unknown_fields


def test_keys_that_are_data_and_what_tools_take_are_no_fields() -> None:
    record = {"type": "x", "input": {"a": 1}, "models": {"lab-model/2": {"cost": 1}}, "parts": [{"text": ""}]}

    assert paths_of(record) == {
        "type",
        "input",
        "models",
        "models.*",
        "models.*.cost",
        "parts",
        "parts[].text",
    }


def test_a_field_is_unknown_until_a_recording_has_it() -> None:
    line = b'{"type":"session","mood":{"level":3}}\n'

    assert [(one.kind, one.path) for one in unknown_fields("pi", line, load_known("pi"))] == [
        ("session", "mood")
    ]
    assert unknown_fields("pi", line, collect("pi", [line], load_known("pi"))) == []


@pytest.mark.parametrize("agent", fixture_names())
def test_no_field_of_a_recorded_greeting_is_unknown(agent: str) -> None:
    """Of an agent without a greeting, every recording."""
    folder = Path(__file__).parent.parent / "agents" / agent
    recordings = sorted(folder.glob("*/hello*/stdout.jsonl")) or sorted(folder.glob("*/*/stdout.jsonl"))

    assert recordings
    for path in recordings:
        assert unknown_fields(agent, path.read_bytes(), load_known(agent)) == []
