"""`harness sessions query`: the documented tables, and nothing else."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from cli_machine import CliMachine
from harness.cli.session_query import TABLES, SessionDatabase
from harness.log.stores.files import FileStore

pytestmark = pytest.mark.skipif(find_spec("duckdb") is None, reason="the extra `sql` is not installed")
DOCUMENT = Path(__file__).parents[2] / "docs/sql.md"


@pytest.fixture
def recorded(cli: CliMachine) -> CliMachine:
    cli.install("codex")
    assert cli.call("run", "-a", "codex", "-p", "it's a <test>", "--tag", "x").code == 0
    return cli


def _asked(cli: CliMachine, sql: str) -> list[dict[str, object]]:
    answer = cli.call("sessions", "query", sql, "--format", "json")
    assert (answer.code, answer.err) == (0, "")
    return [json.loads(line) for line in answer.out.split("\n") if line]


def test_every_table_shows_what_was_recorded(recorded: CliMachine) -> None:
    (session,) = _asked(recorded, "SELECT agent, prompt, outcome, success, tags FROM sessions")
    assert session == {
        "agent": "codex",
        "prompt": "it's a <test>",
        "outcome": "completed",
        "success": True,
        "tags": ["x"],
    }
    assert _asked(recorded, "SELECT agent, outcome FROM runs") == [{"agent": "codex", "outcome": "completed"}]
    assert _asked(recorded, "SELECT kind, target FROM operations") == [{"kind": "list", "target": None}]
    (call,) = _asked(recorded, "SELECT tool, success, exit_code, output FROM calls")
    assert (call["success"], call["exit_code"], call["output"]) == (True, 0, "a.txt\n")
    assert _asked(recorded, "SELECT sum(input) AS i, sum(cache_read) AS c FROM usage") == [{"i": 90, "c": 10}]
    assert _asked(recorded, "SELECT min(seq) AS first, count(*) = max(seq) + 1 AS whole FROM events") == [
        {"first": 0, "whole": True}
    ]
    assert _asked(recorded, "SELECT count(*) AS n FROM fleets") == [{"n": 0}]


def test_the_columns_are_those_of_the_documentation(recorded: CliMachine) -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|(.*)\|$", DOCUMENT.read_text(), re.MULTILINE)
    assert {name for name, _columns in rows} == set(TABLES)
    for name, text in rows:
        documented = re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text))
        found = [row["column_name"] for row in _asked(recorded, f"DESCRIBE {name}")]
        found = [column for column in found if column in documented or name != "fleets"]
        assert documented == found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "COPY (SELECT 1) TO 'written'",
        "ATTACH 'written.db'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "SELECT * FROM glob('/*')",
        "EXPORT DATABASE 'written'",
    ],
)
def test_no_question_reaches_another_file(recorded: CliMachine, sql: str) -> None:
    answer = recorded.call("sessions", "query", sql)
    assert answer.code == 2
    assert "DuckDB" in answer.err
    assert not list(recorded.project.glob("written*"))


def test_a_damaged_log_loses_nothing_but_the_damage(recorded: CliMachine) -> None:
    (log,) = recorded.logs()
    before = _asked(recorded, "SELECT count(*) AS n FROM events")
    with log.open("ab") as file:
        file.write(b'{"seq": 99, "type": "Torn')
    assert _asked(recorded, "SELECT count(*) AS n FROM events WHERE type IS NOT NULL") == before


def test_a_damaged_sidecar_hides_no_session(recorded: CliMachine) -> None:
    assert recorded.call("run", "-a", "codex", "-p", "another").code == 0
    (sidecar, *_) = recorded.sessions.glob("*.meta.json")
    for damage in (b'{"session_id": "\xff', b"", b"[1]"):
        sidecar.write_bytes(damage)
        assert _asked(recorded, "SELECT count(*) AS n FROM sessions WHERE log_id IS NOT NULL") == [{"n": 2}]


def test_events_of_the_future_hide_no_others(recorded: CliMachine) -> None:
    (log,) = recorded.logs()
    odd = [
        {"type": "Later", "seq": "first", "timestamp_ms": "never"},
        {"type": "Later", "seq": 90, "timestamp_ms": 10**18},
        {"type": "ToolStart", "seq": 91, "operations": "all"},
        {"type": "UsageDelta", "seq": 92, "usage": {"input": "many"}},
        {"type": "Result", "seq": 93, "success": "perhaps", "duration_ms": {}},
    ]
    with log.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in odd)
    for name in TABLES:
        assert _asked(recorded, f"SELECT count(*) >= 0 AS n FROM (SELECT * FROM {name})") == [{"n": True}]
    assert _asked(recorded, "SELECT sum(input) AS i FROM usage") == [{"i": 90}]


def test_without_sessions_the_tables_are_empty(cli: CliMachine) -> None:
    for name in TABLES:
        assert _asked(cli, f"SELECT count(*) AS n FROM {name}") == [{"n": 0}]


def test_a_table_and_csv_are_for_people_and_spreadsheets(recorded: CliMachine) -> None:
    assert recorded.call("sessions", "query", "SELECT 1 AS one, NULL AS two").out == "one  two\n1    –\n"
    assert recorded.call("sessions", "query", "SELECT 'a,b' AS x", "--format", "csv").out == 'x\n"a,b"\n'


@pytest.mark.parametrize(
    ("question", "types"),
    [
        ("SELECT 1", set[str]()),
        ("SELECT count(*) FROM sessions", set[str]()),
        ("SELECT sum(input) FROM usage", {"UsageDelta"}),
        ("SELECT count(*) FROM Runs", {"SessionStart", "Result"}),
        ("SELECT count(*) FROM operations JOIN usage USING (log_id)", {"ToolStart", "UsageDelta"}),
    ],
)
def test_only_what_a_question_needs_is_read(recorded: CliMachine, question: str, types: set[str]) -> None:
    database = SessionDatabase(FileStore(str(recorded.sessions)), question)
    _names, rows = database.ask("SELECT DISTINCT type FROM events")
    assert {row[0] for row in rows} == types
    _names, rows = database.ask("SELECT count(*) FROM sessions")
    assert [*rows] == [(1 if "sessions" in question else 0,)]
    database.close()
