"""Two-way scenarios find out what an agent really does in a conversation, and say what it cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

import doctored_agents
import talking_agents
from harness.lab.doctor import choose, examine, find_agents
from harness.lab.doctor_report import ScenarioResult
from harness.lab.scenario import load_scenario, scenario_names

TWO_WAY = choose(["two-way"], is_quick=False)


def _examine(path: str, scenario: str) -> ScenarioResult:
    environ = {"PATH": path}
    (status,) = find_agents(["pi"], environ)
    [result] = examine(status, [f"two-way-{scenario}"], environ=environ).results
    return result


@pytest.mark.parametrize("scenario", ["deny", "question", "steer", "interrupt-tool", "second-prompt"])
def test_an_agent_that_holds_a_conversation_is_verified(tmp_path: Path, scenario: str) -> None:
    result = _examine(talking_agents.install(tmp_path), scenario)

    assert result.findings == ()
    assert result.verdict == "verified"


@pytest.mark.parametrize(
    ("fault", "scenario", "expected"),
    [
        ("never asks", "deny", "it did not ask (permission) about 'denied.txt'"),
        ("never asks", "deny", "denied.txt was written though that was forbidden"),
        ("drops the reason", "deny", "its model did not get 'KEEP-IT-CLEAN: no new files here.'"),
        ("drops the answer", "question", "its model did not get the answer 'Turquoise'"),
        ("never steers", "steer", "the message was not taken in the turn"),
        ("leaves commands", "interrupt-tool", "a command still runs after the interruption: sleep 4711"),
        ("forgets", "resume", "its model did not get 'The first answer.'"),
        ("dies", "second-prompt", "the second prompt was not answered by the same process"),
    ],
)
def test_what_is_wrong_in_a_conversation_is_found(
    tmp_path: Path, fault: str, scenario: str, expected: str
) -> None:
    result = _examine(talking_agents.install(tmp_path, fault), scenario)

    assert expected in [finding.what for finding in result.findings]
    assert result.verdict in ("wrong", "broken")


def test_an_agent_that_does_not_say_its_version_is_not_called_broken(tmp_path: Path) -> None:
    """It may be one that cannot be held in a conversation yet."""
    program = tmp_path / "pi"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    result = _examine(f"{tmp_path}:/usr/bin:/bin", "deny")

    assert result.verdict == "skipped"
    assert "does not say its version" in result.reason


def test_what_an_agent_cannot_do_is_said_and_not_passed(tmp_path: Path) -> None:
    result = _examine(talking_agents.install(tmp_path), "plan")

    assert (result.verdict, result.reason) == ("skipped", "it cannot have its plan approved")


def test_a_version_that_cannot_be_driven_is_not(tmp_path: Path) -> None:
    result = _examine(doctored_agents.install(tmp_path), "resume")

    assert (result.verdict, result.reason) == (
        "skipped",
        "it cannot be held in a conversation before version 0.99",
    )


def test_one_name_stands_for_all_of_them() -> None:
    assert len(TWO_WAY) == 12
    assert {*TWO_WAY} == {name for name in scenario_names() if load_scenario(name).person is not None}
    assert choose(["two-way", "two-way-plan"], is_quick=False) == TWO_WAY
