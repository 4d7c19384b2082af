"""Which project a folder belongs to: the repository above it, its branch, and the worktree that it is."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from harness.config.repositories import listed_folder, repository_of
from harness.folds.inbox.row import RowProject

_FRESH_S = 5.0
"""How long a branch counts as known: it is read again for rows that change."""
_MOST_KNOWN = 5_000


class ProjectPlace(NamedTuple):
    project: RowProject
    branch: str = ""
    worktree: str = ""
    """The name of the linked worktree; empty in the repository itself."""


class Projects:
    """Looks up the project of a folder; results are cached for a few seconds."""

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
    folder = listed_folder(cwd)
    if folder != cwd:
        return ProjectPlace(RowProject(root=folder, name=f"fleet {os.path.basename(folder)}"))
    found = repository_of(cwd)
    name = os.path.basename(found.root.rstrip("/")) or found.root
    return ProjectPlace(RowProject(root=found.root, name=name), found.branch, found.worktree)
