"""Storage that fails at any call: what was acknowledged stays, and everything works again afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError, StoreError, UnknownSession
from harness.events import TextDelta
from harness.log import event_file, private_files
from harness.log.hub import Hub
from harness.log.index import access, scan
from harness.log.store import Fork, Metadata, Query, Store, read_all
from harness.log.stores import files as file_store
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.testing.faulty_store import FaultyStore
from harness.testing.small_logs import conversation, found

_MOST_CALLS = 2000


def everything(store: Store, acknowledged: list[int]) -> None:
    """One of each call. `acknowledged` gets the numbers of the events that a follower was shown."""
    writer = store.create(Metadata(session_id="a", kind="thread", resource_id="r", name="first"))
    try:
        for number in range(4):
            writer.append([TextDelta(seq=number, timestamp_ms=1, run_id="r", text=f"{number}")])
            acknowledged.append(number)
        metadata = store.metadata("a")
        metadata.name = "second"
        store.save_metadata(metadata)
        store.find(Query(text="second", live_first=True))
        store.messages("a", 2)
        store.save_snapshot("a", "display", 3, b"data")
        store.snapshot("a", "display")
        fork = store.create(Metadata(session_id="b", fork=Fork("a", 2)))
        fork.close()
        store.usage("b")
        list(read_all(store, "b"))
        store.delete("b")
        store.resource_ids()
        list(store.list())
    finally:
        writer.close()
    store.open("a").close()


def proves_usable(store: Store, acknowledged: list[int]) -> None:
    """After any failure the store does everything, and has everything that was acknowledged."""
    if acknowledged:
        assert [event.seq for event in read_all(store, "a")][: len(acknowledged)] == acknowledged
    for log_id in ("b", "a"):
        try:
            store.delete(log_id)
        except UnknownSession:
            continue
    again: list[int] = []
    everything(store, again)
    assert again == [0, 1, 2, 3]
    assert found(store, Query()) == ["a"]


@pytest.mark.parametrize("failures", [1, 3])
def test_a_store_that_refuses_any_call_is_usable_afterwards(failures: int) -> None:
    refused: set[str] = set()
    for number in range(1, _MOST_CALLS):
        inner = MemoryStore()
        store = FaultyStore(inner, fails_at=number, failures=failures)
        acknowledged: list[int] = []
        try:
            everything(store, acknowledged)
        except (StoreError, OSError):
            pass
        if not store.failed:
            break
        refused.update(store.failed)
        proves_usable(inner, acknowledged)
    assert refused >= {"create", "append", "metadata", "save_metadata", "find", "messages", "reader", "read"}
    assert refused >= {"snapshot", "save_snapshot", "usage", "delete", "resource_ids", "list", "open"}


def test_a_hub_shows_everything_whichever_append_is_refused() -> None:
    for number in range(2, 12):
        inner = MemoryStore()
        store = FaultyStore(inner, fails_at=number)
        hub = Hub(store, "t", store.create(Metadata(session_id="t")))
        source = hub.source("r")
        for count in range(8):
            source.append([TextDelta(text=f"{count}")])
        hub.close()

        shown = [event for batch in hub.batches() for event in batch]
        said = [event.text for event in shown if isinstance(event, TextDelta)]
        assert said == [str(count) for count in range(8)]
        assert list(read_all(inner, "t")) == shown


class Disk:
    """Replaces the system calls in the modules of the file store; one of them fails, or all from one on."""

    def __init__(self, fails_at: int, *, for_good: bool) -> None:
        self.calls = 0
        self._fails_at = fails_at
        self._for_good = for_good

    @property
    def has_failed(self) -> bool:
        return self.calls >= self._fails_at

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self._fails_at or (self._for_good and self.calls > self._fails_at):
                raise OSError(5, "Input/output error")
            return call(*arguments, **options)

        return run


CALLS = ("open", "write", "writev", "lstat", "unlink", "rename", "replace", "listdir", "scandir", "pread")
CALLS += ("ftruncate", "mkdir", "fchmod", "chmod")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Disk | None], None]]:
    """Lets the file store's own calls of the system go through a disk; None: through the real one."""

    class System:
        def __init__(self, disk: Disk) -> None:
            for name in CALLS:
                setattr(self, name, disk.wrapped(getattr(os, name)))

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    def use(disk: Disk | None) -> None:
        for module in (private_files, event_file, file_store, access, scan):
            monkeypatch.setattr(module, "os", os if disk is None else System(disk))

    yield use
    use(None)


@pytest.mark.parametrize("for_good", [False, True])
def test_a_disk_that_fails_at_any_call_leaves_a_usable_store(
    tmp_path: Path, failing: Callable[[Disk | None], None], for_good: bool
) -> None:
    walked = 0
    for number in range(1, _MOST_CALLS):
        folder = tmp_path / str(number)
        store = FileStore(str(folder))
        acknowledged: list[int] = []
        disk = Disk(number, for_good=for_good)
        failing(disk)
        try:
            everything(store, acknowledged)
        except (HarnessError, OSError):
            pass
        failing(None)
        if not disk.has_failed:
            break
        walked += 1
        proves_usable(FileStore(str(folder)), acknowledged)
        store.close()
    assert 50 < walked < _MOST_CALLS - 1


def test_a_refused_append_keeps_nothing_of_it(tmp_path: Path, failing: Callable[[Disk | None], None]) -> None:
    store = FileStore(str(tmp_path))
    writer = store.create(Metadata(session_id="a"))
    writer.append(conversation(0, turns=1))
    failing(Disk(1, for_good=True))
    with pytest.raises(OSError, match="Input/output"):
        writer.append(conversation(7, turns=1))
    failing(None)

    assert len(list(read_all(store, "a"))) == 7
    writer.append(conversation(7, turns=1))
    assert len(list(read_all(store, "a"))) == 14
    writer.close()
