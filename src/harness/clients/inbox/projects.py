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
        self._places_by_folder: dict[str, tuple[float, ProjectPlace]] = {}

    def of(self, cwd: str) -> ProjectPlace:
        if not cwd:
            return ProjectPlace(RowProject())
        known_place, now_s = self._places_by_folder.get(cwd), time.monotonic()
        if known_place is not None and now_s - known_place[0] < _FRESH_S:
            return known_place[1]
        place = _look(cwd)
        if len(self._places_by_folder) >= _MOST_KNOWN:
            self._places_by_folder.clear()
        self._places_by_folder[cwd] = now_s, place
        return place


def _look(cwd: str) -> ProjectPlace:
    folder = listed_folder(cwd)
    if folder != cwd:
        return ProjectPlace(RowProject(root=folder, name=f"fleet {os.path.basename(folder)}"))
    repository = repository_of(cwd)
    name = os.path.basename(repository.root.rstrip("/")) or repository.root
    return ProjectPlace(RowProject(root=repository.root, name=name), repository.branch, repository.worktree)
