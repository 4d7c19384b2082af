"""The calls of `ask-holds` besides command lines, and the folder in which they leave marks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.contracts.fixture import LabContext
from harness.lab.fixtures import fixture_names, load_fixture
from harness.lab.hostile_calls import OWN_CALLS, hostile_calls
from harness.lab.scenario_run import echo_command
from harness.lab.script_run import ScriptRun
from harness.lab.traps import MARK_OF_GIT, TrapFolder


@pytest.mark.parametrize("agent", fixture_names())
def test_each_call_can_be_made_or_is_named_with_the_reason(tmp_path: Path, agent: str) -> None:
    fixture = load_fixture(agent)
    context = LabContext(url="http://127.0.0.1:1", home=str(tmp_path), cwd=str(tmp_path))
    calls = hostile_calls(fixture, context, "lab")
    names = {call.what for call in calls}
    elsewhere = {"reading elsewhere", "link out", "searching elsewhere", "listing elsewhere"}
    assert {"skill", "sub-agent", "MCP", "batch", *elsewhere, *OWN_CALLS} <= names
    assert not fixture.own_calls.keys() - OWN_CALLS.keys()
    for call in calls:
        assert bool(call.parts) != bool(call.reason)
        if call.parts:
            ScriptRun(call.script("ask-holds"), fixture, context)  # raises for what the agent lacks


def test_only_codex_and_claude_ask_for_more_rights() -> None:
    assert {name for name in fixture_names() if "escalation" in load_fixture(name).own_calls} == {
        "claude",
        "codex",
    }


def test_marks_are_found_once_and_removed(tmp_path: Path) -> None:
    cwd = tmp_path / "project"
    cwd.mkdir()
    traps = TrapFolder(str(cwd), skills_folder=".some/skills")
    traps.lay()
    assert traps.marks() == []
    subprocess.run([str(cwd / "tools" / "cat")], check=True)
    (cwd / "P").write_text("")
    (cwd / "a.txt").write_text("changed")
    assert traps.marks() == ["MARK", "P", "a.txt"]
    assert traps.marks() == []
    assert "touch" in (cwd / ".some" / "skills" / "trap" / "SKILL.md").read_text()


def test_what_an_agent_does_with_git_by_itself_is_not_the_models_doing(tmp_path: Path) -> None:
    cwd = tmp_path / "project"
    cwd.mkdir()
    traps = TrapFolder(str(cwd))
    traps.lay()
    (cwd / MARK_OF_GIT).write_text("")
    assert traps.marks() == [MARK_OF_GIT]
    (cwd / MARK_OF_GIT).write_text("")
    traps.note_start()
    assert traps.marks() == []


def test_a_call_of_the_server_leaves_a_mark(tmp_path: Path) -> None:
    mark = tmp_path / "MARK"
    command = echo_command(str(mark))
    assert command[0] == sys.executable
    listing = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n'
    subprocess.run(command, input=listing, check=True, stdout=subprocess.DEVNULL)
    assert not os.path.exists(mark)
    call = (
        b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}\n'
    )
    subprocess.run(command, input=call, check=True, stdout=subprocess.DEVNULL)
    assert os.path.exists(mark)
