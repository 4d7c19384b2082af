"""Conversations of a program with a terminal: other programs reach them, for as long as it has them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harness.clients.commands import Rename, Steer
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_socket import LocalSocketClient
from harness.clients.conversations.own_conversations import OwnConversations
from harness.errors import UsageError
from harness.log.stores.files import FileStore

NOBODY = r".*"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStore:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return FileStore(str(tmp_path / "sessions"))


def setup_in(folder: Path) -> Setup:
    return Setup(agent="native", model="scripted/demo", cwd=str(folder))


def test_another_program_reaches_it_until_it_is_unloaded(store: FileStore, tmp_path: Path) -> None:
    changed = threading.Event()
    own = OwnConversations(store, lambda: setup_in(tmp_path), changed.set)
    try:
        log_id = own.create(setup_in(tmp_path))
        client = LocalSocketClient(log_id, lambda: None)
        client.send(Rename(title="from elsewhere"))
        assert store.metadata(log_id).name == "from elsewhere"
        assert (own.running, own.status(log_id).can_submit) == (0, True)
        client.close()

        own.unload(log_id)
        with pytest.raises(OSError, match=NOBODY):
            LocalSocketClient(log_id, lambda: None)

        own.carry_out(log_id, Rename(title="loaded again"))
        LocalSocketClient(log_id, lambda: None).close()
    finally:
        own.close()
    with pytest.raises(OSError, match=NOBODY):
        LocalSocketClient(log_id, lambda: None)


def test_nothing_is_started_before_something_is_asked(store: FileStore, tmp_path: Path) -> None:
    own = OwnConversations(store, lambda: setup_in(tmp_path))
    before = threading.active_count()
    assert not own.status("unknown").can_submit
    assert own.hub("unknown") is None
    own.close()
    assert threading.active_count() == before


def test_an_invalid_setup_is_refused_before_there_is_a_conversation(store: FileStore, tmp_path: Path) -> None:
    own = OwnConversations(store, lambda: setup_in(tmp_path))
    try:
        with pytest.raises(UsageError, match="fly"):
            own.check(Setup(agent="native", mode="fly", cwd=str(tmp_path)))
        with pytest.raises(UsageError, match="nothing is running"):
            own.carry_out(own.create(setup_in(tmp_path)), Steer(message="left"))
    finally:
        own.close()
