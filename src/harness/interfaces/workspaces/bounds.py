"""Which folders a browser may look into: those of the user, of the server, and of sessions that are recorded."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from harness.errors import UsageError

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

    def above(self, place: str) -> str:
        """The folder above; empty where that is outside."""
        parent = os.path.dirname(place)
        inside = any(parent == root or parent.startswith(root + os.sep) for root in self._roots)
        return parent if inside and parent != place else ""


def folders_in(place: str) -> tuple[list[Folder], bool]:
    """The folders of a folder by name, and whether there are more. Hidden ones and links are left out."""
    found: list[Folder] = []
    seen = 0
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                seen += 1
                if seen > _MOST_ENTRIES:
                    break
                if not entry.name.startswith(".") and is_text(entry.name) and _is_folder(entry):
                    has_git = os.path.lexists(os.path.join(entry.path, ".git"))
                    found.append(Folder(entry.name, entry.path, has_git))
    except OSError as error:
        raise UsageError(f"this folder cannot be read: {error.strerror or error}") from error
    return sorted(found, key=lambda folder: folder.name.lower()), seen > _MOST_ENTRIES


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
