"""A branch or a worktree for a run, created and removed with git.

Creating a worktree writes files, and a repository can name programs that git runs then; nothing of it runs here
(`workspace/checkout.py`).
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress

from harness.clients.changes.repository import Repository, find_repository
from harness.config import data_directory
from harness.errors import UsageError
from harness.log.private_files import make_private_directory
from harness.workspace.checkout import make_linked_worktree
from harness.workspace.git_calls import GitCalls, GitFailed

_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,99}")
_MOST_NAMED = 5


class NotClean(UsageError):
    """A worktree has changes that would be lost."""


def worktrees_directory() -> str:
    return os.path.join(data_directory(), "worktrees")


def make_branch(folder: str, branch: str) -> str:
    """A new branch at the last commit, and the folder on it: no file changes. The name of the branch it was on."""
    repository, calls = _repository(folder)
    before = repository.branch()
    _check_new(calls, branch)
    calls.ask("branch", "--no-track", "--", branch, "HEAD")
    calls.ask("symbolic-ref", "-m", "harness: a branch for a run", "HEAD", f"refs/heads/{branch}")
    return before


def make_worktree(folder: str, branch: str) -> str:
    """A new worktree on a new branch at the last commit; the folder in it that corresponds to `folder`."""
    repository, calls = _repository(folder)
    _check_new(calls, branch)
    place = _free_place(os.path.basename(repository.top), branch)
    make_private_directory(os.path.dirname(place))
    try:
        make_linked_worktree(repository.top, place, repository.head(), branch)
    except GitFailed:
        shutil.rmtree(place, ignore_errors=True)
        with suppress(GitFailed):
            calls.ask("worktree", "prune", "--expire=now")
            calls.ask("branch", "-D", "--", branch)
        raise
    inside = os.path.join(place, os.path.relpath(folder, repository.top))
    return os.path.normpath(inside) if os.path.isdir(inside) else place


def remove_worktree(folder: str, *, is_forced: bool = False) -> None:
    """The branch stays, and so do its commits. Raises NotClean where something would be lost, unless forced."""
    top = _made_by_us(folder)
    repository = Repository(top)
    changed = sorted(repository.changed(repository.head()))
    if changed and not is_forced:
        names = ", ".join(changed[:_MOST_NAMED]) + (" …" if len(changed) > _MOST_NAMED else "")
        raise NotClean(
            f"{len(changed)} files in this worktree are not committed: {names}",
            hint="commit them, or remove the worktree with what is in it",
        )
    git = os.fsdecode(GitCalls(top).ask("rev-parse", "--path-format=absolute", "--git-common-dir")).rstrip(
        "\n"
    )
    shutil.rmtree(top)
    with suppress(GitFailed):  # git removes the entry of a missing folder itself later
        GitCalls(os.path.dirname(git)).ask("worktree", "prune", "--expire=now")


def is_made_by_us(folder: str) -> bool:
    return os.path.realpath(folder).startswith(os.path.realpath(worktrees_directory()) + os.sep)


def _made_by_us(folder: str) -> str:
    repository = find_repository(folder)
    if (
        repository is None
        or not is_made_by_us(repository.top)
        or os.path.isdir(os.path.join(repository.top, ".git"))
    ):
        raise UsageError(
            f"this is no worktree that was made for a run: {folder[:200]}", hint="remove others with git"
        )
    return repository.top


def _repository(folder: str) -> tuple[Repository, GitCalls]:
    repository = find_repository(folder)
    if repository is None:
        raise UsageError(
            f"this folder is in no git repository: {folder[:200]}", hint="work in the folder itself"
        )
    if not repository.head():
        raise UsageError(
            "the repository has no commit yet", hint="work in the folder itself, or commit first"
        )
    return repository, GitCalls(repository.top)


def _check_new(calls: GitCalls, branch: str) -> None:
    if not _BRANCH.fullmatch(branch):
        raise UsageError(
            f"this cannot be the name of a branch: {branch[:100]!r}",
            hint="letters, digits, `-`, `_`, `.` and `/`",
        )
    try:
        calls.ask("check-ref-format", f"refs/heads/{branch}")
    except GitFailed as error:
        raise UsageError(f"git does not accept this name of a branch: {branch}") from error
    with suppress(GitFailed):
        calls.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
        raise UsageError(f"there is a branch of that name already: {branch}", hint="choose another name")


def _free_place(project: str, branch: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{project}-{branch}").strip(".-") or "worktree"
    for number in range(1, 1_000):
        place = os.path.join(worktrees_directory(), name if number == 1 else f"{name}-{number}")
        if not os.path.lexists(place):
            return place
    raise UsageError(
        f"there are too many worktrees called {name}", hint=f"remove some in {worktrees_directory()}"
    )
