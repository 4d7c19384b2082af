"""`harness sessions query`: SQL over the recorded sessions and fleets, by DuckDB, without changing anything.

What the question needs of the logs is read into a database in memory. Then access to files and to the network is switched off, and the query is
run. docs/sql.md describes the tables.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import msgspec

from harness.clients.sessions.ids import all_ids
from harness.errors import HarnessError, MissingExtra, UsageError
from harness.formatting.columns import aligned
from harness.formatting.escapes import single_line
from harness.log.stores.files import FileStore

_LARGEST_LINE_BYTES = 256 << 20
_SMALLEST_BUFFER_BYTES = 1 << 20
_LONGEST_CELL = 80
_EVENTS = """
CREATE TABLE events AS SELECT
    regexp_extract(filename, '([A-Za-z0-9_-]+)\\.ndjson$', 1) AS log_id,
    TRY_CAST(json ->> 'seq' AS BIGINT) AS seq,
    TRY_CAST(json ->> 'timestamp_ms' AS BIGINT) AS timestamp_ms,
    TRY(make_timestamp(TRY_CAST(json ->> 'timestamp_ms' AS BIGINT) * 1000)) AS time,
    json ->> 'run_id' AS run_id,
    json ->> 'type' AS type,
    json AS data
FROM read_json_objects($files, format = 'newline_delimited', ignore_errors = true, filename = true,
    maximum_object_size = $largest)
WHERE json IS NOT NULL AND ($types IS NULL OR list_contains($types, json ->> 'type'))
"""
_SESSION_COLUMNS = """
    json ->> 'session_id' AS log_id,
    json ->> 'agent_name' AS agent,
    json ->> 'model' AS model,
    json ->> 'prompt' AS prompt,
    json ->> 'name' AS name,
    json ->> 'cwd' AS cwd,
    json ->> 'outcome' AS outcome,
    COALESCE(TRY_CAST(json ->> 'success' AS BOOLEAN), false) AS success,
    COALESCE(json ->> 'kind', 'run') AS kind,
    TRY(make_timestamp(TRY_CAST(json ->> 'created_ms' AS BIGINT) * 1000)) AS started,
    TRY_CAST(json ->> 'duration_ms' AS BIGINT) AS duration_ms,
    TRY_CAST(json ->> 'total_cost_usd' AS DOUBLE) AS cost_usd,
    json ->> 'version' AS version,
    json ->> 'agent_session_id' AS agent_session_id,
    COALESCE(TRY_CAST(json -> 'tags' AS VARCHAR[]), []) AS tags
"""
_SESSIONS = f"""
CREATE TABLE sessions AS SELECT {_SESSION_COLUMNS}
FROM read_json_objects($files, format = 'auto', maximum_object_size = $largest)
"""  # noqa: S608 # our own names
_OTHER_SESSIONS = f"""
INSERT INTO sessions SELECT {_SESSION_COLUMNS} FROM (SELECT unnest($sessions)::JSON AS json)
"""  # noqa: S608 # our own names
_DERIVED = {
    "runs": """
CREATE VIEW runs AS SELECT starts.log_id, starts.run_id, any_value(starts.data ->> 'parent_id') AS parent_call_id,
    any_value(starts.data ->> 'agent') AS agent, any_value(starts.data ->> 'model') AS model,
    any_value(starts.data ->> 'name') AS name, min(starts.time) AS started,
    any_value(ends.data ->> 'outcome') AS outcome, bool_or(TRY_CAST(ends.data ->> 'success' AS BOOLEAN)) AS success,
    any_value(TRY_CAST(ends.data ->> 'duration_ms' AS BIGINT)) AS duration_ms,
    any_value(TRY_CAST(ends.data ->> 'total_cost_usd' AS DOUBLE)) AS cost_usd
FROM events AS starts LEFT JOIN events AS ends
    ON ends.log_id = starts.log_id AND ends.run_id = starts.run_id AND ends.type = 'Result'
WHERE starts.type = 'SessionStart' GROUP BY ALL
""",
    "calls": """
CREATE VIEW calls AS SELECT starts.log_id, starts.run_id, starts.seq, starts.time, starts.data ->> 'call_id' AS call_id,
    starts.data ->> 'tool_name' AS tool, starts.data -> 'input' AS input, ends.data ->> 'output' AS output,
    TRY_CAST(ends.data ->> 'success' AS BOOLEAN) AS success, TRY_CAST(ends.data ->> 'exit_code' AS BIGINT) AS exit_code,
    COALESCE(TRY_CAST(ends.data ->> 'duration_ms' AS BIGINT), ends.timestamp_ms - starts.timestamp_ms) AS duration_ms
FROM events AS starts LEFT JOIN events AS ends
    ON ends.log_id = starts.log_id AND ends.type = 'ToolEnd' AND ends.data ->> 'call_id' = starts.data ->> 'call_id'
WHERE starts.type = 'ToolStart'
""",
    "operations": """
CREATE VIEW operations AS SELECT log_id, run_id, seq, time, call_id, operation ->> 'kind' AS kind,
    COALESCE(operation ->> 'path', operation ->> 'command', operation ->> 'query', operation ->> 'url',
        operation ->> 'name') AS target, operation AS data
FROM (SELECT log_id, run_id, seq, time, data ->> 'call_id' AS call_id,
    unnest(TRY_CAST(data -> 'operations' AS JSON[])) AS operation FROM events WHERE type = 'ToolStart')
""",
    "usage": """
CREATE VIEW usage AS SELECT log_id, run_id, seq, time, data ->> 'model' AS model,
    TRY_CAST(data -> 'usage' ->> 'input' AS BIGINT) AS input, TRY_CAST(data -> 'usage' ->> 'output' AS BIGINT) AS output,
    TRY_CAST(data -> 'usage' ->> 'cache_read' AS BIGINT) AS cache_read,
    TRY_CAST(data -> 'usage' ->> 'cache_write' AS BIGINT) AS cache_write,
    TRY_CAST(data -> 'usage' ->> 'reasoning' AS BIGINT) AS reasoning,
    TRY_CAST(data -> 'usage' ->> 'cost_usd' AS DOUBLE) AS cost_usd
FROM events WHERE type = 'UsageDelta'
""",
}
_TYPES = {
    "runs": ("SessionStart", "Result"),
    "calls": ("ToolStart", "ToolEnd"),
    "operations": ("ToolStart",),
    "usage": ("UsageDelta",),
}
"""The events that a table is made of."""
TABLES = ("sessions", "events", *_DERIVED, "fleets")
_LOCKED = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class SessionDatabase:
    """The sessions of a store as tables. Contract: no question reaches a file or the network."""

    def __init__(self, store: FileStore, question: str) -> None:
        """Only the tables that the question names are filled, with no more than they need.

        Raises MissingExtra, UsageError.
        """
        try:
            self._duckdb: Any = import_module("duckdb")
        except ImportError as error:
            raise MissingExtra("`sessions query` needs DuckDB, which is not installed", "sql") from error
        tables = {word.lower() for word in re.findall(r"\w+", question)} & set(TABLES)
        self._connection: Any = self._duckdb.connect(":memory:")
        self._connection.execute(
            "SET preserve_insertion_order = false"
        )  # else each file has a part of its own
        self._load_sessions(store, is_filled="sessions" in tables)
        needed_tables = tables & {"events", *_DERIVED}
        types = None if "events" in tables else [name for table in needed_tables for name in _TYPES[table]]
        self._load(_EVENTS, _files(store, ".ndjson") if needed_tables else [], types=types)
        for statement in _DERIVED.values():
            self._connection.execute(statement)
        self._create_fleets(is_filled="fleets" in tables)
        for statement in _LOCKED:
            self._connection.execute(statement)

    def ask(self, question: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
        """The names of the columns, and the rows. Raises UsageError."""
        try:
            answer = self._connection.execute(question)
            names = [column[0] for column in answer.description or ()]
        except self._duckdb.Error as error:
            raise UsageError(
                f"DuckDB: {error}", hint=f"tables: {', '.join(TABLES)}; see docs/sql.md"
            ) from error
        return names, self._rows(answer)

    def close(self) -> None:
        self._connection.close()

    def _rows(self, answer: Any) -> Iterator[Sequence[Any]]:
        while batch := answer.fetchmany(1000):
            yield from batch

    def _load_sessions(self, store: FileStore, *, is_filled: bool) -> None:
        """A damaged sidecar hides neither its session, of which the store knows what the log says, nor others."""
        try:
            self._load(_SESSIONS, _files(store, ".meta.json") if is_filled else [])
        except UsageError:
            self._load(_SESSIONS, [])
        if not is_filled:
            return
        self._connection.execute("DELETE FROM sessions WHERE log_id IS NULL")
        ids = {log_id for (log_id,) in self._connection.execute("SELECT log_id FROM sessions").fetchall()}
        others = [store.metadata(log_id) for log_id in all_ids(store) if log_id not in ids]
        texts = [msgspec.json.encode(item).decode() for item in others]
        self._connection.execute(_OTHER_SESSIONS, {"sessions": texts})

    def _load(self, statement: str, files: list[str], **values: Any) -> None:
        """No line is longer than its file. DuckDB reserves several times the longest one."""
        largest = max((os.path.getsize(path) for path in files), default=0) + 1
        values["largest"] = min(_LARGEST_LINE_BYTES, max(_SMALLEST_BUFFER_BYTES, largest))
        if files:
            values["files"] = files
        else:  # DuckDB refuses an empty list
            path = os.devnull
            statement = statement.replace("read_json_objects($files", f"read_json_objects('{path}'")
        try:
            self._connection.execute(statement, values)
        except self._duckdb.Error as error:
            raise UsageError(f"the sessions cannot be read: {error}") from error

    def _create_fleets(self, *, is_filled: bool) -> None:
        from harness.fleet import export
        from harness.fleet.fleet import fleet_names, open_fleet
        from harness.fleet.overview import overview

        columns = ", ".join(f'"{name}" {export.sql_type(name)}' for name in export.COLUMNS)
        self._connection.execute(f"CREATE TABLE fleets ({columns})")
        rows: list[list[Any]] = []
        for name in fleet_names() if is_filled else ():
            try:
                fleet = open_fleet(name)
                rows += [list(row.values()) for row in export.rows(fleet, overview(fleet))]
            except (HarnessError, msgspec.DecodeError):  # `harness fleet list` reports what is wrong with it
                continue
        if rows:
            marks = ", ".join("?" for _ in export.COLUMNS)
            self._connection.executemany(f"INSERT INTO fleets VALUES ({marks})", rows)  # noqa: S608 # our own names


def answer_text(names: list[str], rows: Iterator[Sequence[Any]], shape: str) -> Iterator[str]:
    """The answer as a table, JSON lines or CSV."""
    if shape == "json":
        for row in rows:
            values = dict(zip(names, row, strict=True))
            yield msgspec.json.encode(values, enc_hook=str).decode() + "\n"
    elif shape == "csv":
        for line in (names, *rows):
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerow(line)
            yield text.getvalue()
    else:
        cells = [[single_line(_shown(value))[:_LONGEST_CELL] for value in row] for row in rows]
        yield aligned([names, *cells]) if names else ""


def query(store: FileStore, question: str, shape: str) -> Iterator[str]:
    """Raises MissingExtra, UsageError."""
    database = SessionDatabase(store, question)
    try:
        yield from answer_text(*database.ask(question), shape)
    finally:
        database.close()


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)


def _files(store: FileStore, suffix: str) -> list[str]:
    paths = [store.path(log_id, suffix) for log_id in all_ids(store)]
    return [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
