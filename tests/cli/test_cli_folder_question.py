"""The question about settings that a folder brings, asked and answered in a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_machine import CliMachine
from pty_terminal import PtyTerminal

HOOK = '{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "./setup.sh"}]}]}}'
ASKS = ("run", "-a", "claude", "--permissions", "agent-default", "-p", "hello")
QUESTION = "Trust them as they are now (t), run without them (w), or cancel (c)? "


@pytest.fixture
def arguments(cli: CliMachine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """How the agent was called, once it was."""
    monkeypatch.setenv("PATH", f"{cli.bin}:/usr/bin:/bin")
    cli.environ["PATH"] = f"{cli.bin}:/usr/bin:/bin"
    noted = cli.root / "arguments"
    cli.install("claude", before=f'echo "$*" > {noted}; cat >/dev/null')
    (cli.project / ".claude").mkdir()
    (cli.project / ".claude/settings.json").write_text(HOOK)
    return noted


def test_settings_are_shown_and_left_out(cli: CliMachine, arguments: Path) -> None:
    with PtyTerminal(cli, *ASKS) as terminal:
        assert "./setup.sh" in terminal.until(QUESTION)
        assert not arguments.exists()
        terminal.type("w\r")
        assert terminal.wait() == 0
    assert "--setting-sources user" in arguments.read_text()
    assert "claude" not in cli.call("trust", "list").out


def test_trust_is_stored_and_asked_again_when_something_changes(cli: CliMachine, arguments: Path) -> None:
    with PtyTerminal(cli, *ASKS) as terminal:
        terminal.until(QUESTION)
        terminal.type("t\r")
        assert terminal.wait() == 0
    assert "--setting-sources" not in arguments.read_text()
    assert "claude" in cli.call("trust", "list").out
    with PtyTerminal(cli, *ASKS) as terminal:
        assert terminal.wait() == 0
        assert QUESTION not in terminal.text
    (cli.project / ".claude/settings.json").write_text(HOOK.replace("setup", "other"))
    with PtyTerminal(cli, *ASKS) as terminal:
        assert "./other.sh" in terminal.until(QUESTION)
        terminal.type("c\r")
        assert terminal.wait() == 2


@pytest.mark.parametrize("answer", ["c\r", "\r\r\r", "\x04"])
def test_whoever_does_not_say_yes_starts_nothing(cli: CliMachine, arguments: Path, answer: str) -> None:
    with PtyTerminal(cli, *ASKS) as terminal:
        terminal.until(QUESTION)
        terminal.type(answer)
        assert terminal.wait() == 2
        terminal.until("cancelled: nothing was started")
    assert not arguments.exists()
