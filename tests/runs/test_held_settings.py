"""Settings that a program obeys more than its user's, over those that a machine has already."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.agents.droid.agent import acp_command as droid_command
from harness.agents.qwen.agent import acp_command
from harness.contracts.agent import CommandLine, HeldSettings
from harness.contracts.request import Request
from harness.errors import UsageError
from harness.runs.held_settings import hold
from harness.runs.launch import prepare

OURS = {"memory": {"auto": False}, "permissions": {"ask": ["Bash", "Edit"]}, "$version": 4}


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeldSettings:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "ours.json"
    file.write_text(json.dumps(OURS))
    place = str(tmp_path / "machine" / "settings.json")
    qwen = acp_command(Request(agent="qwen", permissions="ask"), ()).held_by
    assert qwen is not None
    return replace(
        qwen, file=str(file), theirs=(place,), variable="AT", beside={"DEFAULTS_AT": "defaults.json"}
    )


def variables_of(held: HeldSettings, environ: dict[str, str]) -> dict[str, str]:
    return hold(CommandLine(args=(), held_by=held), environ, "/")[1]


def test_ours_is_used_as_it_is_where_the_machine_has_none(held: HeldSettings, tmp_path: Path) -> None:
    defaults = str(tmp_path / "machine" / "defaults.json")
    assert variables_of(held, {}) == {"AT": held.file, "DEFAULTS_AT": defaults}
    assert not (tmp_path / "cache").exists()


def test_what_the_machine_says_stays_and_ours_counts_more(held: HeldSettings, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere.json"
    other.write_text(
        '\ufeff{ // of the company\n "memory": {"auto": true, "max": 3}, /* and */ "url": "http://a/*b*/",\n'
        ' "permissions": {"ask": ["Skill", "Edit"]}, "$version": 3}',
        encoding="utf-8",
    )
    environ = {"AT": str(other), "DEFAULTS_AT": "/their/defaults.json"}
    variables = variables_of(held, environ)
    assert variables["DEFAULTS_AT"] == "/their/defaults.json"
    path = Path(variables["AT"])
    assert json.loads(path.read_bytes()) == {
        "memory": {"auto": False, "max": 3},
        "url": "http://a/*b*/",
        "permissions": {"ask": ["Skill", "Edit", "Bash"]},
        "$version": 3,
    }
    assert path.stat().st_mode & 0o777 == 0o600  # there may be keys in it
    assert variables_of(held, environ) == variables
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("text", ["{", "[]", "nothing"])
def test_what_cannot_be_read_is_refused(held: HeldSettings, text: str) -> None:
    place = Path(held.theirs[0])
    place.parent.mkdir()
    place.write_text(text)
    with pytest.raises(UsageError, match=r"cannot be put over .*settings\.json"):
        variables_of(held, {})


def test_what_a_user_has_allowed_droid_is_asked_about_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home, project = tmp_path / "home" / ".factory", tmp_path / "project" / ".factory"
    home.mkdir(parents=True)
    project.mkdir(parents=True)
    rule = {"id": "a", "decision": "allow", "match": {"prefix": [["cargo", "rustc"], "build"]}}
    (home / "settings.json").write_text('{"commandAllowlist": ["touch", "npm run x"], "model": "m"}')
    (home / "settings.local.json").write_text(
        json.dumps({"permissionRules": {"version": 1, "rules": [rule]}})
    )
    (project / "settings.json").write_text('{"commandAllowlist": ["make"]}')
    command = droid_command(Request(agent="droid", permissions="ask", cwd=str(project.parent)), ())
    assert command.held_by is not None
    inside = str(project.parent / "a")
    held, variables = hold(command, {"HOME": str(home.parent)}, inside)
    assert variables == {}
    path = held.args[held.args.index("--settings") + 1]
    ours, settings = (json.loads(Path(name).read_bytes()) for name in (command.held_by.file, path))
    added = ["touch", "npm run x", "npm", "cargo", "rustc", "make"]
    assert settings["commandDenylist"] == [*ours["commandDenylist"], *added]
    assert settings["hooks"]["hooksDisabled"] is False  # what the user may have switched off
    assert "model" not in settings


def test_neither_a_variable_of_the_user_nor_of_the_request_leads_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    theirs = tmp_path / "theirs.json"
    theirs.write_text('{"memory": {"enableManagedAutoMemory": true}, "model": {"name": "m"}}')
    request = Request(
        agent="qwen",
        prompt="x",
        cwd=str(tmp_path),
        permissions="read-only",
        folder_settings="use",
        env={"QWEN_CODE_SYSTEM_SETTINGS_PATH": str(theirs)},
    )
    env = prepare(request, {**os.environ, "PATH": str(tmp_path)}).invocation.env
    settings = json.loads(Path(env["QWEN_CODE_SYSTEM_SETTINGS_PATH"]).read_bytes())
    assert settings["memory"]["enableManagedAutoMemory"] is False
    assert settings["model"] == {"name": "m"}
