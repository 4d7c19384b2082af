"""Which logs have changed: nothing is missed when the watch starts again, or where there is none."""

from __future__ import annotations

import queue
import time
from pathlib import Path

import pytest

from harness.clients.inbox.store_watch import StoreWatch
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.system.contract import system

TIMEOUT_S = 60.0


class _MissesChanges:
    """A watch of a folder that has missed changes at once, or reports none."""

    def __init__(self, steps: queue.Queue[object], *, is_first: bool) -> None:
        self._steps = steps
        self._has_missed = is_first
        steps.put("watched")

    def wait(self, timeout_s: float) -> bool:
        if not self._has_missed:
            time.sleep(min(timeout_s, 0.01))
        return self._has_missed

    def changed(self) -> set[str] | None:
        return None

    def close(self) -> None:
        self._steps.put("closed")


def test_all_is_read_again_once_changes_are_noticed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: queue.Queue[object] = queue.Queue()
    opened: list[_MissesChanges] = []

    def watch_directory(_path: str) -> _MissesChanges:
        opened.append(_MissesChanges(steps, is_first=not opened))
        return opened[-1]

    monkeypatch.setattr(system, "watch_directory", watch_directory)
    watch = StoreWatch(FileStore(str(tmp_path)), steps.put, pause_s=0.0)
    assert [steps.get(timeout=TIMEOUT_S) for _ in range(4)] == ["watched", "closed", "watched", None]
    watch.close()
    assert steps.get(timeout=TIMEOUT_S) == "closed"


def test_a_folder_that_cannot_be_watched_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch_directory(_path: str) -> None:
        raise OSError

    monkeypatch.setattr(system, "watch_directory", watch_directory)
    notified: queue.Queue[set[str] | None] = queue.Queue()
    store = FileStore(str(tmp_path))
    watch = StoreWatch(store, notified.put)
    assert notified.get(timeout=TIMEOUT_S) is None
    log_id = new_run_id(time.time_ns() // 1_000_000)
    store.create(Metadata(session_id=log_id)).close()
    assert notified.get(timeout=TIMEOUT_S) == {log_id}
    store.delete(log_id)
    assert notified.get(timeout=TIMEOUT_S) == {log_id}
    watch.close()
