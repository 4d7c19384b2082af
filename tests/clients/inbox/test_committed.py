"""What waits for a review, and is committed or thrown away outside of Harness."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.clients.inbox.committed import CommittedChanges
from harness.folds.inbox.row import InboxRow, RowChanges

BEFORE, CHANGED, ENDED, LATER = (1_700_000_000 + minute * 60 for minute in range(4))
"""Seconds since 1970: a commit before the run, its last edit, its end, and a person afterwards."""


def git(folder: Path, *words: str, at_s: int = BEFORE) -> None:
    date = f"{at_s} +0000"
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    who = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    subprocess.run(["git", *who, *words], cwd=folder, env=env, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a repository"
    made.mkdir()
    git(made, "init", "-q")
    (made / "cart.py").write_text("one\n")
    (made / ".gitignore").write_text("build\n")
    git(made, "add", ".")
    git(made, "commit", "-qm", "first")
    (made / "cart.py").write_text("two\n")
    return made


def row(folder: Path, **fields: Any) -> InboxRow:
    changes = RowChanges(files=1, added=1, changed_ms=CHANGED * 1000)
    found = InboxRow(id="s", cwd=str(folder), state="succeeded", changes=changes, state_since_ms=ENDED * 1000)
    return replace(found, **fields)


def found(folder: Path, *paths: str, looks: CommittedChanges | None = None, **fields: Any) -> bool:
    named = paths or ("cart.py",)
    looks = looks or CommittedChanges(lambda _id: named)
    return looks.found([row(folder, **fields)]) == ["s"]


def test_a_change_waits_until_it_is_committed_in_a_terminal(folder: Path) -> None:
    looks = CommittedChanges(lambda _id: [str(folder / "cart.py")])
    assert not found(folder, looks=looks)
    git(folder, "add", ".", at_s=LATER)
    assert not found(folder, looks=looks), "staged is not committed"
    git(folder, "commit", "-qm", "second", at_s=LATER)
    assert found(folder, looks=looks)


def test_a_change_that_was_thrown_away_is_not_to_be_reviewed(folder: Path) -> None:
    git(folder, "reset", "-q", "--hard")
    assert found(folder)


def test_what_the_agent_committed_itself_is_still_to_be_reviewed(folder: Path) -> None:
    git(folder, "commit", "-qam", "by the agent", at_s=(CHANGED + ENDED) // 2)
    assert not found(folder)
    (folder / "other").write_text("")
    git(folder, "add", ".", at_s=LATER)
    git(folder, "commit", "-qm", "by a person, on top of it", at_s=LATER)
    assert found(folder)


def test_all_of_its_files_have_to_be_committed(folder: Path) -> None:
    (folder / "new.py").write_text("new\n")
    git(folder, "commit", "-qam", "one of two", at_s=LATER)
    assert not found(folder, "cart.py", "new.py")
    assert found(folder, "cart.py", str(folder.parent / "elsewhere"))


def test_a_file_that_git_ignores_is_never_in_a_commit(folder: Path) -> None:
    (folder / "build").write_text("made\n")
    git(folder, "commit", "-qam", "the rest", at_s=LATER)
    assert not found(folder, "build")
    assert not found(folder, str(folder.parent / "elsewhere")), "none of its files is in the repository"


def test_what_works_and_what_was_reviewed_is_not_looked_at(folder: Path) -> None:
    git(folder, "commit", "-qam", "second", at_s=LATER)
    assert not found(folder, state="running")
    assert not found(folder, changes=None)


def test_without_its_folder_nothing_is_left_to_review(folder: Path) -> None:
    assert found(folder / "a worktree that was removed")
    assert not found(folder / "not mounted" / "now")
    assert not found(folder.parent), "no repository: only a person knows"


def test_git_is_asked_again_only_when_it_has_written_something(folder: Path) -> None:
    asked: list[str] = []

    def paths(log_id: str) -> list[str]:
        asked.append(log_id)
        return ["cart.py"]

    looks = CommittedChanges(paths)
    for _ in range(3):
        assert not found(folder, looks=looks)
    assert len(asked) == 1
