"""Files of a folder whose names resemble what is being written, best first.

In a repository they are those that git knows or would add; elsewhere the folder is walked. No link is followed, and
what a folder can cost is limited: entries, depth, time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from harness.interfaces.changes.repository import find_repository
from harness.interfaces.workspaces.bounds import is_text
from harness.sources.workspace.git_calls import GitCalls, GitFailed

_MOST_FILES = 50_000
_DEEPEST = 24
_WALK_S = 1.0
_FRESH_S = 5.0
_MOST_LISTINGS = 16
_LONGEST_QUERY = 200
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "target", "dist", "build", "venv"})


class _Listing(NamedTuple):
    at_s: float
    files: list[str]


class FileSearch:
    """Contract: thread-safe; listings are a few seconds old at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, _Listing] = {}

    def find(self, folder: str, query: str, limit: int) -> list[str]:
        """Paths relative to the folder. `folder`: checked by `Bounds`."""
        wanted = query[:_LONGEST_QUERY].lower()
        ranked = ((_rank(path, wanted), path) for path in self._files(folder))
        found = sorted((rank, len(path), path) for rank, path in ranked if rank is not None)
        return [path for _rank, _length, path in found[:limit]]

    def _files(self, folder: str) -> list[str]:
        known = self._known.get(folder)
        if known is not None and self._clock() - known.at_s < _FRESH_S:
            return known.files
        files = _listed(folder)
        if len(self._known) >= _MOST_LISTINGS:
            self._known.clear()
        self._known[folder] = _Listing(self._clock(), files)
        return files


def _listed(folder: str) -> list[str]:
    repository = find_repository(folder)
    if repository is not None:
        try:
            return _known_to_git(repository.top, folder)
        except GitFailed:
            pass  # git is not installed, or the repository is broken: its files are there all the same
    return [*_walked(folder)]


def _known_to_git(top: str, folder: str) -> list[str]:
    listed = GitCalls(top).ask(
        "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"
    )
    below = os.path.relpath(folder, top)
    prefix = "" if below == os.curdir else below + "/"
    names = (os.fsdecode(name) for name in listed.split(b"\0") if name)
    inside = (name.removeprefix(prefix) for name in names if name.startswith(prefix) and is_text(name))
    return [name for name, _ in zip(inside, range(_MOST_FILES), strict=False)]


def _walked(folder: str) -> Iterator[str]:
    deadline = time.monotonic() + _WALK_S
    count = 0
    for place, folders, files in os.walk(folder):
        depth = os.path.relpath(place, folder).count(os.sep)
        folders[:] = sorted(name for name in folders if _is_walked(name) and depth < _DEEPEST)
        for name in sorted(files):
            path = os.path.relpath(os.path.join(place, name), folder)
            if name.startswith(".") or not is_text(path):
                continue
            count += 1
            if count > _MOST_FILES or time.monotonic() > deadline:
                return
            yield path


def _is_walked(name: str) -> bool:
    return not name.startswith(".") and name not in _PASSED_OVER


def _rank(path: str, wanted: str) -> int | None:
    """How well it fits, 0 is best; None: not at all."""
    lower = path.lower()
    name = lower.rpartition("/")[2]
    if name.startswith(wanted):
        return 0
    if wanted in name:
        return 1
    if wanted in lower:
        return 2
    letters = iter(lower)
    return 3 if len(wanted) > 1 and all(letter in letters for letter in wanted) else None
