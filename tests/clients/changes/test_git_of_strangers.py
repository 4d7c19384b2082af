"""Repositories that want to run something: git is asked, and nothing of theirs runs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from changed_folders import ChangingAgent, git, repository, summaries, write
from harness.clients.changes.repository import Repository, find_repository
from harness.clients.changes.revert import commit
from harness.errors import HarnessError, UsageError
from harness.workspace.git_calls import GitFailed

HOOKS = (
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-index-change",
    "reference-transaction",
    "post-checkout",
    "fsmonitor-watchman",
    "pre-auto-gc",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return repository(tmp_path / "r", {"a.txt": "a\n", "b.txt": "b\n"})


def trap(folder: Path) -> tuple[Path, Path]:
    """A program, and the file that it makes when it runs."""
    mark, program = folder.parent / "it-ran", folder.parent / "trap.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {mark}\ncat\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program, mark


def use_everything(agent: ChangingAgent) -> None:
    review = agent.review()
    for scope in ("conversation", "uncommitted", "base"):
        try:
            review.listing(scope)
            review.patch(scope)
            review.diff(scope, "a.txt")
        except HarnessError:
            continue
    repository = review.repository
    assert repository is not None
    commit(review, ["a.txt"], "by us", repository.head(), {})


def agent_in(folder: Path) -> ChangingAgent:
    agent = ChangingAgent(folder)
    agent.turn("one")
    agent.edit("a.txt", "a", "changed by the agent")
    return agent


CONFIGURATIONS = {
    "fsmonitor": "[core]\n\tfsmonitor = {}\n",
    "external diff": '[diff]\n\texternal = {0}\n[diff "x"]\n\tcommand = {0}\n\ttextconv = {0}\n',
    "pager": "[core]\n\tpager = {0}\n\teditor = {0}\n[pager]\n\tls-files = {0}\n\tdiff-index = {0}\n",
    "signing": "[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {0}\n[user]\n\tsigningKey = x\n",
    "ssh and credentials": "[core]\n\tsshCommand = {0}\n\taskPass = {0}\n[credential]\n\thelper = {0}\n",
    "aliases": "[alias]\n\tls-files = !{0}\n\tcat-file = !{0}\n\trev-parse = !{0}\n",
    "an included file": "[include]\n\tpath = {0}.config\n",
    "another hooks folder": "[core]\n\thooksPath = {0}.hooks\n",
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_no_configured_program_runs(folder: Path, kind: str) -> None:
    program, mark = trap(folder)
    (folder.parent / "trap.sh.config").write_text(f"[core]\n\tfsmonitor = {program}\n")
    hooks = folder.parent / "trap.sh.hooks"
    hooks.mkdir()
    for name in HOOKS:
        os.link(program, hooks / name)
    agent = agent_in(folder)
    with (folder / ".git/config").open("a") as file:
        file.write(CONFIGURATIONS[kind].format(program))
    use_everything(agent)
    assert not mark.exists()


def test_no_hook_runs(folder: Path) -> None:
    program, mark = trap(folder)
    for name in HOOKS:
        os.link(program, folder / ".git/hooks" / name)
    agent = agent_in(folder)
    use_everything(agent)
    assert not mark.exists()
    listing = agent.review().listing("uncommitted")
    assert listing.git is not None
    assert listing.git.has_hooks


@pytest.mark.parametrize("driver", ["clean", "process"])
def test_no_filter_runs_and_a_filtered_file_is_not_committed(folder: Path, driver: str) -> None:
    program, mark = trap(folder)
    agent = agent_in(folder)
    with (folder / ".git/config").open("a") as file:
        file.write(f'[filter "x"]\n\t{driver} = {program}\n\tsmudge = {program}\n\trequired = true\n')
    write(folder, {".gitattributes": "* filter=x diff=x\n"})
    with pytest.raises(UsageError, match="goes through the filter 'x'"):
        use_everything(agent)
    assert not mark.exists()


def test_missing_objects_are_not_fetched(folder: Path) -> None:
    program, mark = trap(folder)
    git(folder, "repack", "-q", "-a", "-d")
    with (folder / ".git/config").open("a") as file:
        file.write(
            "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = origin\n"
            f'[remote "origin"]\n\turl = {folder}\n\tpromisor = true\n\tuploadpack = {program}\n\tvcs = x\n'
        )
    for path in (folder / ".git/objects/pack").iterdir():
        path.unlink()
    agent = agent_in(folder)
    with pytest.raises(HarnessError):
        use_everything(agent)
    assert not mark.exists()


def test_a_working_tree_elsewhere_is_not_looked_at(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    write(elsewhere, {"secret.txt": "secret\n"})
    git(folder, "config", "core.worktree", str(elsewhere))
    agent = agent_in(folder)
    assert summaries(agent.review(), "uncommitted") == [("a.txt", "M", 1, 1)]


def test_the_environment_of_the_user_does_not_lead_elsewhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other", {"x.txt": "x\n"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    agent = agent_in(folder)
    assert summaries(agent.review(), "uncommitted") == [("a.txt", "M", 1, 1)]


def test_links_in_the_working_tree_are_not_followed(folder: Path) -> None:
    secret = folder.parent / "secret.txt"
    secret.write_text("secret\n")
    (folder / "b.txt").unlink()
    (folder / "b.txt").symlink_to(secret)
    (folder / "new.txt").symlink_to(secret)
    agent = agent_in(folder)
    for file in agent.review().listing("uncommitted").files:
        rows = agent.review().diff("uncommitted", file.path).rows
        assert "secret" not in str(rows)
    review = agent.review()
    assert review.repository is not None
    head = review.repository.head()
    with pytest.raises(UsageError):
        commit(review, ["b.txt"], "x", head, {})


def test_odd_names_are_listed_and_committed(folder: Path) -> None:
    names = ["-rf", "with\nline", 'quo"te', "größe.txt", "a b", ":(glob)x", "$(touch x)"]
    agent = agent_in(folder)
    for name in names:
        agent.write(name, "x\n")
    review = agent.review()
    assert {path for path, *_ in summaries(review, "uncommitted")} == {"a.txt", *names}
    assert review.repository is not None
    commit(review, names, "odd names", review.repository.head(), {})
    listed = git(folder, "ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
    assert set(names) <= set(listed)


def test_what_is_no_repository_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert find_repository(str(tmp_path)) is None
    (tmp_path / ".git").rmdir()
    (tmp_path / ".git").write_text("gitdir: /nonexistent\n")
    with pytest.raises(GitFailed):
        Repository(str(tmp_path)).head()


def test_a_file_with_another_name_is_a_rename_and_files_of_commands_are_counted(folder: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(30))
    write(folder, {"old.txt": lines})
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one more")
    agent = agent_in(folder)
    (folder / "old.txt").unlink()
    write(folder, {"new.txt": lines.replace("line 3\n", "line three\n")})
    listed = {file.path: file for file in agent.review().listing("uncommitted").files}
    file = listed["new.txt"]
    assert "old.txt" not in listed
    assert (file.change, file.old_path, file.added, file.removed) == ("R", "old.txt", 1, 1)
    assert agent.review().listing("conversation").more_files == 1


def test_a_file_that_only_has_another_name_is_listed_counted_once_and_in_the_patch(folder: Path) -> None:
    write(folder, {"old.txt": "one\ntwo\n"})
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one more")
    agent = agent_in(folder)
    git(folder, "mv", "old.txt", "new.txt")
    listed = {file.path: file for file in agent.review().listing("uncommitted").files}
    file = listed["new.txt"]
    assert "old.txt" not in listed
    assert (file.change, file.old_path, file.added, file.removed) == ("R", "old.txt", 0, 0)
    assert agent.review().listing("conversation").more_files == 1
    assert "rename from old.txt\nrename to new.txt\n" in agent.review().patch("uncommitted")[0]
