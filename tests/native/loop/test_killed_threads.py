"""A process is killed while it waits for a person; another one has the answer, and continues the run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conversation_kit import assert_consistent, assert_runs
from harness.contracts.model import ToolTurn
from harness.conversation.history import history
from harness.events import Event, Relay, RelayReply, Result, Resumed, Suspended, ToolEnd, ToolStart
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.runs.audit import check, recover, recover_thread

VICTIM = Path(__file__).parent / "waiting_thread.py"
LOG_ID = "thread-1"


def kill_at(folder: Path, mode: str) -> str:
    """The kind of the last event that was written."""
    victim = subprocess.Popen([sys.executable, VICTIM, folder, LOG_ID, mode], stdout=subprocess.PIPE)
    assert victim.stdout is not None
    last = victim.stdout.readline().decode().strip()
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    return last


def answered(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, VICTIM, folder, LOG_ID, "answer"], capture_output=True, timeout=60, check=True
    )
    return done.stdout.decode().strip()


def counts(events: list[Event], *kinds: type[Event]) -> list[int]:
    return [sum(isinstance(event, kind) for event in events) for kind in kinds]


@pytest.mark.parametrize("is_recovered", [False, True])
@pytest.mark.parametrize(("mode", "last"), [("suspend", "Suspended"), ("approve", "Relay")])
def test_a_killed_process_that_waited_is_answered_by_another_one(
    mode: str, last: str, is_recovered: bool, tmp_path: Path
) -> None:
    assert kill_at(tmp_path, mode) == last
    store = FileStore(str(tmp_path))
    if is_recovered:
        assert recover_thread(store, LOG_ID) == (mode == "approve")
        assert not recover(store, LOG_ID)
    emitted = history(read_all(store, LOG_ID))
    assert emitted.pending is not None
    assert (tmp_path / "mark").exists() == (mode == "suspend")

    assert answered(tmp_path) == "It is done."

    events = list(read_all(store, LOG_ID))
    assert (tmp_path / "mark").read_text() == "x"
    assert counts(events, Result, ToolStart, ToolEnd) == [1, 2, 2]
    waits = 1 if mode == "suspend" else 2
    assert counts(events, Relay, RelayReply, Suspended, Resumed) == [waits] * 4
    emitted = history(events)
    assert [e.turn.text for e in emitted.entries if isinstance(e.turn, ToolTurn)] == [
        "written",
        "answered: because",
    ]
    assert_runs(events)
    assert_consistent(emitted.entries)
    assert check(store, LOG_ID).problems == []
    assert not recover_thread(store, LOG_ID)
