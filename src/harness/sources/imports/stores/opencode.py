"""OpenCode: `~/.local/share/opencode/opencode.db`, a SQLite database."""

from __future__ import annotations

from collections.abc import Iterator

from harness.sources.imports.history import AgentHistory, Home, StoredSession
from harness.sources.imports.opencode_database import OpencodeRewording, records, sessions


def place(home: Home) -> str:
    return home.data_folder("opencode", "opencode.db")


def find(home: Home) -> Iterator[StoredSession]:
    return sessions("opencode", place(home))


HISTORY = AgentHistory(
    agent="opencode", title="OpenCode", place=place, find=find, records=records, rewording=OpencodeRewording
)
