"""Folders of this machine for a browser: which it may see (`Bounds`), and files in them by name (`FileSearch`).

It may see folders of the user's home, of the server, and of recorded sessions. In a repository the files are those
that git knows or would add; elsewhere the folder is walked. No link is followed, and entries, depth and time are
limited.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from harness.clients.changes.repository import find_repository
from harness.errors import UsageError
from harness.workspace.git_calls import GitCalls, GitFailed

_MOST_ENTRIES = 2_000
_LONGEST_PATH = 4_096


class Folder(NamedTuple):
    name: str
    path: str
    is_project: bool
    """Whether it has a repository."""


class Bounds:
    """Contract: a path is judged by where it really leads, so that no link leaves the bounds."""

    def __init__(self, roots: Iterable[str]) -> None:
        places = (os.path.realpath(os.path.expanduser(root)) for root in roots if root)
        self._roots = tuple(dict.fromkeys(place for place in places if place != os.sep))

    def checked(self, path: str) -> str:
        """The real path of a folder. Raises UsageError for one that is outside, or no folder."""
        if not path or len(path) > _LONGEST_PATH or "\0" in path:
            raise UsageError("this is no path of a folder")
        place = os.path.realpath(os.path.expanduser(path))
        if not any(place == root or place.startswith(root + os.sep) for root in self._roots):
            raise UsageError(
                f"this folder is not shown here: {path[:200]}",
                hint="folders of your home, of the server and of recorded sessions are; "
                "start `harness serve --cwd FOLDER` for another",
            )
        if not os.path.isdir(place):
            raise UsageError(f"there is no such folder: {path[:200]}")
        return place

    @property
    def roots(self) -> list[str]:
        """The folders from which all others can be reached."""
        return [
            root
            for root in self._roots
            if not any(root.startswith(f"{folder}{os.sep}") for folder in self._roots)
        ]

    def above(self, place: str) -> str:
        """The folder above; empty where that is outside."""
        parent = os.path.dirname(place)
        inside = any(parent == root or parent.startswith(root + os.sep) for root in self._roots)
        return parent if inside and parent != place else ""


def folders_in(place: str) -> tuple[list[Folder], bool]:
    """The folders of a folder by name, and whether there are more. Hidden ones and links are left out."""
    folders: list[Folder] = []
    count = 0
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                count += 1
                if count > _MOST_ENTRIES:
                    break
                if not entry.name.startswith(".") and is_text(entry.name) and _is_folder(entry):
                    has_git = os.path.lexists(os.path.join(entry.path, ".git"))
                    folders.append(Folder(entry.name, entry.path, has_git))
    except OSError as error:
        raise UsageError(f"this folder cannot be read: {error.strerror or error}") from error
    return sorted(folders, key=lambda folder: folder.name.lower()), count > _MOST_ENTRIES


def is_text(name: str) -> bool:
    """Whether it can be sent: a file system may have names that are no text."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False


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
        self._listings: dict[str, _Listing] = {}

    def find(self, folder: str, query: str, limit: int) -> list[str]:
        """Paths relative to the folder. `folder`: checked by `Bounds`."""
        wanted_text = query[:_LONGEST_QUERY].lower()
        ranked = ((_rank(path, wanted_text), path) for path in self._files(folder))
        matches = sorted((rank, len(path), path) for rank, path in ranked if rank is not None)
        return [path for _rank, _length, path in matches[:limit]]

    def _files(self, folder: str) -> list[str]:
        listing = self._listings.get(folder)
        if listing is not None and self._clock() - listing.at_s < _FRESH_S:
            return listing.files
        files = _listed(folder)
        if len(self._listings) >= _MOST_LISTINGS:
            self._listings.clear()
        self._listings[folder] = _Listing(self._clock(), files)
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
    listing = GitCalls(top).ask(
        "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"
    )
    below = os.path.relpath(folder, top)
    prefix = "" if below == os.curdir else below + "/"
    names = (os.fsdecode(name) for name in listing.split(b"\0") if name)
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


def _rank(path: str, query: str) -> int | None:
    """How well it fits, 0 is best; None: not at all."""
    lower = path.lower()
    name = lower.rpartition("/")[2]
    if name.startswith(query):
        return 0
    if query in name:
        return 1
    if query in lower:
        return 2
    letters = iter(lower)
    return 3 if len(query) > 1 and all(letter in letters for letter in query) else None
