"""Log files after a crash, on a full disk, with a flipped bit, under any umask."""

from __future__ import annotations

import os
import random
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import child_process
from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Event, TextDelta, Unknown, Warning
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.private_files import open_private
from harness.log.store import Metadata, read_all
from harness.log.stores.files import FileStore


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path / "data" / "sessions"))


def written(store: FileStore, count: int, text: str = "text") -> str:
    log_id = new_run_id(1)
    writer = store.create(Metadata(session_id=log_id))
    writer.append(
        [
            TextDelta(seq=number, timestamp_ms=1, run_id="r", text=f"{text} {number}")
            for number in range(count)
        ]
    )
    writer.close()
    return log_id


def seqs(events: Iterator[Event]) -> list[int]:
    return [event.seq for event in events]


def test_a_torn_last_line_is_cut_off_at_every_possible_place(store: FileStore) -> None:
    log_id = written(store, 3)
    path = Path(store.path(log_id))
    whole = path.read_bytes()
    second_end = whole.index(b"\n", whole.index(b"\n") + 1) + 1

    for cut in range(second_end, len(whole)):
        path.write_bytes(whole[:cut])
        assert seqs(read_all(store, log_id)) == [0, 1]
        writer = store.open(log_id)
        assert writer.next_seq == 2
        writer.close()
        assert path.read_bytes() == whole[:second_end]


def test_a_log_of_one_torn_line_is_empty_again(store: FileStore) -> None:
    log_id = written(store, 1)
    path = Path(store.path(log_id))
    path.write_bytes(path.read_bytes()[:-5])

    writer = store.open(log_id)

    assert writer.next_seq == 0
    writer.close()
    assert path.read_bytes() == b""


def test_a_torn_line_longer_than_any_buffer_is_repaired(store: FileStore) -> None:
    log_id = written(store, 2, text="x" * 400_000)
    path = Path(store.path(log_id))
    path.write_bytes(path.read_bytes()[:-10])

    writer = store.open(log_id)

    assert writer.next_seq == 1
    writer.close()


def test_one_flipped_bit_costs_at_most_one_line(store: FileStore) -> None:
    log_id = written(store, 8)
    path = Path(store.path(log_id))
    whole = path.read_bytes()
    chance = random.Random(4)
    for _ in range(1000):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole) - 1)] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        good = {event.seq for event in read_all(store, log_id) if isinstance(event, TextDelta)}
        assert len(good & set(range(8))) >= 7


def test_a_damaged_line_shows_as_unknown_in_its_place(store: FileStore) -> None:
    log_id = written(store, 3)
    path = Path(store.path(log_id))
    lines = path.read_bytes().split(b"\n")
    lines[1] = b"rubbish"
    path.write_bytes(b"\n".join(lines))

    events = list(read_all(store, log_id))

    assert seqs(iter(events)) == [0, 1, 2]
    assert isinstance(events[1], Unknown)


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = FileStore(str(tmp_path / "new" / "sessions"))
        log_id = written(store, 1)
    finally:
        os.umask(before)

    assert stat.S_IMODE(os.stat(store.directory).st_mode) == 0o700
    for name in os.listdir(store.directory):
        assert stat.S_IMODE(os.stat(os.path.join(store.directory, name)).st_mode) == 0o600, name
    assert os.path.exists(store.path(log_id))


@pytest.mark.parametrize(
    "hostile",
    ["../secret", "/etc/passwd", "a\0b", "", ".", "..", "x" * 5000, "0199%2e%2e", "é", "a/b", "~root"],
)
def test_a_hostile_id_is_only_unknown(store: FileStore, hostile: str) -> None:
    for ask in (store.open, store.reader, store.metadata, store.is_live, store.delete):
        with pytest.raises(UnknownSession):
            ask(hostile)


def test_a_symbolic_link_is_never_followed(store: FileStore, tmp_path: Path) -> None:
    log_id = written(store, 1)
    secret = tmp_path / "secret"
    secret.write_text('{"type":"TextDelta","seq":0,"text":"secret"}\n')
    os.unlink(store.path(log_id))
    os.symlink(secret, store.path(log_id))

    with pytest.raises(StoreError):
        store.reader(log_id)


def test_the_holder_of_a_lock_is_named(store: FileStore) -> None:
    log_id = new_run_id(1)
    writer = store.create(Metadata(session_id=log_id))

    with pytest.raises(LogLocked) as caught:
        store.open(log_id)

    assert str(os.getpid()) in caught.value.message
    writer.close()


@pytest.mark.needs_linux_calls("the holder of a lock is in /proc/locks")
def test_the_holder_is_who_opened_the_log_last(store: FileStore) -> None:
    log_id = written(store, 1)
    ready, done = os.pipe(), os.pipe()

    def hold() -> None:
        writer = store.open(log_id)
        os.write(ready[1], b"!")
        os.read(done[0], 1)
        writer.close()

    child = child_process.begin(hold)
    os.read(ready[0], 1)
    store.save_metadata(store.metadata(log_id))
    with pytest.raises(LogLocked) as refused:
        store.open(log_id)
    os.write(done[1], b"!")
    assert child_process.end(child) == 0
    for descriptor in (*ready, *done):
        os.close(descriptor)

    if os.path.exists("/proc/locks"):
        assert refused.value.holder.split()[0] == str(child)


def test_a_lock_is_free_at_once_when_its_holder_is_killed(store: FileStore) -> None:
    log_id = new_run_id(1)
    ready, signal_end = os.pipe()
    child = os.fork()
    if not child:
        store.create(Metadata(session_id=log_id))
        os.write(signal_end, b"x")
        signal.pause()
    os.read(ready, 1)
    assert store.is_live(log_id)

    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

    assert not store.is_live(log_id)
    store.open(log_id).close()


def test_a_full_disk_stops_the_log_but_not_the_stream(store: FileStore) -> None:
    """The limit on file size simulates a full disk: first a short write, then a refusal."""
    log_id = new_run_id(1)
    hub = Hub(store, log_id, store.create(Metadata(session_id=log_id)))
    source = hub.source(log_id)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        source.append([TextDelta(text="fits")])
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(store.path(log_id)) + 40, before[1]))
        for number in range(5):
            source.append([TextDelta(text=f"does not fit {number}")])
        refused = Path(store.path(log_id)).read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        source.append([TextDelta(text="fits again")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    hub.close()

    shown = [event for batch in hub.batches() for event in batch]
    assert refused.count(b"\n") == 1
    assert refused.endswith(b"\n")
    assert [event.seq for event in shown] == list(range(8))
    warnings = [event for event in shown if isinstance(event, Warning)]
    assert [warning.code for warning in warnings] == ["log_incomplete"]
    assert "from seq 1" in warnings[0].message
    assert list(read_all(store, log_id)) == shown, "what waited for space was written when there was some"


def test_a_clock_that_falls_never_shows(store: FileStore) -> None:
    log_id = new_run_id(1)
    times = iter([5000, 6000, 1000, 1500, 7000])
    hub = Hub(store, log_id, store.create(Metadata(session_id=log_id)), clock=lambda: next(times))
    for _ in range(5):
        hub.source(log_id).append([TextDelta(text="x")])
    hub.close()

    assert [event.timestamp_ms for event in read_all(store, log_id)] == [5000, 6000, 6000, 6000, 7000]


def test_a_reader_far_behind_is_served_from_the_file(store: FileStore) -> None:
    log_id = new_run_id(1)
    hub = Hub(store, log_id, store.create(Metadata(session_id=log_id)))
    source = hub.source(log_id)
    late = hub.follower(0)
    big = "x" * 100_000
    for number in range(200):
        source.append([TextDelta(text=f"{number} {big}")])
    hub.close()

    seen: list[int] = []
    while batch := late.poll():
        seen += [event.seq for event in batch]
    assert seen == list(range(200))


def test_what_is_no_file_keeps_its_mode(tmp_path: Path) -> None:
    """Root would take a device from everybody else. A pipe stands for one here."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    path.chmod(0o666)
    os.close(open_private(str(path), os.O_RDWR | os.O_CREAT))
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.ndjson")
    with os.fdopen(open_private(str(tmp_path / "log.ndjson"), os.O_RDONLY), "rb", buffering=0) as file:
        assert file.read() == b""
