"""A repository with one commit and nothing else: what an agent gets of the history of its workspace.

It has no other branch, tag, remote or reflog, and shares no objects with another repository: a later commit may be the
answer to the task, and what a variant leaves out must not come back with `git checkout`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from harness.fleet.snapshot import Snapshots
from harness.workspace.git_calls import GitCalls, blank_git

_CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
)
_BRANCH = "refs/heads/main"
_TIMEOUT_S = 600.0


def commit_all(folder: str, tracked: Iterable[str] = ()) -> None:
    """Give a folder without `.git` one, with its files as the only commit, but for those that it ignores.

    `tracked`: files that belong to it although they are ignored. Raises OSError, GitFailed.
    """
    git = os.path.join(folder, ".git")
    snapshots = Snapshots(git, folder)
    snapshots.prepare(_CONFIG, _BRANCH)
    snapshots.take(_BRANCH, tracked, "Base\n")
    objects, index = os.path.join(git, "objects"), os.path.join(git, "index")
    with blank_git(folder, objects=objects, timeout_s=_TIMEOUT_S) as blank:
        commit = (
            GitCalls(git, git_directory=git).ask("rev-parse", "--verify", _BRANCH).decode("ascii").strip()
        )
        blank.ask("read-tree", commit, index=index)
    shutil.rmtree(os.path.join(git, "logs"), ignore_errors=True)


def tracked_files(repository: str, commit: str) -> frozenset[str]:
    """Raises GitFailed."""
    listing = GitCalls(repository, timeout_s=_TIMEOUT_S).ask("ls-tree", "-r", "-z", "--name-only", commit)
    return frozenset(os.fsdecode(name) for name in listing.split(b"\0") if name)
