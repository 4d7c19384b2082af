"""How much a model reasons is asked for in the words of each agent that has some."""

from __future__ import annotations

import msgspec
import pytest

from harness.agents.registry import load
from harness.contracts.driver import Prompt
from harness.contracts.request import Request

WORDS = {
    "claude": ("--effort", "high"),
    "codex": ("--config", 'model_reasoning_effort="high"'),
    "copilot": ("--reasoning-effort", "high"),
    "droid": ("--reasoning-effort", "high"),
    "grok": ("--reasoning-effort", "high"),
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


@pytest.mark.parametrize(
    ("name", "words"),
    [("cline", ("--thinking", "high")), ("kilo", ("--variant", "high")), ("opencode", ("--variant", "high"))],
)
def test_the_effort_is_an_option_of_a_single_run(name: str, words: tuple[str, ...]) -> None:
    agent = load(name)
    assert "effort" in agent.supports
    assert " ".join(words) in " ".join(
        agent.command(Request(agent=name, prompt="hi", effort="high"), ()).args
    )


def test_cline_is_not_told_in_a_conversation_where_it_ignores_it() -> None:
    two_way = load("cline").two_way
    assert two_way is not None
    assert two_way.supports is not None
    assert "effort" not in two_way.supports


@pytest.mark.parametrize("name", ["kilo", "opencode"])
@pytest.mark.parametrize("effort", ["", "high"])
def test_a_server_is_told_the_effort_with_each_prompt(name: str, effort: str) -> None:
    two_way = load(name).two_way
    assert two_way is not None
    driver = two_way.driver(Request(agent=name, prompt="hi", effort=effort), "line")
    driver.begin()
    driver.prompt(Prompt(id="p1", text="hi"))
    moves = list(driver.receive({"id": 1, "status": 200, "body": {"id": "ses_1"}}))
    sent = msgspec.json.decode(moves[-1].data)  # type: ignore[union-attr]
    assert sent["path"] == "/session/ses_1/prompt_async"
    assert sent["body"].get("variant", "") == effort


@pytest.mark.parametrize("two_way", [False, True])
def test_goose_is_told_by_its_environment(two_way: bool) -> None:
    agent = load("goose")
    assert agent.two_way is not None
    assert agent.two_way.supports is not None
    assert "effort" in agent.supports & agent.two_way.supports
    make = agent.two_way.command if two_way else agent.command
    told = make(Request(agent="goose", prompt="hi", effort="low"), ())
    assert told.env["GOOSE_THINKING_EFFORT"] == "low"
    assert "GOOSE_THINKING_EFFORT" not in make(Request(agent="goose", prompt="hi"), ()).env
