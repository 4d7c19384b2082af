"""The shapes of changes, on the wire and for the command line."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from harness.folds.changes.lines import DiffRow

ChangeLetter: TypeAlias = Literal["M", "A", "D", "R"]
"""Modified, added, deleted, renamed."""


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Under the names of the wire."""


class FileSummary(_Shape, frozen=True, kw_only=True):
    """A file that was changed in a scope."""

    path: str
    """Relative to the folder of the conversation, absolute outside of it."""
    old_path: str = ""
    """Of one that was renamed."""
    change: ChangeLetter
    added: int
    removed: int
    is_count_complete: bool
    """False: at least so many; the log does not have all texts."""
    turns: list[str] = []
    """The ids of the turns that changed it."""
    source: Literal["log", "git"]
    """Where the texts are from."""
    has_before: bool
    """Whether the whole text before it is known; else only what the agent replaced is shown."""
    is_generated: bool = False
    is_binary: bool = False
    is_reverted: bool = False
    """It is as it was before."""
    also_changed_ms: int | None = None
    """It was changed since the agent wrote it last, at this time."""
    also_changed_by: Literal["", "you", "unknown"] = ""
    """`unknown`: that was during a turn, so a command of the agent may have done it."""
    can_revert: bool = False
    why_not: str = ""
    """Why it cannot be reverted."""
    digest: str = ""
    """Of the file as it is now; empty: there is none. A revert or commit names it, and is refused if it differs."""


class TurnSummary(_Shape, frozen=True, kw_only=True):
    id: str
    number: int
    title: str
    started_ms: int
    files: int
    added: int
    removed: int


class GitSummary(_Shape, frozen=True, kw_only=True):
    branch: str
    """Empty: no branch is checked out."""
    head: str
    """Empty: there is no commit yet."""
    base: str
    """What "against base" compares with; empty: there is nothing to compare with."""
    has_hooks: bool
    """A commit made here does not run them."""


class ChangeList(_Shape, frozen=True, kw_only=True):
    scope: str
    root: str
    """The folder of the conversation; empty if it is not on this machine."""
    files: list[FileSummary]
    added: int
    removed: int
    is_count_complete: bool
    turns: list[TurnSummary]
    git: GitSummary | None
    why_no_git: str = ""
    is_running: bool = False
    more_files: int = 0
    """Files that are not committed and that no edit of the conversation wrote: commands may have changed them."""
    proposed_message: str = ""


class Pictures(_Shape, frozen=True, kw_only=True):
    """`data:` addresses; empty where there is none."""

    before: str = ""
    after: str = ""


class FileDiff(_Shape, frozen=True, kw_only=True):
    """The rows of one file's diff, or some of them."""

    file: FileSummary
    rows: list[DiffRow]
    first: int
    """The number of the first of these rows, from 0."""
    total: int
    """How many rows there are in all."""
    note: str = ""
    """What is missing, and why."""
    pictures: Pictures | None = None


class FileText(_Shape, frozen=True, kw_only=True):
    """Lines of a file as it is now."""

    path: str
    root: str
    """The folder of the conversation."""
    lines: list[str]
    first: int
    """The number of the first of these lines, from 0."""
    total: int
    note: str = ""
    """Why there is no text."""
    picture: str = ""
    """A `data:` address."""


class KeptLines(_Shape, frozen=True, kw_only=True):
    first: int
    last: int


class RevertedFile(_Shape, frozen=True, kw_only=True):
    path: str
    action: Literal["change", "delete", "create", "move", "refuse"]
    reason: str = ""
    """Why it is refused."""
    moved_to: str = ""
    """Of one that was renamed: the name that it gets again."""
    undone_lines: int = 0
    """How many changed lines go back."""
    kept: list[KeptLines] = []
    """Lines of the file as it is now that others changed, and that stay."""
    digest: str = ""
    """Of the file as it is now."""


class RevertAnswer(_Shape, frozen=True, kw_only=True):
    files: list[RevertedFile]
    undo_id: str = ""
    """Empty: nothing was changed."""


class CommitAnswer(_Shape, frozen=True, kw_only=True):
    commit: str
    branch: str
    files: int
    hooks_skipped: bool
