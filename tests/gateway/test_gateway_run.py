"""The doctor's scenarios of the gateway: an agent that is recorded, played again and forked, and what they find."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

import small_agent
from harness.agents.registry import load, load_part, names_with
from harness.contracts.pointing import Pointing
from harness.errors import UsageError
from harness.events import ModelCall
from harness.lab import LabServer, parse_script
from harness.lab.doctor_report import Finding
from harness.lab.fixtures import load_fixture
from harness.lab.gateway_run import as_provider, model_of
from harness.lab.offline_agent import OfflineAgent
from harness.lab.scenario import Scenario, load_scenario, read_scenario, scenario_names
from harness.lab.scenario_run import AgentUnderTest, run_scenario
from harness.log.stores.files import FileStore
from harness.models.registry import PROVIDERS, keyed_endpoint
from harness.runs.replay_request import recorded_tape, replay_request
from harness.runs.run import start

_SCENARIO = """
title = "is recorded"
prompt = "Go."
through_gateway = true
fork_at = 1
turns = [
  [{ text = "I look." }, { call = "run", command = "cat README.md" }],
  { call = "run", command = "echo more > made.txt; cat made.txt" },
  { text = "Done." },
]

[expect]
texts = ["I look.", "Done."]
files = { "made.txt" = "more" }
"""
_FAULTS = """
title = "fails"
prompt = "Go."
through_gateway = true
turns = [{ call = "run", command = "cat README.md" }, [{ fault = "401" }, { text = "never" }]]

[expect]
outcome = "failed"
"""


def _scenario(folder: Path, text: str) -> Scenario:
    path = folder / "trial.toml"
    path.write_text(text)
    return read_scenario(str(path))


def _examined(folder: Path, old: str = "", new: str = "", scenario: str = _SCENARIO) -> list[Finding]:
    program = Path(small_agent.install(folder / "bin"), "claude")
    text = program.read_text()
    assert old in text
    program.write_text(text.replace(old, new) if old else text)
    tested = AgentUnderTest(
        agent=load("claude"), binary=str(program), version="2.1.325", known={}, known_gaps={}
    )
    before = dict(os.environ)
    result, _ = run_scenario(tested, _scenario(folder, scenario), str(folder / "trial"), 60.0)
    assert dict(os.environ) == before
    return list(result.findings)


@pytest.mark.parametrize("scenario", [_SCENARIO, _FAULTS])
def test_an_agent_that_keeps_to_its_gateway_has_no_findings(tmp_path: Path, scenario: str) -> None:
    assert _examined(tmp_path, scenario=scenario) == []


def test_an_agent_that_says_something_else_each_time_parts_from_its_recording(tmp_path: Path) -> None:
    findings = _examined(
        tmp_path, "{prompt}", "{prompt} {' of '.join(chr(97 + b % 26) for b in os.urandom(8))}"
    )
    assert [one.kind for one in findings][:1] == ["broken"]
    assert "its replay ended as 'failed', and the run as 'completed'" in findings[0].what
    assert "parted from the recording" in findings[0].example


def test_what_an_agent_puts_into_results_itself_is_told(tmp_path: Path) -> None:
    findings = _examined(tmp_path, "done.stdout + done.stderr", "done.stdout + 'took %d' % os.getpid()")
    told = [one for one in findings if "tells a difference" in one.what]
    assert [one.kind for one in told] == ["degraded"] * 2
    assert "took " in told[0].example


def test_an_agent_that_ignores_its_gateway_is_broken(tmp_path: Path) -> None:
    findings = _examined(tmp_path, 'os.environ["ANTHROPIC_BASE_URL"]', '"http://127.0.0.1:9"')
    assert findings[0].kind == "broken"


def test_an_agent_that_prints_its_environment_does_not_print_the_key(tmp_path: Path) -> None:
    findings = _examined(tmp_path, "done.stdout + done.stderr", "done.stdout + repr(dict(os.environ))")
    assert not [one for one in findings if "key" in one.what]


def test_scenarios_of_the_gateway_are_skipped_for_agents_that_have_none() -> None:
    through = [one for one in map(load_scenario, scenario_names()) if one.through_gateway]
    assert len(through) >= 3
    for name in ("cursor", "antigravity"):
        for scenario in through:
            assert scenario.not_offered(load(name), load_fixture("claude")) != ""


def test_a_conversation_in_which_all_is_asked_is_not_held_with_an_agent_that_does_not() -> None:
    scenario = load_scenario("gateway-two-way")
    assert "does not ask about everything" in scenario.not_offered(load("kimi"), load_fixture("kimi"))
    assert scenario.not_offered(load("claude"), load_fixture("claude")) == ""


@pytest.mark.parametrize("agent", names_with("gateway"))
def test_the_scripted_model_is_the_provider_of_any_agent(agent: str) -> None:
    """Also of one whose own provider has no address of one's choice."""
    with LabServer() as lab, as_provider(cast("OfflineAgent", SimpleNamespace(agent=agent, server=lab))):
        pointing: Pointing = load_part(agent, "gateway")
        provider = model_of(agent).partition("/")[0] or pointing.provider
        endpoint, _ = keyed_endpoint(provider, "any", os.environ)
        assert endpoint.url.startswith(lab.url)
        assert PROVIDERS[provider].wire == pointing.wire


def test_a_conversation_is_held_and_played_again(tmp_path: Path) -> None:
    program = str(Path(small_agent.install(tmp_path / "bin"), "claude"))
    tested = AgentUnderTest(agent=load("claude"), binary=program, version="2.1.325", known={}, known_gaps={})
    result, _ = run_scenario(tested, load_scenario("gateway-two-way"), str(tmp_path / "trial"), 60.0)
    assert [(one.kind, one.what) for one in result.findings] == []
    assert result.verdict == "verified"


def test_a_tape_of_the_lab_can_be_replayed(tmp_path: Path) -> None:
    program = str(Path(small_agent.install(tmp_path / "bin"), "claude"))
    work, path = tmp_path / "work", str(tmp_path / "lab.tape")
    work.mkdir()
    script = parse_script({"turns": [{"call": "run", "command": "echo one"}, {"text": "Done."}]})
    with OfflineAgent(
        script, "claude", home=str(tmp_path / "home"), cwd=str(work), record_path=path
    ) as offline:
        store = FileStore(tmp_path / "sessions")
        assert start(offline.request("Go.", binary=program), store=store).wait().text == "Done."
    tape = recorded_tape(path)
    with pytest.raises(UsageError, match="does not say what the agent was asked"):
        replay_request(tape, cwd=str(work))
    request = replace(replay_request(tape, cwd=str(work), prompt="Go."), binary=program, sealed="")
    run = start(request, store=store)
    assert run.wait().text == "Done."
    calls = [event for event in run if isinstance(event, ModelCall)]
    assert [(call.origin, call.differs) for call in calls] == [("recording", [])] * 2
