"""A copy of a stored session is provable, made once, and outlives the original."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.contracts.history import AgentHistory, Home
from harness.events import SessionStart
from harness.histories.catalogue import Catalogue
from harness.histories.catalogue_rows import CataloguedSession
from harness.histories.registry import load, load_all
from harness.histories.session_copy import STORE_SUFFIX, SessionCopy, keep
from harness.histories.stored_log import StoredLog
from harness.log.ids import is_run_id
from harness.log.store import Metadata, read_all
from harness.log.stores.files import FileStore
from harness.runs.audit import check
from stored_homes import HomeCase, cases


def _sessions(home: Home) -> list[CataloguedSession]:
    catalogue = Catalogue("", load_all())
    catalogue.refresh(home)
    return catalogue.read(catalogue.sessions())


def _history(session: CataloguedSession) -> AgentHistory:
    history = load(session.agent)
    assert history is not None
    return history


def _kept(session: CataloguedSession, store: FileStore) -> SessionCopy:
    return keep(_history(session), session, store)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_copy_of_every_store_is_proved(case: HomeCase, tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "sessions"))
    for session in _sessions(case.unpack(tmp_path / "home")):
        if session.is_empty:
            assert _kept(session, store).status == "empty"
            continue
        copy = _kept(session, store)
        assert copy.status == "copied"
        assert is_run_id(copy.log_id)
        events = list(read_all(store, copy.log_id))
        expected = [*StoredLog(_history(session), session.stored).events()]
        assert events == expected
        audit = check(store, copy.log_id)
        assert audit.problems == []
        assert not audit.is_original
        assert Path(store.path(copy.log_id, STORE_SUFFIX)).stat().st_size > 0
        assert _kept(session, store) == SessionCopy(copy.log_id, "current"), "twice is once"
        metadata = store.metadata(copy.log_id)
        assert (metadata.agent_name, metadata.agent_session_id) == (session.agent, session.session_id)


def _case(name: str) -> HomeCase:
    return next(case for case in cases() if str(case) == name)


def test_a_session_that_has_grown_is_copied_again_and_one_that_was_deleted_stays(tmp_path: Path) -> None:
    home = _case("pi/1.5.0/resume").unpack(tmp_path / "home")
    store = FileStore(str(tmp_path / "sessions"))
    (whole,) = _sessions(home)
    path = Path(whole.path)
    data = path.read_bytes()
    path.write_bytes(b"".join(data.splitlines(keepends=True)[:7]))
    (shorter,) = _sessions(home)
    first = _kept(shorter, store)
    before = len(list(read_all(store, first.log_id)))
    path.write_bytes(data)
    (again,) = _sessions(home)
    second = _kept(again, store)
    assert second == SessionCopy(first.log_id, "copied")
    after = list(read_all(store, second.log_id))
    assert len(after) > before
    assert len([event for event in after if isinstance(event, SessionStart)]) == again.runs
    path.unlink()
    assert _kept(again, store).status == "empty"
    assert list(read_all(store, second.log_id)) == after


def test_a_copy_that_was_interrupted_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (session,) = _sessions(_case("claude/2.1.325/resume").unpack(tmp_path / "home"))
    store = FileStore(str(tmp_path / "sessions"))
    with monkeypatch.context() as patched:
        patched.setattr(FileStore, "save_metadata", _failing_second())
        with pytest.raises(OSError, match="full"):
            _kept(session, store)
    assert _kept(session, store).status == "copied"
    (name,) = {path.name.partition(".")[0] for path in (tmp_path / "sessions").glob("*.ndjson")}
    assert check(store, name).problems == []


def _failing_second() -> object:
    real, calls = FileStore.save_metadata, []

    def save(store: FileStore, metadata: Metadata) -> None:
        calls.append(metadata)
        if len(calls) == 2:
            raise OSError(28, "the disk is full")
        real(store, metadata)

    return save


def test_secrets_are_masked_in_every_file_of_a_copy(tmp_path: Path) -> None:
    home = _case("claude/2.1.325/text").unpack(tmp_path / "home")
    (path,) = Path(home.directory).rglob("*.jsonl")
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    path.write_text(path.read_text().replace("Please do the work of text", f"Use {secret} now"))
    (session,) = _sessions(home)
    store = FileStore(str(tmp_path / "sessions"))
    assert _kept(session, store).status == "copied"
    for file in (tmp_path / "sessions").iterdir():
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file.name
