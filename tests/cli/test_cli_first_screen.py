"""`harness` alone: on a terminal what matters now, then the usage; for a program the usage alone."""

from __future__ import annotations

import pytest

from cli_machine import CliMachine
from harness.cli import parser
from harness.cli.first_screen import COMMANDS, Situation, fitting, words_of, wrapped
from harness.folds.inbox.row import InboxRow
from pty_terminal import PtyTerminal

NOTHING = Situation(agents=[], missing=["Claude Code: npm install x"], model="", rows=[])


def test_a_program_gets_the_usage_alone(cli: CliMachine) -> None:
    shown = cli.call()
    assert shown.code == 2
    assert shown.err.startswith("Usage: harness COMMAND")


def test_a_person_is_first_shown_what_matters(cli: CliMachine) -> None:
    with PtyTerminal(cli) as terminal:
        terminal.until("Nothing has been run with Harness yet.")
        terminal.until("Usage: harness COMMAND")


def test_what_matters_is_not_pushed_out_of_a_small_terminal(cli: CliMachine) -> None:
    with PtyTerminal(cli, size=(24, 80)) as terminal:
        terminal.until("its options.")
        assert terminal.text.count("\n") < 24
        assert max(map(len, terminal.text.splitlines())) <= 80


def test_a_line_is_broken_at_a_blank() -> None:
    agents = [f"Agent number {number}" for number in range(6)]
    shown = wrapped(words_of(NOTHING._replace(agents=agents, model="anthropic/claude-sonnet-4-6")), 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "\n    " in shown


def test_a_large_terminal_has_a_line_for_each_command() -> None:
    assert fitting(parser.overview(), 80) == parser.overview()
    assert "\n".join(fitting(parser.overview(), 20).splitlines()[:1]) == "Usage: harness COMMAND [OPTIONS]"


def test_every_command_has_its_place_in_the_short_list() -> None:
    assert sorted(name for names in COMMANDS.values() for name in names) == parser.names()


def test_where_nothing_is_installed_the_demonstration_is_next() -> None:
    words = words_of(NOTHING)
    assert "No agent is installed here, and there is no model key." in words
    assert "Claude Code: npm install x" in words
    assert "Next: harness demo" in words


@pytest.mark.parametrize("here", [{"agents": ["Codex"]}, {"model": "openai/gpt-5.5"}])
def test_where_an_agent_is_a_conversation_is_next(here: dict[str, object]) -> None:
    assert "Next: harness chat" in words_of(NOTHING._replace(**here))  # type: ignore[arg-type]


def test_what_needs_you_is_named() -> None:
    rows = [
        InboxRow(id="a", title="Fix the cart\x1b[2J", agent="Claude Code", state="needs-approval"),
        InboxRow(id="b", title="Move the tax", agent="Codex", state="running"),
    ]
    words = words_of(NOTHING._replace(agents=["Claude Code", "Codex"], rows=rows))
    assert "1 session needs you, 1 running." in words
    assert "Fix the cart" in words
    assert "\x1b" not in words
    assert "Next: harness tui     answer them" in words


def test_only_a_screen_that_can_be_opened_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """`harness tui` needs an extra."""
    rows = [InboxRow(id="a", title="Fix it", agent="Codex", state="succeeded")]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "Next: harness top     all your sessions" in words_of(NOTHING._replace(rows=rows))


def test_a_chat_with_an_agent_that_is_not_here_does_not_begin(cli: CliMachine) -> None:
    with PtyTerminal(cli, "chat", "-a", "claude") as terminal:
        shown = terminal.until("npm install -g @anthropic-ai/claude-code")
        assert "/help lists commands" not in shown
        assert terminal.process.wait(timeout=60) == 127


def test_many_agents_are_counted() -> None:
    words = words_of(NOTHING._replace(agents=[f"Agent {number}" for number in range(9)]))
    assert "Agent 5 and 3 more" in words


def test_a_run_says_its_rights_until_they_are_chosen(cli: CliMachine) -> None:
    words = ("run", "-a", "native", "-m", "scripted/demo-fix", "-p", "x")
    with PtyTerminal(cli, *words, "--max-turns", "1") as terminal:
        terminal.until("may do everything here without asking")
    cli.call("config", "set", "default_permissions", "full-access")
    with PtyTerminal(cli, *words, "--max-turns", "1") as terminal:
        terminal.until("log:")
        assert "without asking" not in terminal.text
