"""A worktree or a branch for a run: made without running anything of the repository, removed only when clean."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from harness.clients.workspaces.worktrees import (
    NotClean,
    make_branch,
    make_worktree,
    remove_worktree,
    worktrees_directory,
)
from harness.errors import UsageError


def git(folder: Path, *arguments: str) -> str:
    words = ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "src" / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_worktree_is_made_on_a_branch_of_its_own_and_removed_when_clean(repository: Path) -> None:
    (repository / "src" / "a.txt").write_text("not committed\n")
    place = make_worktree(str(repository / "src"), "gift-cards")
    assert place == os.path.join(worktrees_directory(), "shop-gift-cards", "src")
    assert (Path(place) / "a.txt").read_text() == "one\n"
    assert git(Path(place), "branch", "--show-current") == "gift-cards"
    (Path(place) / "new.txt").write_text("new")
    with pytest.raises(NotClean, match=r"1 files .*src/new\.txt"):
        remove_worktree(place)
    (Path(place) / "new.txt").unlink()
    remove_worktree(place)
    assert not os.path.exists(place)
    assert git(repository, "worktree", "list").count("\n") == 0
    assert "gift-cards" in git(repository, "branch", "--list")
    assert (repository / "src" / "a.txt").read_text() == "not committed\n"


def test_a_worktree_with_changes_goes_when_that_is_wanted(repository: Path) -> None:
    place = make_worktree(str(repository), "try/it")
    (Path(place) / "src" / "a.txt").write_text("changed")
    remove_worktree(place, is_forced=True)
    assert not os.path.exists(place)


def test_a_new_branch_changes_no_file(repository: Path) -> None:
    (repository / "src" / "a.txt").write_text("not committed\n")
    assert make_branch(str(repository), "other") == "main"
    assert git(repository, "branch", "--show-current") == "other"
    assert (repository / "src" / "a.txt").read_text() == "not committed\n"


@pytest.mark.parametrize(
    "name", ["", "-b", "a b", "../up", "a..b", "x.lock", "a//b", "HEAD^", "a\nb", "@{u}", "main"]
)
def test_a_bad_or_taken_name_is_refused(repository: Path, name: str) -> None:
    for make in (make_branch, make_worktree):
        with pytest.raises(UsageError):
            make(str(repository), name)
    assert git(repository, "worktree", "list").count("\n") == 0


def test_nothing_of_the_repository_runs(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", f"touch {marker}")
    make_worktree(str(repository), "safe")
    assert not marker.exists()


@pytest.mark.parametrize("condition", ["gitdir:**/worktrees/**", "onbranch:*n-*", "gitdir/i:**/.GIT/**"])
@pytest.mark.parametrize("setting", ["filter.x.smudge", "filter.x.process", "core.fsmonitor"])
def test_what_git_includes_only_in_a_worktree_does_not_run_either(
    repository: Path, tmp_path: Path, condition: str, setting: str
) -> None:
    """Asked in the repository, git does not know of it: the condition holds in the new worktree alone."""
    marker = tmp_path / "ran"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=x\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "attributes")
    git(repository, "config", "--file", ".git/evil.inc", setting, str(program))
    git(repository, "config", f"includeIf.{condition}.path", "evil.inc")
    marker.unlink(missing_ok=True)
    made = make_worktree(str(repository), "run-1")
    assert Path(made, "src", "a.txt").read_text() == "one\n"
    remove_worktree(made)
    assert not marker.exists()
    with suppress(subprocess.CalledProcessError):  # git itself runs it
        git(repository, "worktree", "add", "-q", "-b", "main-2", str(tmp_path / "plain"))
    assert marker.exists() or setting == "core.fsmonitor"


def test_only_worktrees_of_ours_are_removed(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    for folder in (repository, tmp_path / "mine", tmp_path):
        with pytest.raises(UsageError, match="no worktree that was made for a run"):
            remove_worktree(str(folder), is_forced=True)
    assert (tmp_path / "mine" / "src" / "a.txt").exists()


def test_without_a_commit_or_a_repository_it_shows_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no git repository"):
        make_worktree(str(tmp_path), "a")
    git(tmp_path, "init", "-q")
    with pytest.raises(UsageError, match="no commit yet"):
        make_worktree(str(tmp_path), "a")
