"""Commands that a user has once allowed a program in its own settings are no answer to what is asked here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.lacking import lacking

from harness.agents.registry import load
from harness.contracts.request import Permissions, Request
from harness.errors import UsageError
from harness.runs.folder_trust import FolderUse
from harness.runs.launch import Launch, prepare
from harness.runs.user_grants import without_grants
from harness.sandbox import ladder
from harness.sandbox.ladder import best_wall
from harness.sandbox.wall import Wall

ALLOWS = 'prefix_rule(pattern=["touch"], decision="allow")\n'
FORBIDS = "# never\nprefix_rule(\n  pattern = ['git', 'push'],\n  decision = 'forbidden',\n)\n"


@pytest.fixture
def hiding() -> None:
    if (rung := best_wall()) is None or not rung.hides:
        pytest.skip(lacking("wall of mounts"))


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".codex" / "rules"
    folder.mkdir(parents=True)
    return folder / "default.rules"


def launch(tmp_path: Path, permissions: Permissions) -> Launch:
    project = tmp_path / "project" / "sub"
    project.mkdir(parents=True, exist_ok=True)
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\necho codex-cli 0.166.0\n")
    program.chmod(0o755)
    environ = {**os.environ, "HOME": str(tmp_path / "home")}
    environ.pop("CODEX_HOME", None)
    request = Request(
        agent="codex", prompt="x", binary=str(program), cwd=str(project), permissions=permissions
    )
    return prepare(request, environ)


def blank(launched: Launch) -> tuple[str, ...]:
    wall = launched.invocation.wall
    return wall.blank if isinstance(wall, Wall) else ()


@pytest.mark.usefixtures("hiding")
@pytest.mark.parametrize("permissions", ["ask", "accept-edits", "read-only", "plan"])
@pytest.mark.parametrize("text", [ALLOWS, 'prefix_rule(pattern=["touch"])', ALLOWS + FORBIDS])
def test_they_are_hidden_where_it_is_asked_about_or_nothing_may_run(
    tmp_path: Path, rules: Path, permissions: Permissions, text: str
) -> None:
    rules.write_text(text)
    launched = launch(tmp_path, permissions)
    assert blank(launched) == (str(rules),)
    assert any(str(rules) in warning and "without asking" in warning for warning in launched.warnings)


@pytest.mark.usefixtures("hiding")
def test_those_of_a_folder_above_are_hidden_too_and_so_is_what_a_link_leads_to(
    tmp_path: Path, rules: Path
) -> None:
    real = tmp_path / "dotfiles.rules"
    real.write_text(ALLOWS)
    rules.symlink_to(real)
    project = tmp_path / "project" / ".codex" / "rules"
    project.mkdir(parents=True)
    (project / "b.rules").write_text(ALLOWS)
    assert set(blank(launch(tmp_path, "ask"))) == {str(real), str(project / "b.rules")}


@pytest.mark.parametrize("permissions", ["full-access", "agent-default"])
def test_they_hold_where_its_own_settings_do(tmp_path: Path, rules: Path, permissions: Permissions) -> None:
    rules.write_text(ALLOWS)
    assert blank(launch(tmp_path, permissions)) == ()


def test_what_only_forbids_stays(tmp_path: Path, rules: Path) -> None:
    rules.write_text(FORBIDS)
    assert blank(launch(tmp_path, "ask")) == ()


def test_where_nothing_can_hide_them_the_run_is_refused(
    tmp_path: Path, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise UsageError("no sandbox works here")

    monkeypatch.setattr(ladder, "find_sandbox", nothing)
    rules.write_text(ALLOWS)
    with pytest.raises(UsageError, match=rf"runs what {rules} allows without asking"):
        launch(tmp_path, "ask")


NOTHING = (
    "user:\n  always_allow: []\n  ask_before:\n  - shell\nsmart_approve:\n  always_allow:\n  ask_before: []\n"
)


@pytest.mark.parametrize(
    ("text", "is_hidden"),
    [
        (NOTHING, False),
        (NOTHING + "other:\n  always_allow:\n", False),
        (NOTHING.replace("[]", "[shell]", 1), True),
        (NOTHING.replace(" []", "\n  - shell", 1), True),
        ('{"user": {"always_allow": ["shell"]}}', True),
        ('{"user": {"always_allow": [], "ask_before": []}}', False),
    ],
)
def test_what_goose_was_told_to_allow_always_is_hidden_from_it(
    tmp_path: Path, text: str, is_hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ladder, "find_sandbox", lambda *_, **__: None)
    place = tmp_path / "config" / "goose" / "permission.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    request = Request(agent="goose", cwd=str(tmp_path), permissions="ask")
    use = without_grants(load("goose"), request, {"XDG_CONFIG_HOME": str(tmp_path / "config")}, FolderUse())
    assert (use.wall is not None and use.wall.blank == (str(place),)) is is_hidden


@pytest.mark.parametrize("permissions", ["ask", "accept-edits", "read-only", "plan"])
@pytest.mark.parametrize(
    ("agent", "version", "path", "event"),
    [
        ("claude", "2.1.325 (Claude Code)", ".claude/settings.json", "PermissionRequest"),
        ("qwen", "0.24.4", ".qwen/settings.json", "PermissionRequest"),
        ("droid", "0.225.2", ".factory/settings.json", "PreToolUse"),
        ("copilot", "1.0.102", ".copilot/hooks/a.json", "preToolUse"),
    ],
)
def test_a_hook_that_answers_instead_of_the_person_is_refused(
    tmp_path: Path, permissions: Permissions, agent: str, version: str, path: str, event: str
) -> None:
    project, settings = tmp_path / "project", tmp_path / "home" / path
    project.mkdir()
    settings.parent.mkdir(parents=True)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    environ = {**os.environ, "HOME": str(tmp_path / "home")}
    for name in ("CLAUDE_CONFIG_DIR", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        environ.pop(name, None)
    request = Request(agent=agent, prompt="x", binary=str(program), cwd=str(project), permissions=permissions)
    settings.write_text(json.dumps({"hooks": {"PostToolUse": [{"matcher": "*"}], event: []}}))
    prepare(request, environ)
    settings.write_text(json.dumps({"hooks": {event: [{"matcher": "*", "hooks": []}]}}))
    with pytest.raises(UsageError, match=rf"does not ask about everything: a hook .*in {settings}"):
        prepare(request, environ)
    prepare(replace(request, permissions="full-access"), environ)
