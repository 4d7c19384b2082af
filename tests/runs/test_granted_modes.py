"""`accept-edits` and `plan` with agent programs: how they are started, and with which words they are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.agents.registry import load
from harness.approvals.approver import Approver
from harness.approvals.call import ACCEPT_EDITS, ASK, PLAN, READ_ONLY
from harness.approvals.work_folder import WorkFolder
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.presets import backing_of
from harness.clients.installed_agents import permission_modes
from harness.contracts.request import Permissions, Request
from harness.errors import UsageError
from harness.events import RelayReply
from harness.runs.launch import dropped_options, prepare
from harness.runs.questions import approver_of, of_plan
from harness.runs.refusals import refusal_to_ask


def program(folder: Path, name: str, version: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return str(path)


def request_for(tmp_path: Path, agent: str, version: str, permissions: Permissions) -> Request:
    return Request(
        agent=agent,
        prompt="hello",
        permissions=permissions,
        cwd=str(tmp_path),
        binary=program(tmp_path, agent, version),
    )


def test_edits_are_accepted_by_the_mode_and_everything_is_asked_by_the_program(tmp_path: Path) -> None:
    launch = prepare(request_for(tmp_path, "claude", "2.1.325", "accept-edits"), dict(os.environ))
    assert launch.request.permissions == "ask"
    assert launch.two_way is not None
    assert approver_of(launch).mode is ACCEPT_EDITS


def test_a_run_that_plans_is_started_to_read(tmp_path: Path) -> None:
    launch = prepare(request_for(tmp_path, "claude", "2.1.325", "plan"), dict(os.environ))
    assert launch.request.permissions == "read-only"
    assert approver_of(launch).mode is PLAN


def test_an_approved_plan_is_carried_out_as_in_ask(tmp_path: Path) -> None:
    approver = Approver(PLAN, WorkFolder(root=str(tmp_path)))
    of_plan(RelayReply(id="1", approved=True, answer={"action": "rejected"}), approver)
    assert approver.mode is PLAN
    of_plan(RelayReply(id="1", approved=True), approver)
    assert approver.mode is ASK
    reader = Approver(READ_ONLY, WorkFolder(root=str(tmp_path)))
    of_plan(RelayReply(id="1", approved=True), reader)
    assert reader.mode is READ_ONLY


@pytest.mark.parametrize("permissions", ["ask", "accept-edits"])
@pytest.mark.parametrize(("agent", "version"), [("aider", "1.0"), ("kimi", "2.1.0"), ("claude", "2.1.74")])
def test_an_agent_that_cannot_be_asked_is_refused_in_the_same_words(
    tmp_path: Path, permissions: Permissions, agent: str, version: str
) -> None:
    refusal = refusal_to_ask(load(agent), version, permissions)
    assert refusal is not None
    assert (
        "does not ask about everything" in refusal.message
        or f"--permissions {permissions}" in refusal.message
    )
    with pytest.raises(UsageError) as raised:
        prepare(request_for(tmp_path, agent, version, permissions), dict(os.environ))
    assert raised.value.message == refusal.message


@pytest.mark.parametrize("version", ["1.0.60", "2.0.60", "2.1.20", "2.1.74", "2.1.145", "2.1.197", "2.1.325"])
def test_claude_is_asked_only_in_versions_that_were_seen_to_ask(tmp_path: Path, version: str) -> None:
    """Earlier ones run `echo hi > beta.md` or `git status` although the hook says that they are to ask."""
    request = request_for(tmp_path, "claude", version, "ask")
    if version in ("2.1.197", "2.1.325"):
        assert prepare(request, dict(os.environ)).version == version
        return
    with pytest.raises(UsageError, match=rf"Claude Code {version} cannot be asked while it runs"):
        prepare(request, dict(os.environ))


@pytest.mark.parametrize("permissions", ["ask", "accept-edits"])
def test_a_program_that_does_not_say_its_version_is_not_taken_for_one_that_asks(
    tmp_path: Path, permissions: Permissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="does not say its version"):
        prepare(request_for(tmp_path, "claude", "no number", permissions), dict(os.environ))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert "does not say its version" in permission_modes(load("claude"))["default"]
    with pytest.raises(UsageError, match="does not say its version"):
        backing_of(Setup(agent="claude", permission_mode="default", cwd=str(tmp_path)))


@pytest.mark.parametrize("permissions", ["read-only", "plan"])
def test_an_agent_that_cannot_be_held_to_reading_is_refused(tmp_path: Path, permissions: Permissions) -> None:
    with pytest.raises(UsageError, match="has no read-only mode"):
        prepare(request_for(tmp_path, "mini-swe-agent", "1.0", permissions), dict(os.environ))


def test_a_chat_and_the_page_say_what_a_run_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "claude", "2.1.74")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    claude = load("claude")
    words = {
        mode: refusal_to_ask(claude, "2.1.74", permissions)
        for mode, permissions in (("default", "ask"), ("acceptEdits", "accept-edits"))
    }
    for mode, refusal in words.items():
        assert refusal is not None
        assert permission_modes(claude)[mode] == refusal.message
        with pytest.raises(UsageError) as raised:
            backing_of(Setup(agent="claude", permission_mode=mode, cwd=str(tmp_path)))
        assert raised.value.message == refusal.message


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [("plan", "read-only"), ("accept-edits", "accept-edits"), ("ask", "agent-default")],
)
def test_the_built_in_agent_keeps_them_by_itself(permissions: Permissions, expected: str) -> None:
    launch = prepare(Request(agent="native", prompt="hello", permissions=permissions), {})
    assert launch.request.permissions == expected


def test_nothing_of_a_variant_is_called_dropped_that_is_kept(tmp_path: Path) -> None:
    for permissions in ("ask", "accept-edits", "plan"):
        wanted = request_for(tmp_path, "claude", "2.1.325", permissions)  # type: ignore[arg-type]
        assert dropped_options(wanted) == {}


def test_gemini_is_not_held_to_ask_where_its_settings_trust_a_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".gemini").mkdir(parents=True)
    settings = home / ".gemini" / "settings.json"
    settings.write_text(json.dumps({"mcpServers": {"docs": {"command": "docs", "trust": True}}}))
    environ = {**os.environ, "HOME": str(home)}
    request = request_for(tmp_path, "gemini", "0.61.0", "ask")
    with pytest.raises(UsageError, match=r'"trust": true in .*settings\.json'):
        prepare(request, environ)
    settings.write_text(json.dumps({"mcpServers": {"docs": {"command": "docs"}}}))
    assert prepare(request, environ).two_way is not None
