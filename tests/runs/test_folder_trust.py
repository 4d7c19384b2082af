"""Settings that a folder brings are obeyed, left out or a reason to refuse, before a program is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.approvals.trust import judge, trust_folder
from harness.contracts.request import Request
from harness.errors import UsageError
from harness.runs.launch import Launch, prepare

LEFT_OUT = {
    "claude": (".mcp.json", ["--setting-sources", "user", "--strict-mcp-config"]),
    "qwen": (".qwen/settings.json", ["--safe-mode"]),
    "pi": (".pi/settings.json", ["--no-approve"]),
    "codex": (".codex/config.toml", ['trust_level="untrusted"']),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "shop"
    path.mkdir()
    return path


def put(folder: Path, name: str, text: str = "{}") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def launched(folder: Path, agent: str, **options: Any) -> Launch:
    options.setdefault("permissions", "agent-default")
    return prepare(Request(agent=agent, prompt="x", cwd=str(folder), **options), {"PATH": ""})


BEHIND_A_WALL = pytest.mark.needs_linux_calls(
    "Qwen's own means would end its asking: its settings are hidden by a wall"
)


@pytest.mark.parametrize(
    "agent", [pytest.param(name, marks=BEHIND_A_WALL if name == "qwen" else ()) for name in LEFT_OUT]
)
def test_settings_of_an_untrusted_folder_are_left_out_by_the_agents_own_means(
    folder: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.sandbox.ladder.find_sandbox", lambda *_, **__: None)
    name, words = LEFT_OUT[agent]
    put(folder, name)
    launch = launched(folder, agent)
    line = " ".join(launch.invocation.argv)
    assert all(word in line for word in words)
    assert any("settings of this folder are not used: it is not trusted" in one for one in launch.warnings)


def test_gemini_is_never_told_to_trust_what_nobody_trusts(folder: Path) -> None:
    put(folder, ".gemini/settings.json")
    variable = "GEMINI_CLI_TRUST_WORKSPACE"
    told = [
        launched(folder, "gemini", permissions=mode).invocation.env.get(variable)
        for mode in ("read-only", "ask")
    ]
    assert told == ["false", "false"]
    by_caller = launched(folder, "gemini", permissions="read-only", env={variable: "true"})
    assert by_caller.invocation.env[variable] == "false"
    assert variable not in launched(folder, "gemini", permissions="full-access").invocation.env
    trust_folder(judge(str(folder), "gemini"))
    assert launched(folder, "gemini", permissions="full-access").invocation.env[variable] == "true"


def test_full_access_obeys_them_and_says_so_unless_it_is_told_not_to(folder: Path) -> None:
    put(folder, ".mcp.json")
    launch = launched(folder, "claude", permissions="full-access")
    assert "--setting-sources" not in launch.invocation.argv
    assert any("are used, though it is not trusted: .mcp.json" in one for one in launch.warnings)
    narrowed = launched(folder, "claude", permissions="full-access", folder_settings="none")
    assert "--setting-sources" in narrowed.invocation.argv


@pytest.mark.parametrize("is_trusted", [True, False])
def test_what_is_trusted_or_wanted_is_obeyed_in_silence(folder: Path, is_trusted: bool) -> None:
    put(folder, ".mcp.json")
    if is_trusted:
        trust_folder(judge(str(folder), "claude"))
    launch = launched(folder, "claude", folder_settings="" if is_trusted else "use")
    assert "--setting-sources" not in launch.invocation.argv
    assert launch.warnings == ()


def test_git_variables_switch_off_what_the_repository_names_and_keep_those_of_the_user(folder: Path) -> None:
    put(folder, ".git/config", '[core]\n\tfsmonitor = ./evil\n[filter "a.b"]\n\tclean = ./evil\n')
    request = Request(agent="claude", prompt="x", cwd=str(folder), permissions="agent-default")
    own = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "me"}
    env = prepare(request, {"PATH": "", **own}).invocation.env
    pairs = {
        env[f"GIT_CONFIG_KEY_{number}"]: env[f"GIT_CONFIG_VALUE_{number}"]
        for number in range(int(env["GIT_CONFIG_COUNT"]))
    }
    assert pairs["user.name"] == "me"
    assert (pairs["core.fsmonitor"], pairs["core.hooksPath"]) == ("false", "/dev/null")
    assert (pairs["filter.a.b.clean"], pairs["filter.a.b.required"]) == ("", "false")


def test_a_copy_is_trusted_as_the_folder_it_comes_from(folder: Path, tmp_path: Path) -> None:
    text = json.dumps({"mcpServers": {}})
    put(folder, ".mcp.json", text)
    trust_folder(judge(str(folder), "claude"))
    copy = tmp_path / "copy"
    put(copy, ".mcp.json", text)
    assert launched(copy, "claude").warnings
    assert launched(copy, "claude", copy_of=str(folder)).warnings == ()


def test_a_wall_hides_what_an_agent_cannot_be_told_to_leave_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.sandbox.ladder.find_sandbox", lambda *_, **__: None)
    put(folder, ".cline/hooks/TaskStart", "#!/bin/sh\n")
    wall = launched(folder, "cline").invocation.wall
    assert wall is not None
    assert (wall.settings, wall.protected, wall.network) == ("blank", (".cline",), "host")
    assert wall.workspaces == (str(folder),)
    assert launched(folder, "cline", permissions="full-access").invocation.wall is None
    trust_folder(judge(str(folder), "cline"))
    assert launched(folder, "cline").invocation.wall is None
    assert launched(folder, "cline", folder_settings="none").invocation.wall is not None


def test_settings_of_git_alone_need_no_wall(folder: Path) -> None:
    put(folder, ".git/config", "[core]\n\tfsmonitor = ./evil\n")
    launch = launched(folder, "cline")
    assert launch.invocation.wall is None
    assert launch.invocation.env["GIT_CONFIG_KEY_0"] == "core.fsmonitor"


@pytest.mark.parametrize("name", ["bunfig.toml", ".env", ".env.local", ".env.development", ".env.test.local"])
@pytest.mark.parametrize("mode", ["ask", "accept-edits", "agent-default"])
def test_cline_is_told_to_take_nothing_from_files_that_bun_reads(folder: Path, name: str, mode: str) -> None:
    """It is compiled by Bun, which runs what the folder's bunfig.toml names before a program begins, and sets variables."""
    put(folder, name, 'preload = ["./evil.js"]')
    launch = launched(folder, "cline", permissions=mode)
    assert launch.invocation.env["BUN_OPTIONS"] == "--config=/dev/null --env-file=/dev/null"
    assert launch.invocation.wall is None
    assert any(name in warning and "it is not trusted" in warning for warning in launch.warnings)
    by_caller = launched(folder, "cline", permissions=mode, env={"BUN_OPTIONS": ""})
    assert by_caller.invocation.env["BUN_OPTIONS"]
    trust_folder(judge(str(folder), "cline"))
    assert "BUN_OPTIONS" not in launched(folder, "cline", permissions=mode).invocation.env
    assert "BUN_OPTIONS" not in launched(folder, "cline", permissions="full-access").invocation.env


def test_without_a_wall_the_run_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(*_: object, **__: object) -> None:
        raise UsageError("there is no sandbox here")

    monkeypatch.setattr("harness.sandbox.ladder.find_sandbox", none_here)
    put(folder, ".cline/hooks/TaskStart", "#!/bin/sh\n")
    with pytest.raises(UsageError, match="cannot be left out here: there is no sandbox here") as refused:
        launched(folder, "cline")
    assert "harness trust" in refused.value.hint
    assert "--folder-settings use" in refused.value.hint


def test_settings_that_are_a_link_cannot_be_hidden(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.sandbox.ladder.find_sandbox", lambda *_, **__: None)
    put(tmp_path / "elsewhere", "hooks/TaskStart", "#!/bin/sh\n")
    (folder / ".cline").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a symbolic link"):
        launched(folder, "cline")


def test_an_unknown_wish_is_refused() -> None:
    with pytest.raises(UsageError, match="folder_settings"):
        Request(agent="claude", folder_settings="yes")  # type: ignore[arg-type]
