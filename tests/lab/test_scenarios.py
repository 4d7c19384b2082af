"""Every scenario can be read, and played by every agent that offers what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.lab import LabContext, ScriptRun, fixture_names, load_fixture
from harness.lab.known_fields import collect, load_known, paths_of, unknown_fields
from harness.lab.scenario import load_scenario, read_scenario, scenario_names
from harness.sources.registry import load

PLACE = LabContext(url="http://127.0.0.1:1", home="/home", cwd="/project")


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_is_offered_by_somebody_and_playable_by_all_who_offer_it(name: str) -> None:
    scenario = load_scenario(name)

    offering = [
        agent for agent in fixture_names() if not scenario.not_offered(load(agent), load_fixture(agent))
    ]
    assert offering
    for agent in offering:
        ScriptRun(scenario.script, load_fixture(agent), PLACE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('title = "x"\nprompt = "y"\nturns = [{ txt = 1 }]\n[expect]\n', "bad.toml:3: "),
        ('title = "x"\nprompt = "y"\nturns = [{ text = "a" }]\n[expect]\ntext = 1\n', "bad.toml:4: "),
        ('title = "x"\nturns = [{ text = "a" }]\n[expect]\n', "prompt"),
        ('title = "x\n', "bad.toml: not TOML"),
    ],
)
def test_a_mistake_in_a_scenario_has_its_line_and_reason(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)

    with pytest.raises(UsageError, match=message):
        read_scenario(str(path))


@pytest.mark.parametrize(
    ("version", "is_offered"), [((0, 73, 1), False), ((0, 99, 0), True), ((1, 5, 0), True), ((), True)]
)
def test_a_scenario_is_not_offered_by_versions_that_came_before_what_it_needs(
    version: tuple[int, ...], is_offered: bool
) -> None:
    reason = load_scenario("mcp").not_offered(load("pi"), load_fixture("pi"), version)

    assert reason == ("" if is_offered else "it has no mcp before version 0.99")


def test_an_unknown_scenario_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UsageError, match="there is no scenario 'helo'") as caught:
        load_scenario("helo")

    assert "hello" in caught.value.hint


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


def test_a_field_is_strange_until_a_recording_has_it() -> None:
    line = b'{"type":"session","mood":{"level":3}}\n'

    assert [(one.kind, one.path) for one in unknown_fields("pi", line, load_known("pi"))] == [
        ("session", "mood")
    ]
    assert unknown_fields("pi", line, collect("pi", [line], load_known("pi"))) == []


@pytest.mark.parametrize("agent", fixture_names())
def test_no_field_of_a_recorded_greeting_is_strange(agent: str) -> None:
    recordings = sorted((Path(__file__).parent.parent / "agents" / agent).glob("*/hello*/stdout.jsonl"))

    assert recordings
    for path in recordings:
        assert unknown_fields(agent, path.read_bytes(), load_known(agent)) == []
