"""Selects sessions of the catalogue."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from harness.histories.catalogue_writer import as_json
from harness.system.plain_text import plain_text


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is not given selects nothing out."""

    agent: str = ""
    project: str = ""
    """A directory: also what lies below it."""
    model: str = ""
    """A part of its name."""
    outcome: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    changed_since_ms: int | None = None
    changed_before_ms: int | None = None
    """What is known without reading a session."""
    with_children: bool = True
    with_deleted: bool = True
    only_unread: bool = False
    only_ids: tuple[str, ...] | None = None
    behind: tuple[int, int] | None = None
    """In the order of lists: behind the session that has changed then, and has this number."""
    never: bool = False
    """Select no session: something is required that these sessions do not have."""

    def needs_reading(self) -> bool:
        """Whether sessions must be read before the filter can be applied."""
        times = (self.since_ms, self.until_ms)
        return bool(self.project or self.model or self.outcome or times != (None, None))

    def before_reading(self) -> SessionFilter:
        """A filter for the sessions that may match, and are not read yet."""
        return SessionFilter(
            agent=self.agent,
            changed_since_ms=self.since_ms,
            with_children=self.with_children,
            only_unread=True,
            never=self.never,
        )

    def condition(self) -> tuple[str, list[Any]]:
        """For a statement over the table of sessions."""
        parts: list[tuple[bool, str, list[Any]]] = [
            (bool(self.agent), "sessions.agent = ?", [self.agent]),
            (bool(self.project), _BELOW, _below(self.project)),
            (bool(self.model), "instr(lower(sessions.model), ?)", [self.model.lower()]),
            (bool(self.outcome), "outcome = ?", [self.outcome]),
            (self.since_ms is not None, f"{STARTED} >= ?", [self.since_ms]),
            (self.until_ms is not None, f"{STARTED} < ?", [self.until_ms]),
            (self.changed_since_ms is not None, "changed_ms >= ?", [self.changed_since_ms]),
            (self.changed_before_ms is not None, "changed_ms < ?", [self.changed_before_ms]),
            (not self.with_children, "NOT is_child", []),
            (not self.with_deleted, "NOT gone_ms", []),
            (self.only_unread, _UNREAD, []),
            (not self.only_unread, f"({_UNREAD} OR runs)", []),
            (self.only_ids is not None, _ONE_OF, [as_json(self.only_ids or ())]),
            (self.behind is not None, "(changed_ms, sessions.number) < (?, ?)", [*(self.behind or ())]),
            (self.never, "0", []),
        ]
        conditions = [(condition, values) for is_given, condition, values in parts if is_given]
        return (
            " AND ".join(condition for condition, _values in conditions),
            [value for _condition, values in conditions for value in values],
        )


EVERYTHING = SessionFilter()
STARTED = "(CASE started_ms WHEN 0 THEN changed_ms ELSE started_ms END)"
_UNREAD = "(read_mark != mark AND NOT gone_ms)"
_ONE_OF = "sessions.session_id IN (SELECT value FROM json_each(?))"
_BELOW = "(cwd = ? OR substr(cwd, 1, ?) = ?)"


def _below(project: str) -> list[Any]:
    root = plain_text(os.path.abspath(os.path.expanduser(project))) if project else ""
    folder = root.rstrip(os.sep) + os.sep
    return [root, len(folder), folder]
