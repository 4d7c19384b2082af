"""What real agent programs have left in a home, as one small file for each case.

tests/histories/homes/<agent>/<version>/<case>.json.gz
    {"files": {path: text}, "databases": {path: {"statements": […], "rows": {table: [[…]]}}}, "live": [[event, …], …]}
tests/histories/homes/<agent>/<version>/<case>.ndjson
    the expected events of all sessions in it, one session after the other, each after a line that names it

`live` are the logs of the same runs as Harness recorded them. A new case is made with

    python tests/histories/stored_homes.py HOME CASE.json.gz FOLDER…

from the folders of a real home; databases are stored as statements, without tables that hold credentials.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.contracts.history import Home, StoredSession
from harness.events import Event
from harness.histories.registry import load
from harness.histories.stored_log import StoredLog
from harness.log import codec

HOMES = Path(__file__).parent / "homes"
LEFT_OUT = ("account", "account_state", "control_account", "credential", "session_share")


@dataclass(frozen=True)
class HomeCase:
    agent: str
    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(HOMES)).removesuffix(".json.gz")

    @property
    def content(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(gzip.decompress(self.path.read_bytes()))
        return value

    @property
    def golden(self) -> Path:
        return self.path.with_name(self.path.name.replace(".json.gz", ".ndjson"))

    def unpack(self, directory: Path) -> Home:
        """The home as the agent left it; a folder `workspace` in it is a project."""
        content = self.content
        for name, text in content["files"].items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
        for name, tables in content["databases"].items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _make_database(path, tables)
        return Home(str(directory), {}, (str(directory / "workspace"),))

    def live_runs(self) -> list[list[Event]]:
        return [[codec.decode(json.dumps(event).encode()) for event in run] for run in self.content["live"]]


def cases(agent: str = "*") -> list[HomeCase]:
    return [HomeCase(path.parts[-3], path) for path in sorted(HOMES.glob(f"{agent}/*/*.json.gz"))]


def sessions(case: HomeCase, home: Home) -> list[StoredSession]:
    history = load(case.agent)
    assert history is not None, f"there is no history of {case.agent}"
    return sorted(history.find(home), key=lambda session: session.session_id)


def opened(case: HomeCase, session: StoredSession) -> StoredLog:
    history = load(case.agent)
    assert history is not None, f"there is no history of {case.agent}"
    return StoredLog(history, session, redact=False)


def expected_lines(case: HomeCase, directory: Path) -> Iterator[str]:
    """What the golden file holds, whatever directory the home was unpacked into."""
    for session in sessions(case, case.unpack(directory)):
        log = opened(case, session)
        lines = [codec.encode(event).decode() for event in log.events()]
        about = {
            "session": session.session_id,
            "child": session.is_child,
            "parent": log.parent_id,
            "title": log.title,
        }
        yield json.dumps({**about, "cwd": log.cwd}, ensure_ascii=False).replace(str(directory), "/home/user")
        for line in lines:
            yield line.replace(str(directory), "/home/user")


def _make_database(path: Path, tables: dict[str, Any]) -> None:
    connection = sqlite3.connect(path)
    for statement in tables["statements"]:
        connection.execute(statement)
    for table, rows in tables["rows"].items():
        for row in rows:
            connection.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)
    connection.commit()
    connection.close()


def packed_database(path: Path) -> dict[str, Any]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql NOT NULL"
    ).fetchall()
    chosen = [(name, sql) for name, sql in tables if name not in LEFT_OUT and not name.startswith("sqlite_")]
    rows = {
        name: [list(row) for row in connection.execute(f'SELECT * FROM "{name}"')] for name, _sql in chosen
    }
    connection.close()
    return {
        "statements": [sql for _name, sql in chosen],
        "rows": {name: found for name, found in rows.items() if found},
    }


def pack(home: Path, target: Path, folders: list[str], live: list[Any] | None = None) -> None:
    files: dict[str, str] = {}
    databases: dict[str, Any] = {}
    for path in sorted(path for folder in folders for path in (home / folder).rglob("*") if path.is_file()):
        name, head = str(path.relative_to(home)), path.read_bytes()[:16]
        if head.startswith(b"SQLite format 3"):
            databases[name] = packed_database(path)
        elif not name.endswith(("-wal", "-shm")):
            files[name] = path.read_bytes().decode("utf-8", "surrogateescape")
    content = {"files": files, "databases": databases, "live": live or []}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
