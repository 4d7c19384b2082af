"""`harness init`: a first settings file after three questions."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from cli_machine import CliMachine
from pty_terminal import PtyTerminal

pytest.importorskip("pty", reason="there are no terminals here")


def written(cli: CliMachine) -> dict[str, Any]:
    return tomllib.loads((cli.home / ".config/harness/config.toml").read_text())


def test_without_questions_it_takes_what_it_would_propose(cli: CliMachine) -> None:
    answer = cli.call("init", "--yes")
    assert answer.code == 0
    assert written(cli) == {"default_agent": "native", "default_permissions": "ask"}
    assert "There is no key of a model here yet" in answer.err
    assert "model:       none yet" in answer.err
    assert "Next: get a key, then harness chat" in answer.err
    again = cli.call("init", "--yes")
    assert "says so already" in again.err


def test_a_key_that_cannot_be_used_yet_says_why(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.models import registry

    lacking = registry.Usability("groq", "Groq", is_usable=False, reason="pip install it")
    monkeypatch.setattr(registry, "usable", lambda: [lacking])
    monkeypatch.setattr(registry, "usual_model", lambda: "groq/some")
    assert (
        "There is a key for groq, but it cannot be used yet:\n  pip install it"
        in cli.call("init", "--yes").err
    )


def test_options_are_not_asked_for_and_the_rest_of_the_file_stays(cli: CliMachine) -> None:
    path = cli.home / ".config/harness/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("# mine\nlog_level = 'info'\n")
    words = ("-a", "native", "-m", "openai/gpt-5.5", "--permissions", "accept-edits")
    assert cli.call("init", *words).code == 0
    assert "# mine\nlog_level = 'info'\n" in path.read_text()
    assert written(cli) == {
        "log_level": "info",
        "default_agent": "native",
        "default_permissions": "accept-edits",
        "agents": {"native": {"model": "openai/gpt-5.5"}},
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "there is no terminal to ask on"),
        (("--yes", "-a", "nobody"), "nobody"),
        (("--yes", "--permissions", "all"), "unknown permission mode: all"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    cli: CliMachine, words: tuple[str, ...], said: str
) -> None:
    answer = cli.call("init", *words)
    assert answer.code == 2
    assert said in answer.err
    assert not (cli.home / ".config/harness/config.toml").exists()


def test_three_questions_at_a_terminal(cli: CliMachine) -> None:
    cli.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
    with PtyTerminal(cli, "init") as terminal:
        terminal.until("Which agent runs")
        terminal.type("\r")
        terminal.until("Which model does it ask?")
        terminal.type("ollama/qwen3\r")
        terminal.until("What may agents do")
        terminal.type("9\r")
        terminal.until("a number from 1 to 4")
        terminal.type("2\r")
        terminal.until("is written")
        assert terminal.wait() == 0
    assert written(cli) == {
        "default_agent": "native",
        "default_permissions": "accept-edits",
        "agents": {"native": {"model": "ollama/qwen3"}},
    }
