"""Kilo Code, which has the database of OpenCode: `~/.local/share/kilo/kilo.db`, a SQLite database."""

from __future__ import annotations

from collections.abc import Iterator

from harness.sources.imports.history import AgentHistory, Home, StoredSession
from harness.sources.imports.opencode_database import OpencodeRewording, records, sessions


def place(home: Home) -> str:
    return home.data_folder("kilo", "kilo.db")


def find(home: Home) -> Iterator[StoredSession]:
    return sessions("kilo", place(home))


HISTORY = AgentHistory(
    agent="kilo", title="Kilo Code", place=place, find=find, records=records, rewording=OpencodeRewording
)
