"""Commits of chosen files: nothing else is in them, and what was staged stays staged."""

from __future__ import annotations

from pathlib import Path

import pytest

from changed_folders import ChangingAgent, git, repository, write
from harness.clients.changes.repository import Stale
from harness.clients.changes.revert import commit
from harness.clients.changes.shapes import CommitAnswer
from harness.errors import UsageError


@pytest.fixture
def agent(tmp_path: Path) -> ChangingAgent:
    folder = repository(tmp_path / "r", {"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n", "run.sh": "x\n"})
    agent = ChangingAgent(folder)
    agent.turn("one")
    return agent


def committed(agent: ChangingAgent, *paths: str, head: str | None = None) -> CommitAnswer:
    review = agent.review()
    assert review.repository is not None
    return commit(review, paths, "A message\n\nwith a body", head or review.repository.head(), {})


def test_only_the_chosen_files_are_in_it(agent: ChangingAgent) -> None:
    folder = agent.folder
    agent.edit("a.txt", "a", "a2")
    agent.edit("b.txt", "b", "b2")
    agent.write("new/n.txt", "n\n")
    agent.delete("c.txt")
    answer = committed(agent, "a.txt", "new/n.txt", "c.txt")
    assert git(folder, "show", "--stat", "--format=%B", "HEAD").startswith("A message\n\nwith a body")
    assert git(folder, "diff", "--name-status", "HEAD^", "HEAD").split() == [
        "M",
        "a.txt",
        "D",
        "c.txt",
        "A",
        "new/n.txt",
    ]
    assert git(folder, "status", "--porcelain") == "M b.txt"
    assert (answer.branch, answer.files, answer.commit) == ("main", 3, git(folder, "rev-parse", "HEAD"))


def test_what_was_staged_stays_staged(agent: ChangingAgent) -> None:
    folder = agent.folder
    agent.edit("a.txt", "a", "staged")
    write(folder, {"mine.txt": "mine\n"})
    git(folder, "add", "a.txt", "mine.txt")
    agent.edit("a.txt", "staged", "not staged")
    agent.edit("b.txt", "b", "b2")
    committed(agent, "b.txt")
    assert git(folder, "diff", "--cached", "--name-only").split() == ["a.txt", "mine.txt"]
    committed(agent, "a.txt")
    assert git(folder, "show", "HEAD:a.txt") == "not staged"
    assert git(folder, "show", ":a.txt") == "staged"
    assert git(folder, "diff", "--cached", "--name-only").split() == ["a.txt", "mine.txt"]


def test_a_commit_is_refused_after_another_one(agent: ChangingAgent) -> None:
    agent.edit("a.txt", "a", "a2")
    head = git(agent.folder, "rev-parse", "HEAD")
    git(agent.folder, "commit", "-q", "--allow-empty", "-m", "another")
    with pytest.raises(Stale, match="another last commit"):
        committed(agent, "a.txt", head=head)


def test_a_file_that_changed_meanwhile_is_refused(agent: ChangingAgent) -> None:
    agent.edit("a.txt", "a", "a2")
    review = agent.review()
    digests = {file.path: file.digest for file in review.listing("conversation").files}
    write(agent.folder, {"a.txt": "a3\n"})
    assert review.repository is not None
    with pytest.raises(Stale, match="not as it was shown"):
        commit(review, ["a.txt"], "m", review.repository.head(), digests)


@pytest.mark.parametrize("path", ["../outside.txt", ".git/config", "/etc/hostname"])
def test_paths_outside_are_refused(agent: ChangingAgent, path: str) -> None:
    (agent.folder.parent / "outside.txt").write_text("x\n")
    with pytest.raises(UsageError):
        committed(agent, path)


def test_nothing_to_commit_and_no_message_are_refused(agent: ChangingAgent) -> None:
    with pytest.raises(UsageError, match="nothing to commit"):
        committed(agent, "a.txt")
    review = agent.review()
    assert review.repository is not None
    with pytest.raises(UsageError, match="needs a message"):
        commit(review, ["a.txt"], "  ", review.repository.head(), {})


def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.name", "A")
    git(tmp_path, "config", "user.email", "a@example.org")
    agent = ChangingAgent(tmp_path)
    agent.turn("one")
    agent.write("a.txt", "a\n")
    agent.write("b.txt", "b\n")
    review = agent.review()
    commit(review, ["a.txt"], "first", "", {})
    assert git(tmp_path, "ls-tree", "--name-only", "HEAD") == "a.txt"
    assert git(tmp_path, "status", "--porcelain") == "?? b.txt"


def test_modes_and_line_ends_stay(agent: ChangingAgent) -> None:
    (agent.folder / "run.sh").chmod(0o755)
    (agent.folder / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    committed(agent, "run.sh", "a.txt")
    assert git(agent.folder, "ls-tree", "HEAD", "run.sh").startswith("100755")
    assert git(agent.folder, "cat-file", "blob", "HEAD:a.txt") == "one\ntwo"


def test_a_worktree_commits_to_its_own_branch(agent: ChangingAgent) -> None:
    place = agent.folder.parent / "tree"
    git(agent.folder, "worktree", "add", "-q", "-b", "side", str(place))
    other = ChangingAgent(place)
    other.turn("one")
    other.edit("a.txt", "a", "of the worktree")
    assert committed(other, "a.txt").branch == "side"
    assert git(agent.folder, "rev-parse", "main") != git(agent.folder, "rev-parse", "side")
