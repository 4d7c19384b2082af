"""Which project a folder belongs to: the repository above it, its branch, and the worktree that it is.

Contract: reads a few bytes of regular files called `.git` and `HEAD`, and believes nothing else of a repository.
"""

from __future__ import annotations

import os
import re
import stat
import time
from typing import NamedTuple

from harness.views.inbox.row import RowProject

_MOST_BYTES = 4_096
_FRESH_S = 5.0
"""How long a branch counts as known: it is read again for rows that change."""
_MOST_KNOWN = 5_000
_LINK = re.compile(r"gitdir: (?P<git>.+/\.git)/worktrees/(?P<name>[^/\n]+)\s*")
_BRANCH = re.compile(r"ref: refs/heads/(?P<name>[\w./@+-]{1,200})\s*")


class ProjectPlace(NamedTuple):
    project: RowProject
    branch: str = ""
    worktree: str = ""
    """The name of the linked worktree; empty in the repository itself."""


class Projects:
    """Looks up folders, each once in a while."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, ProjectPlace]] = {}

    def of(self, cwd: str) -> ProjectPlace:
        if not cwd:
            return ProjectPlace(RowProject())
        known, now_s = self._known.get(cwd), time.monotonic()
        if known is not None and now_s - known[0] < _FRESH_S:
            return known[1]
        place = _look(cwd)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[cwd] = now_s, place
        return place


def _look(cwd: str) -> ProjectPlace:
    folder = cwd
    while True:
        git = os.path.join(folder, ".git")
        try:
            mode = os.lstat(git).st_mode
        except (OSError, ValueError):
            mode = 0
        if stat.S_ISDIR(mode) and os.path.lexists(os.path.join(git, "HEAD")):
            return ProjectPlace(_named(folder), _branch(git))
        if stat.S_ISREG(mode) and (link := _LINK.fullmatch(_text(git))):
            repository = os.path.dirname(link["git"])
            head = os.path.join(link["git"], "worktrees", link["name"])
            return ProjectPlace(_named(repository), _branch(head), os.path.basename(folder))
        above = os.path.dirname(folder)
        if above == folder or not os.path.isabs(above):
            return ProjectPlace(_named(cwd))
        folder = above


def _named(root: str) -> RowProject:
    return RowProject(root=root, name=os.path.basename(root.rstrip("/")) or root)


def _branch(git: str) -> str:
    found = _BRANCH.fullmatch(_text(os.path.join(git, "HEAD")))
    return found["name"] if found else ""


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
