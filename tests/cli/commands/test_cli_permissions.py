"""`harness permissions`: rules are listed, tested, added and removed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.approvals.rule_settings import TEXTS
from harness.approvals.rules import Rule
from surroundings import use_programs_of_the_system


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    use_programs_of_the_system(monkeypatch)
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def harness(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "permissions", *words],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


def test_whatever_a_rule_can_name_has_an_option(home: Path) -> None:
    words = harness(home, "add", "--help").stdout
    assert [name for name in TEXTS if f"--{name} " not in words] == []
    assert [name for name in TEXTS if name != "reason" and "x" not in _rule(name).words] == []


def _rule(name: str) -> Rule:
    return Rule(answer="deny", **{name: "x"})  # type: ignore[arg-type] # all of these are texts


def test_a_rule_is_added_listed_tested_and_removed(home: Path) -> None:
    assert harness(home, "add", "deny", "--command", "git push").returncode == 0
    assert "1  deny command git push" in harness(home, "list").stdout
    (rule,) = json.loads(harness(home, "list", "--json").stdout)["rules"]
    assert (rule["answer"], rule["command"], rule["source"]) == ("deny", "git push", "user")
    denied = harness(home, "test", "-a", "codex", "--permissions", "full-access", "cd x && git push origin")
    assert denied.stdout.startswith("deny: a rule denies it: deny command git push")
    assert harness(home, "test", "git log").stdout.startswith("ask: ")
    assert json.loads(harness(home, "test", "--json", "ls -la").stdout)["answer"] == "allow"
    assert harness(home, "test", "--permissions", "read-only", "ls -la").stdout.startswith("deny: ")
    assert harness(home, "test", "--permissions", "accept-edits", "--edit", "a.py").stdout.startswith(
        "allow: "
    )
    assert harness(home, "test", "--permissions", "accept-edits", "--edit", ".claude/x").stdout.startswith(
        "ask: "
    )
    assert harness(home, "remove", "1").returncode == 0
    assert "no rule is set" in harness(home).stderr


def test_what_cannot_be_a_rule_is_refused(home: Path) -> None:
    assert harness(home, "add", "deny").returncode == 2
    assert harness(home, "add", "deny", "--command", "x", "--agent", "cladue").returncode == 2
    assert harness(home, "remove", "7").returncode == 2
    assert harness(home, "test").returncode == 2


def test_settings_that_are_a_link_stay_one_and_keep_their_rights(home: Path) -> None:
    elsewhere = home / "settings.toml"
    elsewhere.write_text("# mine\n")
    elsewhere.chmod(0o640)
    (home.parent / "config/harness").mkdir(parents=True)
    link = home.parent / "config/harness/config.toml"
    link.symlink_to(elsewhere)
    assert harness(home, "add", "deny", "--command", "rm").returncode == 0
    assert link.is_symlink()
    assert elsewhere.read_text().startswith("# mine\n")
    assert (elsewhere.stat().st_mode & 0o777) == 0o640
