"""Files of a commit, written into a folder without anything of the repository being run."""

from __future__ import annotations

import os

from harness.workspace.git_calls import GitCalls, blank_git

_TIMEOUT_S = 600.0


def check_out(repository: str, commit: str, folder: str, index: str = "") -> None:
    """Write the files of a commit into an empty folder. Raises GitFailed.

    Line ends and encodings are as `.gitattributes` says, filters are not: a file of Git LFS is its pointer.
    `index`: where to write the index that belongs to these files.
    """
    calls = GitCalls(repository)
    object_format = _text(calls, "--show-object-format")
    objects = _text(calls, "--path-format=absolute", "--git-path", "objects")
    with blank_git(folder, objects=objects, object_format=object_format, timeout_s=_TIMEOUT_S) as blank:
        blank.ask("read-tree", commit, index=index)
        blank.ask("checkout-index", "--all", "--index", "--quiet", index=index)


def make_linked_worktree(repository: str, place: str, commit: str, branch: str) -> None:
    """A worktree at a commit, on a new branch of that name. Raises GitFailed; a part of it may be there then."""
    on = ("--no-track", "-b", branch)
    GitCalls(repository).ask("worktree", "add", "--no-checkout", "--force", *on, "--", place, commit)
    index = _text(GitCalls(place), "--path-format=absolute", "--git-path", "index")
    check_out(repository, commit, place, index)


def _text(calls: GitCalls, *question: str) -> str:
    return os.fsdecode(calls.ask("rev-parse", *question)).rstrip("\n")
