"""How a conversation is set up reaches the agent that it is had with."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.clients.conversations.backend import Setup
from harness.clients.conversations.presets import backing_of, checked
from harness.session.config import BackingAgent, CommandAgent


def test_our_own_agent_thinks_as_much_and_works_as_long_as_is_wanted() -> None:
    agent = backing_of(Setup(agent="native", permission_mode="default", effort="high", max_turns=3))

    assert isinstance(agent, BackingAgent)
    assert (agent.effort, agent.max_steps) == ("high", 3)


def test_an_agent_program_is_given_its_limit_and_its_access() -> None:
    agent = backing_of(Setup(agent="claude", permission_mode="readOnly", max_turns=3))

    assert isinstance(agent, CommandAgent)
    assert (agent.max_turns, agent.permissions) == (3, "read-only")


def test_our_own_agent_asks_the_model_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness/config.toml").write_text('[agents.native]\nmodel = "ollama/qwen3"\n')
    setup = Setup(agent="native", cwd=str(tmp_path))
    assert checked(setup).model == "ollama/qwen3"
    assert checked(replace(setup, model="scripted/demo")).model == "scripted/demo"
