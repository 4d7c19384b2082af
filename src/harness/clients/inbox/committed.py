"""Whether what a session changed is in a commit by now, or gone: then there is nothing left to review.

A person commits in a terminal or an editor as often as in the page, and nobody tells us. So the repositories of changes
that wait for a review are looked at now and then, but only when git has written something in them since.

Rules
1. A change is reviewed when all of its files are as in the last commit and that commit was made after the run, or is
   older than the change: the files were committed, or the change was thrown away.
2. What the agent has committed itself stays to be reviewed.
3. Files outside of the repository are not looked at; a change of which none is inside stays.
4. With the folder, its changes are gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from harness.clients.changes.repository import Repository, find_repository
from harness.errors import HarnessError
from harness.folds.inbox.row import NEEDS_YOU, WORKS, InboxRow

_MOST = 30
"""So many of the latest changes are looked at."""
_MOVED = ("HEAD", "index", "logs/HEAD")
"""Files of a repository that a commit, a checkout or a reset writes."""

Mark = tuple[object, ...]


class CommittedChanges:
    """Contract: `found` is called in one thread at a time. It runs git, and may take seconds."""

    def __init__(self, paths_of: Callable[[str], Sequence[str]]) -> None:
        """`paths_of`: the files that a session changed, by its id."""
        self._paths_of = paths_of
        self._marks: dict[str, Mark] = {}
        """Of each session: how it was when nothing was found."""

    def found(self, rows: Iterable[InboxRow]) -> list[str]:
        """The ids of sessions whose changes need no review any more."""
        waiting = sorted(filter(_waits, rows), key=lambda row: -row.updated_ms)[:_MOST]
        self._marks = {row.id: self._marks[row.id] for row in waiting if row.id in self._marks}
        return [row.id for row in waiting if self._is_settled(row)]

    def _is_settled(self, row: InboxRow) -> bool:
        if not os.path.isdir(row.cwd):
            return bool(row.cwd) and os.path.isdir(os.path.dirname(row.cwd))
        repository = find_repository(row.cwd)
        if repository is None:
            return False
        mark = _mark(repository.top, row)
        if self._marks.get(row.id) == mark:
            return False
        self._marks[row.id] = mark
        try:
            return _is_committed(repository, row, self._paths_of(row.id))
        except (HarnessError, OSError):
            return False


def _waits(row: InboxRow) -> bool:
    is_at_rest = row.state not in NEEDS_YOU and row.state not in WORKS
    return is_at_rest and row.changes is not None and not row.changes.is_reviewed and not row.history


def _is_committed(repository: Repository, row: InboxRow, paths: Sequence[str]) -> bool:
    assert row.changes is not None
    absolute = (os.path.join(os.path.realpath(row.cwd), path) for path in paths)
    names = [os.path.relpath(os.path.normpath(path), repository.top) for path in absolute]
    inside = [name for name in names if name != ".." and not name.startswith(f"..{os.sep}")]
    if not inside:
        return False
    made_ms = repository.head_time_s() * 1000
    is_of_agent = row.changes.changed_ms // 1000 * 1000 <= made_ms < row.state_since_ms // 1000 * 1000
    return not is_of_agent and not repository.differing(inside)


def _mark(top: str, row: InboxRow) -> Mark:
    assert row.changes is not None
    folder = _git_folder(top)
    return row.changes.changed_ms, *(_changed_ns(os.path.join(folder, name)) for name in _MOVED)


def _git_folder(top: str) -> str:
    place = os.path.join(top, ".git")
    try:
        with open(place, encoding="utf-8", errors="replace") as file:  # of a worktree
            return os.path.join(top, file.readline(4_096).removeprefix("gitdir:").strip())
    except OSError:
        return place


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
