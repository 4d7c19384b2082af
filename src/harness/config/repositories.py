"""Which repository a folder belongs to, its branch, and the worktree that the folder is.

Contract: reads a few bytes of regular files called `.git` and `HEAD`, and believes nothing else of a repository.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

_MOST_BYTES = 4_096
_LINK = re.compile(r"gitdir: (?P<git>.+/\.git)/worktrees/(?P<name>[^/\n]+)\s*")
_BRANCH = re.compile(r"ref: refs/heads/(?P<name>[\w./@+-]{1,200})\s*")


_CASE = re.compile(
    r"(?P<parent>.+)/\.harness-work/(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{0,63})/[0-9a-f]{12}(/.*)?", re.DOTALL
)
"""The workspace of one case of a fleet."""
_EARLIER_CASE = re.compile(
    r"(?P<fleet>.+/fleets/[A-Za-z0-9][A-Za-z0-9_-]{0,63})/work/[0-9a-f]{12}(/.*)?", re.DOTALL
)
"""The same, in sessions of earlier versions."""


class RepositoryPlace(NamedTuple):
    root: str
    """Of a linked worktree: where the repository itself is, if that knows of it. The folder, if there is no repository."""
    branch: str = ""
    worktree: str = ""
    """The name of the linked worktree; empty in the repository itself."""


def listed_folder(cwd: str) -> str:
    """The folder under which a session is listed: all cases of a fleet have that of the fleet, others their own."""
    if case := _CASE.fullmatch(cwd):
        return os.path.join(case["parent"], case["name"])
    earlier = _EARLIER_CASE.fullmatch(cwd)
    return earlier["fleet"] if earlier else cwd


def repository_of(cwd: str) -> RepositoryPlace:
    folder = cwd
    while True:
        git = os.path.join(folder, ".git")
        try:
            mode = os.lstat(git).st_mode
        except (OSError, ValueError):
            mode = 0
        if stat.S_ISDIR(mode) and os.path.lexists(os.path.join(git, "HEAD")):
            return RepositoryPlace(folder, _branch(git))
        if stat.S_ISREG(mode) and (link := _LINK.fullmatch(_text(git))):
            repository = os.path.dirname(link["git"])
            head = os.path.join(link["git"], "worktrees", link["name"])
            if _text(os.path.join(head, "gitdir")).strip() != git:
                return RepositoryPlace(folder)  # the repository knows nothing of this worktree
            return RepositoryPlace(repository, _branch(head), os.path.basename(folder))
        above = os.path.dirname(folder)
        if above == folder or not os.path.isabs(above):
            return RepositoryPlace(cwd)
        folder = above


def _branch(git: str) -> str:
    match = _BRANCH.fullmatch(_text(os.path.join(git, "HEAD")))
    return match["name"] if match else ""


def _text(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        return os.read(fd, _MOST_BYTES).decode("utf-8", "replace") if is_file else ""
    except OSError:
        return ""
    finally:
        os.close(fd)
