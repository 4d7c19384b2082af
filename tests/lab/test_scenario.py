"""Every scenario can be read, and run with every agent that offers what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.agents.registry import load
from harness.errors import UsageError
from harness.lab import LabContext, ScriptRun, fixture_names, load_fixture
from harness.lab.scenario import load_scenario, read_scenario, scenario_names

CONTEXT = LabContext(url="http://127.0.0.1:1", home="/home", cwd="/project")


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_is_offered_by_some_agent_and_can_be_run_with_all_that_offer_it(name: str) -> None:
    scenario = load_scenario(name)

    offering = [
        agent for agent in fixture_names() if not scenario.not_offered(load(agent), load_fixture(agent))
    ]
    assert offering
    for agent in offering:
        ScriptRun(scenario.script, load_fixture(agent), CONTEXT)


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
