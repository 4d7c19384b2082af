"""The catalogue of histories: what is there, what was read, what has gone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from harness.contracts.history import Home
from harness.histories.catalogue import Catalogue
from harness.histories.catalogue_filter import SessionFilter
from harness.histories.catalogue_rows import CataloguedSession
from harness.histories.registry import load_all
from stored_homes import HomeCase, cases


def _case(name: str) -> HomeCase:
    return next(case for case in cases() if str(case) == name)


def _catalogue(tmp_path: Path) -> Catalogue:
    return Catalogue(str(tmp_path / "cache" / "histories.sqlite"), load_all())


def _known(catalogue: Catalogue, home: Home) -> dict[str, CataloguedSession]:
    catalogue.refresh(home)
    return {session.session_id: session for session in catalogue.read(catalogue.sessions())}


def test_sessions_are_found_without_being_read_and_read_once(tmp_path: Path) -> None:
    home = _case("claude/2.1.325/resume").unpack(tmp_path / "home")
    catalogue = _catalogue(tmp_path)
    catalogue.refresh(home)
    (found,) = catalogue.sessions()
    assert (found.is_read, found.prompt, found.size > 0) == (False, "", True)
    (read,) = catalogue.read([found])
    assert (read.is_read, read.prompt, read.runs, read.outcome) == (True, "Please say hello", 3, "completed")
    assert (read.model, read.cwd, read.version) == ("claude-opus-5-5", "/workspace/shop", "2.1.325")
    catalogue.close()
    again = _catalogue(tmp_path)
    again.refresh(home)
    assert again.sessions() == [read], "another process knows it too"


@pytest.mark.parametrize("name", ["claude/2.1.325/two_projects", "goose/1.52.0/subagent"])
def test_sums_are_those_of_the_sessions(tmp_path: Path, name: str) -> None:
    """Without a list of them, of which there may be a hundred thousand."""
    catalogue = _catalogue(tmp_path)
    known = _known(catalogue, _case(name).unpack(tmp_path / "home")).values()
    sums = catalogue.sums()
    assert len(known) > 1
    assert (sums.sessions, sums.sub_agents) == (len(known), sum(one.is_child for one in known))
    assert sums.size == sum(one.size for one in known)
    assert sums.oldest_ms == min(one.started_ms or one.changed_ms for one in known)
    assert sums.newest_ms == max(one.changed_ms for one in known)
    assert catalogue.sums(SessionFilter(agent="nobody")) == (0, 0, 0, None, None)


@pytest.mark.parametrize("case", [case for case in cases() if "/tools" in str(case)], ids=str)
def test_every_store_is_catalogued(case: HomeCase, tmp_path: Path) -> None:
    home = case.unpack(tmp_path / "home")
    known = _known(_catalogue(tmp_path), home)
    main = [session for session in known.values() if not session.is_child]
    assert main
    assert {session.agent for session in main} == {case.agent}
    assert all(session.prompt and session.started_ms and session.runs for session in main)


def test_a_session_that_grew_is_read_again_and_a_deleted_one_stays_known(tmp_path: Path) -> None:
    home = _case("pi/1.5.0/resume").unpack(tmp_path / "home")
    catalogue = _catalogue(tmp_path)
    (before,) = _known(catalogue, home).values()
    path = Path(before.path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:7]))
    (shorter,) = _known(catalogue, home).values()
    assert shorter.runs < before.runs
    path.write_bytes(whole)
    (again,) = _known(catalogue, home).values()
    assert (again.runs, again.prompt) == (before.runs, before.prompt)
    path.unlink()
    (gone,) = _known(catalogue, home).values()
    assert gone.gone_ms > 0
    assert gone.prompt == before.prompt
    path.write_bytes(whole)
    (back,) = _known(catalogue, home).values()
    assert back.gone_ms == 0


def test_children_are_known_as_such_also_where_only_their_records_say_so(tmp_path: Path) -> None:
    home = _case("codex/0.166.0/subagent").unpack(tmp_path / "home")
    known = _known(_catalogue(tmp_path), home)
    children = {session.session_id: session.parent_id for session in known.values() if session.is_child}
    assert children == {"01a1e0a3-c8ab-7ea1-960c-03bf3883cc9b": "01a1e0a3-c6a0-7e32-9b86-846e0c49bb05"}


def test_tokens_of_a_fork_are_counted_once(tmp_path: Path) -> None:
    for name in ("claude/2.1.325/fork", "opencode/1.18.33/fork"):
        case = _case(name)
        home = case.unpack(tmp_path / case.agent)
        catalogue = Catalogue(str(tmp_path / f"{case.agent}.sqlite"), load_all())
        assert len(_known(catalogue, home)) == 2
        assert sum(row.usage.input or 0 for row in catalogue.usage.rows()) == 2_000, name


@pytest.mark.parametrize("damage", [b"", b"garbage", b"SQLite format 3\0" + b"\1" * 500])
def test_a_catalogue_that_is_broken_or_of_another_version_is_rebuilt(damage: bytes, tmp_path: Path) -> None:
    home = _case("claude/2.1.325/text").unpack(tmp_path / "home")
    path = tmp_path / "cache" / "histories.sqlite"
    path.parent.mkdir()
    path.write_bytes(damage)
    assert len(_known(_catalogue(tmp_path), home)) == 1
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert len(_known(_catalogue(tmp_path), home)) == 1


def test_where_no_file_can_be_made_the_catalogue_is_in_memory(tmp_path: Path) -> None:
    home = _case("claude/2.1.325/text").unpack(tmp_path / "home")
    catalogue = Catalogue("/proc/nowhere/histories.sqlite", load_all())
    assert len(_known(catalogue, home)) == 1


def test_secrets_are_masked_before_they_reach_the_catalogue(tmp_path: Path) -> None:
    home = _case("claude/2.1.325/text").unpack(tmp_path / "home")
    (path,) = Path(home.directory).rglob("*.jsonl")
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    path.write_text(path.read_text().replace("Please do the work of text", f"Use {secret} now"))
    catalogue = _catalogue(tmp_path)
    (session,) = _known(catalogue, home).values()
    assert session.prompt.startswith("Use ")
    catalogue.close()
    stored = b"".join(file.read_bytes() for file in (tmp_path / "cache").iterdir())
    assert secret.encode() not in stored


def test_a_catalogue_that_another_process_holds_does_not_stop_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _case("claude/2.1.325/text").unpack(tmp_path / "home")
    monkeypatch.setattr("harness.histories.catalogue_writer._BUSY_TIMEOUT_S", 0.05)
    catalogue = _catalogue(tmp_path)
    holder = sqlite3.connect(tmp_path / "cache" / "histories.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert len(_known(catalogue, home)) == 1
    holder.execute("ROLLBACK")
    holder.close()
    (session,) = _known(_catalogue(tmp_path), home).values()
    assert session.prompt


def test_a_catalogue_that_is_locked_while_sessions_are_read_gives_them_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _case("claude/2.1.325/text").unpack(tmp_path / "home")
    monkeypatch.setattr("harness.histories.catalogue_writer._BUSY_TIMEOUT_S", 0.05)
    catalogue = _catalogue(tmp_path)
    catalogue.refresh(home)
    holder = sqlite3.connect(tmp_path / "cache" / "histories.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    (read,) = catalogue.read(catalogue.sessions())
    holder.execute("ROLLBACK")
    holder.close()
    assert read.prompt
    assert not catalogue.sessions()[0].is_read


def test_a_list_of_known_sessions_loads_nothing_that_reads_them() -> None:
    program = "import sys, harness.histories.catalogue; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    reading = ("summary", "stored_log", "rewording", "file_scan")
    assert not {f"harness.histories.{name}" for name in reading} & set(loaded)
