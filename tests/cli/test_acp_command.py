"""`acp:COMMAND`: any program that speaks ACP is an agent, without a file of ours; here it is our own `harness acp`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from cli_machine import CliMachine
from harness.agents.registry import load
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.presets import backing_of
from harness.contracts.request import Request
from harness.errors import UnknownAgent, UsageError
from harness.runs.launch import prepare

WRITES = """
turns = [
  [ { text = "I write." }, { tool = "bash", input = { command = "echo hi > made.txt" } } ],
  [ { text = "It is there." } ],
  [ { text = "Once more." } ],
]
"""


@pytest.fixture
def inner(cli: CliMachine) -> str:
    """Our own agent behind ACP, as an agent of ACP."""
    script = cli.home / "inner.toml"
    script.write_text(WRITES)
    words = (sys.executable, "-m", "harness", "acp", "--agent", "native", "--model", f"scripted/{script}")
    return f"acp:{shlex.join(words)}"


def test_it_runs_and_what_it_asks_is_asked(cli: CliMachine, inner: str) -> None:
    own = ("run", "-a", inner, "-p", "write", "--permissions", "agent-default")
    denied = cli.call(*own, "--on-ask", "deny", "--format", "text")
    assert "It is there." in denied.out
    assert "was refused" in denied.err
    assert not (cli.project / "made.txt").exists()
    done = cli.call("run", "-a", inner, "-p", "write", "--permissions", "full-access", "--format", "text")
    assert done.code == 0, done.err
    assert "It is there." in done.out
    assert (cli.project / "made.txt").read_text() == "hi\n"


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "read-only", "plan"])
def test_it_is_refused_where_more_would_have_to_hold_than_it_can_be_held_to(
    cli: CliMachine, inner: str, mode: str
) -> None:
    done = cli.call("run", "-a", inner, "-p", "write", "--permissions", mode, "--on-ask", "deny")
    assert done.code == 2, done
    assert not (cli.project / "made.txt").exists()
    assert cli.logs() == []


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "read-only", "plan", "full-access"])
def test_a_command_is_not_run_to_hear_which_version_it_is(cli: CliMachine, mode: str) -> None:
    """Whoever names an agent by a command, as a model does through `harness mcp`, would have it run."""
    program = cli.project / "evil"
    program.write_text('#!/bin/sh\necho "$*" >> ran\n')
    program.chmod(0o755)
    cli.call("run", "-a", f"acp:{program} task", "-p", "x", "--permissions", mode, "--on-ask", "deny")
    cli.call("agents", "capabilities", f"acp:{program} task")
    ran = cli.project / "ran"
    assert (ran.read_text() if ran.exists() else "") == ("task\n" if mode == "full-access" else "")


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "readOnly"])
def test_a_conversation_with_it_is_refused_before_anything_runs(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "evil"
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    setup = Setup(agent=f"acp:{program}", permission_mode=mode, cwd=str(tmp_path))
    if mode != "readOnly":
        with pytest.raises(UsageError, match="does not ask about everything"):
            backing_of(setup)
    with pytest.raises(UsageError, match=r"does not ask about everything|no read-only mode"):
        prepare(
            Request(agent=setup.agent, prompt="x", permissions="read-only" if mode == "readOnly" else "ask")
        )
    assert not (tmp_path / "ran").exists()
    assert os.listdir(tmp_path) == ["evil"]


def test_its_session_is_continued(cli: CliMachine, inner: str) -> None:
    assert cli.call("run", "-a", inner, "-p", "write", "--permissions", "full-access").code == 0
    again = cli.call(
        "run",
        "-a",
        inner,
        "--resume",
        "last",
        "-p",
        "again",
        "--permissions",
        "full-access",
        "--format",
        "text",
    )
    assert again.code == 0, again.err
    assert "Once more." in again.out


def test_it_can_be_named_in_the_settings_of_the_user_alone(cli: CliMachine, inner: str) -> None:
    (cli.project / "harness.toml").write_text(f"[agents.mine]\nacp = {inner.removeprefix('acp:')!r}\n")
    refused = cli.call("run", "-a", "mine", "-p", "write")
    assert refused.code != 0
    assert cli.call("config", "set", "agents.mine.acp", inner.removeprefix("acp:")).code == 0
    done = cli.call("run", "-a", "mine", "-p", "write", "--permissions", "full-access", "--format", "text")
    assert "It is there." in done.out, done.err


def test_a_program_that_is_not_there_is_said(cli: CliMachine) -> None:
    done = cli.call("run", "-a", "acp:no-such-program --acp", "-p", "x", "--permissions", "full-access")
    assert done.code != 0
    assert "no-such-program" in done.out + done.err
    assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize("name", ["acp:", "acp:   ", "acp:'unfinished", "acp:x\0y", f"acp:{'x' * 2000}"])
def test_what_is_no_command_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="this is no command"):
        load(name)


def test_its_own_words_decide_nothing() -> None:
    agent = load("acp:my-agent --acp")
    assert agent.two_way is not None
    assert agent.two_way.tools is None
    assert agent.name == "acp:my-agent --acp"
    assert "read-only" not in (agent.two_way.supports or ())
    with pytest.raises(UnknownAgent):
        load("my-agent")
