"""Names that others obey: in every spelling that the file system takes for them, and no others."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from harness.agents.registry import all_names
from harness.approvals.protected import OBEYED, closed_names, is_protected
from harness.approvals.work_folder import WorkFolder


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git",
        "vendor/x/.git/hooks/pre-commit",
        ".claude/settings.json",
        "./.claude//skills/x/SKILL.md",
        "packages/web/.claude/settings.json",
        ".mcp.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".env",
        ".opencode/plugin/x.js",
        "opencode.jsonc",
        ".kilocode/mcp.json",
        ".cline/hooks/TaskStart",
        ".clinerules/hooks/TaskStart",
        ".agents/plugins/x/hooks/hooks.json",
        ".config/goose/config.yaml",
        ".github/hooks/x.json",
        ".github/copilot/settings.json",
        ".github/mcp.json",
        ".github",  # a prepared folder may be moved there
        ".factory/hooks.json",
        ".agent/x",
        ".kimi-code/local.toml",
        ".pi/extensions/x.ts",
        ".cursor/mcp.json",
        ".gitmodules",
        ".husky/pre-commit",
        ".pre-commit-config.yaml",
        ".vscode/tasks.json",
        "shop.code-workspace",
        ".yarnrc.yml",
        "node_modules/.bin/tsc",
        "web/node_modules/x/index.js",
        ".venv/bin/python",
        ".cargo/config.toml",
        "harness.toml",
        ".harness/prompts/x.md",
    ],
)
def test_a_name_that_others_obey_is_protected(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        "AGENTS.md",
        "CLAUDE.md",
        ".claude/CLAUDE.md",
        ".clinerules/naming.md",
        ".goosehints",
        "Makefile",
        "package.json",
        "conftest.py",
        ".github/workflows/ci.yml",
        ".gitattributes",
        ".gitignore",
        ".envrc",
        "git/config",
        "x.claude/settings.json",
        "claude",
        "docs/.gitkeep",
        "",
        ".",
    ],
)
def test_what_the_user_starts_and_what_models_read_is_not(path: str) -> None:
    assert not is_protected(path)


@pytest.mark.parametrize(
    "path",
    [
        ".Claude/Settings.json",
        ".GIT/config",
        "HARNESS.TOML",
        ".g\u200cit/config",
        ".git./config",
        ".git /config",
    ],
)
def test_capitals_and_ignored_characters_hide_nothing_where_names_are_folded(path: str) -> None:
    assert is_protected(path, folds_case=True)
    assert not is_protected(path, folds_case=False)


def test_both_spellings_of_an_accent_are_one_name() -> None:
    for form in ("NFC", "NFD"):
        assert is_protected(unicodedata.normalize(form, "é/.claude/x"))


def test_every_agent_of_the_table_is_an_agent() -> None:
    assert set(OBEYED) <= {*all_names()}


def test_what_a_sandbox_closes_is_protected_and_not_closed_twice() -> None:
    names = closed_names()
    assert all(is_protected(name) for name in names)
    assert not [name for name in names for other in names if name.startswith(f"{other}/")]
    assert ".env" not in names


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".ssh/authorized_keys",
            ".gitconfig",
            ".config/git/config",
            ".config/systemd/user/x.service",
            ".local/bin/ls",
        ),
        *(
            ".bash_aliases",
            ".zprofile",
            ".config/autostart/x.desktop",
            "Library/LaunchAgents/x.plist",
            ".tmux.conf",
        ),
        *(
            ".cargo/config",
            "mise.toml",
            ".mise/config.toml",
            "bunfig.toml",
            ".yarn/releases/y.cjs",
            "lefthook.yaml",
        ),
        *(
            ".helix/languages.toml",
            ".emacs.d/init.el",
            "usercustomize.py",
            "lib/x.pth",
            ".hg/hgrc",
            ".kiro/hooks/x",
            ".jj/repo/config.toml",
            ".openhands/setup.sh",
            ".Rprofile",
        ),
    ],
)
def test_what_starts_programs_where_the_folder_is_a_home_is_protected(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize(
    "path", [".config/app.toml", ".local/share/x", "Library/x", ".cargo/x", "src/login.py", "mise.md"]
)
def test_other_files_beside_them_are_not(path: str) -> None:
    assert not is_protected(path)


def test_where_the_folder_is_a_home_its_settings_are_not_edited_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "shop").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for root in (home, tmp_path):
        folder = WorkFolder(root=os.path.realpath(root))
        for name in (".aws/config", ".kube/config", ".netrc", ".oh-my-zsh/x.zsh", "bin/ls", ".local/share/x"):
            assert not folder.may_edit(str(home / name)), name
        assert folder.may_edit(str(home / "shop/.prettierrc"))
        assert folder.may_edit(str(home / "notes.md"))
    assert WorkFolder(root=os.path.realpath(home / "shop")).may_edit(".prettierrc")


def test_the_whole_system_is_no_folder_to_edit_unasked() -> None:
    assert not WorkFolder(root="/").may_edit("/etc/cron.d/x")
