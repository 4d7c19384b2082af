"""`harness resume`: any session, by the means of its own agent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli_machine import CliMachine
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.presets import backing_of, checked, modes_of
from harness.errors import UsageError
from harness.session.config import CommandAgent

sys.path.insert(0, str(Path(__file__).parents[1] / "histories"))
from stored_homes import cases

CLAUDE = "33dadd08-e106-4698-90c8-83a1c1f512c6"


@pytest.fixture
def filled(cli: CliMachine) -> CliMachine:
    """A session that Claude has stored itself, and a `claude` that writes down how it is called."""
    next(case for case in cases() if str(case) == "claude/2.1.325/resume").unpack(cli.home)
    cli.install("claude", before='echo "$PWD $*" >>"$HOME/calls"; cat >>"$HOME/calls"')
    return cli


def _calls(cli: CliMachine) -> str:
    path = cli.home / "calls"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("name", [CLAUDE, CLAUDE[:8], f"claude:{CLAUDE}"])
def test_a_session_of_the_agent_is_continued_as_a_recorded_run(filled: CliMachine, name: str) -> None:
    answer = filled.call("resume", name, "and now?", "--cwd", str(filled.project))
    assert answer.code == 0
    assert answer.types[-1] == "Result"
    assert f"--resume {CLAUDE}" in _calls(filled)
    assert _calls(filled).endswith("and now?")
    [logged] = [one for one in filled.call("sessions", "list", "--json").data if "history" not in one]
    assert logged["prompt"] == "and now?"


def test_a_session_of_ours_is_continued_where_it_worked_by_its_own_id_or_the_agents(
    filled: CliMachine,
) -> None:
    assert filled.call("run", "--agent", "claude", "--prompt", "first").code == 0
    for name in ("last", "mock-session"):
        assert filled.call("resume", name, "second").code == 0
        last = _calls(filled).splitlines()[-2]
        assert last.startswith(f"first{filled.project} ") or last.endswith("--resume mock-session")
        assert "--resume mock-session" in _calls(filled)


def test_the_agents_own_command_is_printed(filled: CliMachine) -> None:
    answer = filled.call("resume", CLAUDE, "--print")
    assert (answer.code, answer.out) == (0, f"cd /workspace/shop && claude --resume {CLAUDE}\n")


def test_a_fork_and_options_reach_the_agent(filled: CliMachine) -> None:
    words = ("--fork", "--model", "opus", "--cwd", str(filled.project), "--", "--debug")
    assert filled.call("resume", CLAUDE, "x", *words).code == 0
    assert all(word in _calls(filled) for word in ("--fork-session", "--model", "--debug"))


def test_what_cannot_be_continued_shows_why_and_what_to_do(filled: CliMachine) -> None:
    answer = filled.call("resume", CLAUDE, "x")
    assert (answer.code, "/workspace/shop" in answer.err, "--cwd" in answer.err) == (2, True, True)
    answer = filled.call("resume", "nothing-like-this", "x")
    assert (answer.code, "unknown session" in answer.err) == (2, True)
    (filled.bin / "claude").unlink()
    answer = filled.call("resume", CLAUDE, "x", "--cwd", str(filled.project))
    assert (answer.code, "agent binary not found: claude" in answer.err) == (127, True)


def test_an_agent_without_sessions_by_id_names_the_way_out(cli: CliMachine) -> None:
    home = next(case for case in cases() if str(case) == "aider/0.86.2/tools-and-resume").unpack(cli.home)
    cli.environ["HOME"] = home.directory
    (cli.project / ".aider.chat.history.md").write_text(
        "\n# aider chat started at 2026-11-15 19:28:30\n\n#### hi\n\nHello.\n"
    )
    [found] = [one for one in cli.call("sessions", "list", "--json").data if one["agent_name"] == "aider"]
    answer = cli.call("resume", f"aider:{found['session_id']}", "x")
    assert answer.code == 2
    assert "harness hand-over aider:" in answer.err


@pytest.mark.parametrize("name", ["--help-me", "../../etc/passwd", "a b", "claude:--version", "x" * 300])
def test_a_hostile_id_is_only_an_unknown_session(filled: CliMachine, name: str) -> None:
    answer = filled.call("resume", name, "x")
    assert answer.code == 2
    assert _calls(filled) == ""


def test_a_thread_is_continued_in_its_own_log(cli: CliMachine) -> None:
    chat = cli.spawn("chat", "--agent", "native", "--model", "scripted/demo", stdin=subprocess.PIPE)
    chat.communicate(b"hello\n", timeout=60)
    process = cli.spawn("resume", "last", "and again")
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"and again" in shown
    assert len(cli.call("sessions", "list", "--json").data) == 1


def test_the_first_run_of_a_thread_continues_the_agents_session() -> None:
    setup = checked(Setup(agent="goose", agent_session="20261115_1"))
    assert backing_of(setup) == CommandAgent(name="goose", permissions="ask", session="20261115_1")
    assert all(mode.agent is None or mode.agent.session == "20261115_1" for mode in modes_of(setup))
    for hostile in ("--version", "../x", "a b", "x" * 200):
        with pytest.raises(UsageError):
            checked(Setup(agent="goose", agent_session=hostile))


def test_run_resumes_the_last_session_of_its_agent(cli: CliMachine) -> None:
    none = cli.call("run", "--agent", "claude", "--prompt", "again", "--resume", "last")
    assert none.code == 2
    assert "there is no session of Claude Code yet" in none.err
    for name in ("first", "second"):
        cli.install("claude", f'{{"type":"system","subtype":"init","session_id":"{name}-session"}}')
        cli.call("run", "--agent", "claude", "--prompt", name)
    cli.install("codex")
    cli.call("run", "--agent", "codex", "--prompt", "another agent")
    answer = cli.call("run", "--agent", "claude", "--prompt", "again", "--resume", "last", "--dry-run")
    assert "second-session" in answer.out


def test_a_session_is_continued_with_its_model(filled: CliMachine) -> None:
    """What was asked for when it was recorded; an option says otherwise, and another session is not concerned."""
    assert filled.call("run", "--agent", "claude", "--model", "haiku", "--prompt", "first").code == 0
    for options, model in (([], "--model haiku"), (["--model", "some-other"], "--model some-other")):
        (filled.home / "calls").unlink()
        assert filled.call("resume", "mock-session", "second", *options).code == 0
        assert model in _calls(filled)
    (filled.home / "calls").unlink()
    assert filled.call("resume", CLAUDE, "and now?", "--cwd", str(filled.project)).code == 0
    assert "--model" not in _calls(filled)


def test_gemini_continues_a_session_of_its_own_with_the_model_of_the_session(cli: CliMachine) -> None:
    """It would take its usual one."""
    next(case for case in cases() if str(case) == "gemini/0.61.0/text").unpack(cli.home)
    cli.install("gemini", "{}", before='echo "$*" >>"$HOME/calls"')
    (session,) = cli.call("sessions", "list", "--json").data
    resumed = ("resume", f"gemini:{session['agent_session_id']}", "and now?", "--cwd", str(cli.project))
    cli.call(*resumed)
    assert f"--model {session['model']} " in _calls(cli)


def test_the_built_in_agent_continues_with_the_model_that_it_had(
    cli: CliMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not with the one whose key is found first."""
    (cli.project / "talk.toml").write_text('turns = [[{ text = "one" }], [{ text = "two" }]]\n')
    assert cli.call("run", "-a", "native", "-m", "scripted/talk.toml", "-p", "first").code == 0
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    answer = cli.call("resume", "last", "second")
    assert (answer.code, answer.events[-1]["text"]) == (0, "two")
    assert answer.events[0]["model"] == "scripted/talk.toml"
