"""The rows of the catalogue: sessions and their runs."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import msgspec

from harness.contracts.history import StoredSession


class CataloguedRun(NamedTuple):
    """A prompt of a session, and what followed it."""

    session: int
    run: int
    started_ms: int
    prompt: int
    """A hash of it."""


class CataloguedSession(msgspec.Struct, frozen=True, gc=False):
    """A session as the catalogue has it: a row of the table."""

    number: int
    agent: str
    session_id: str
    path: str
    mark: str
    changed_ms: int
    size: int
    cwd: str
    started_ms: int
    title: str
    is_child: int
    parent_id: str
    gone_ms: int
    """When it was first missing; 0 while it is there."""
    read_mark: str
    prompt: str
    model: str
    version: str
    outcome: str
    runs: int
    ended_ms: int

    @property
    def is_read(self) -> bool:
        """Whether it is known as it is now."""
        return self.read_mark == self.mark or bool(self.gone_ms)

    @property
    def is_empty(self) -> bool:
        """It was read, and nothing was ever asked in it."""
        return self.is_read and not self.runs

    @property
    def stored(self) -> StoredSession:
        return StoredSession(
            agent=self.agent,
            session_id=self.session_id,
            path=self.path,
            mark=self.mark,
            changed_ms=self.changed_ms,
            size=self.size,
            cwd=self.cwd,
            started_ms=self.started_ms,
            title=self.title,
            is_child=bool(self.is_child),
            parent_id=self.parent_id,
        )


IN_ORDER = " ORDER BY changed_ms DESC, number DESC"
CATALOGUED_COLUMNS = ", ".join(CataloguedSession.__struct_fields__)
_PATH = CataloguedSession.__struct_fields__.index("path")


def catalogued(row: tuple[Any, ...]) -> CataloguedSession:
    """A row with `CATALOGUED_COLUMNS`."""
    values = list(row)
    values[_PATH] = os.fsdecode(values[_PATH])
    return CataloguedSession(*values)
