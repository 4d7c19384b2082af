"""How much a model reasons is asked for in the words of each agent that has some."""

from __future__ import annotations

import pytest

from harness.sources.registry import load
from harness.sources.request import Request

WORDS = {
    "claude": ("--effort", "high"),
    "codex": ("--config", 'model_reasoning_effort="high"'),
    "droid": ("--reasoning-effort", "high"),
    "pi": ("--thinking", "high"),
}


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("two_way", [False, True])
def test_the_effort_reaches_the_program(name: str, two_way: bool) -> None:
    agent = load(name)
    assert agent.command is not None
    assert agent.two_way is not None
    supports = agent.two_way.supports if two_way else None
    assert "effort" in (agent.supports if supports is None else supports)
    request = Request(agent=name, prompt="hi", effort="high")
    if two_way and name == "codex":
        return  # it is told in the conversation
    command = (agent.two_way.command if two_way else agent.command)(request, ())
    assert " ".join(WORDS[name]) in " ".join(command.args)
    without = agent.command(Request(agent=name, prompt="hi"), ())
    assert WORDS[name][0] not in without.args


def test_a_claude_that_is_too_old_for_it_is_not_told() -> None:
    agent = load("claude")
    assert agent.command is not None
    assert (
        "--effort" not in agent.command(Request(agent="claude", prompt="hi", effort="high"), (2, 1, 20)).args
    )
