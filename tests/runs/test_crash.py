"""Killing the harness at any moment loses nothing that was shown, and leaves no process."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.events import Result
from harness.log.store import Metadata, read_all
from harness.log.stores.files import FileStore
from harness.runs.audit import check, recover

VICTIM = Path(__file__).parent / "follow_a_replay.py"
ROUNDS = int(os.environ.get("HARNESS_KILLS", "15"))
LINES = 400


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of 300 B to 50 KB, some 5 ms apart."""
    folder = tmp_path_factory.mktemp("recording")
    chance = random.Random(1)
    texts = ["x" * (50_000 if chance.random() < 0.05 else chance.randint(300, 3000)) for _ in range(LINES)]
    path = folder / "stdout.jsonl"
    path.write_text(
        "".join(json.dumps({"type": "line", "number": n, "text": t}) + "\n" for n, t in enumerate(texts))
    )
    (folder / "meta.json").write_text(
        '{"line_times_ms":%s,"exit_code":0}' % [number * 5 for number in range(LINES)]
    )
    return path


def alive_with(marker: str) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                command = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in command:
                found.append(int(entry))
    return found


def wait_until_gone(marker: str) -> None:
    deadline = time.monotonic() + 60
    while (left := alive_with(marker)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left


def killed_run(data: Path, recording: Path, after_lines: int) -> bytes:
    """Kill -9 once that many lines were shown; everything that had been shown."""
    victim = subprocess.Popen([sys.executable, VICTIM, data, recording], stdout=subprocess.PIPE)
    assert victim.stdout is not None
    shown = b""
    while shown.count(b"\n") < after_lines and (data_read := os.read(victim.stdout.fileno(), 65536)):
        shown += data_read
    victim.send_signal(signal.SIGKILL)
    shown += victim.stdout.read()
    victim.stdout.close()
    victim.wait()
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_nothing_shown_is_lost(round_number: int, recording: Path, tmp_path: Path) -> None:
    shown = killed_run(tmp_path, recording, random.Random(round_number).randint(1, LINES // 2))

    store = FileStore(str(tmp_path))
    (metadata,) = store.list()
    log = Path(store.path(metadata.session_id)).read_bytes()
    whole_lines_shown = shown[: shown.rfind(b"\n") + 1]
    assert log.startswith(whole_lines_shown), "every line that was shown is in the log"
    assert not store.is_live(metadata.session_id)

    assert recover(store, metadata.session_id)
    events = list(read_all(store, metadata.session_id))
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(events[-1], Result)
    assert (events[-1].outcome, store.metadata(metadata.session_id).outcome) == ("interrupted", "interrupted")
    assert Path(store.path(metadata.session_id)).read_bytes().startswith(whole_lines_shown)
    assert check(store, metadata.session_id).problems == []
    assert not recover(store, metadata.session_id), "once is enough"
    wait_until_gone(str(recording))


def test_a_log_without_its_raw_record_is_closed_all_the_same(recording: Path, tmp_path: Path) -> None:
    killed_run(tmp_path, recording, 20)
    store = FileStore(str(tmp_path))
    (metadata,) = store.list()
    os.unlink(store.path(metadata.session_id, ".raw"))

    assert recover(store, metadata.session_id)

    events = list(read_all(store, metadata.session_id))
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == "interrupted"


@pytest.mark.parametrize("written", [b"", b'{"kind":"sta'])
def test_a_run_that_died_before_it_began_is_closed_and_proved(tmp_path: Path, written: bytes) -> None:
    store = FileStore(str(tmp_path))
    metadata = Metadata(session_id="01a1e34c-4f80-738e-8064-5cd3e68f7167", agent_name="claude", prompt="go")
    store.create(metadata).close()
    Path(store.path(metadata.session_id, ".raw")).write_bytes(written)

    assert recover(store, metadata.session_id)

    [*_, last] = read_all(store, metadata.session_id)
    assert isinstance(last, Result)
    assert last.outcome == "interrupted"
    assert check(store, metadata.session_id).problems == []


def test_a_finished_run_is_proved_from_its_raw_record(recording: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, VICTIM, tmp_path, recording, "--fast"], check=True, stdout=subprocess.DEVNULL
    )
    store = FileStore(str(tmp_path))
    (metadata,) = store.list()

    audit = check(store, metadata.session_id)

    assert audit.problems == []
    assert audit.lines == LINES
    assert audit.raw_bytes == recording.stat().st_size
    assert not recover(store, metadata.session_id)


def test_a_changed_log_is_not_proved(recording: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, VICTIM, tmp_path, recording, "--fast"], check=True, stdout=subprocess.DEVNULL
    )
    store = FileStore(str(tmp_path))
    (metadata,) = store.list()
    path = Path(store.path(metadata.session_id))
    path.write_bytes(path.read_bytes().replace(b'"number":7,', b'"number":8,', 1))

    assert any("differs" in problem for problem in check(store, metadata.session_id).problems)
