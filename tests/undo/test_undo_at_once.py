"""Several sessions in one folder: they begin at the same time, and one undoes while the other writes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError, UsageError
from harness.undo.checkpoints import Moment, take
from harness.undo.store import UndoStore
from harness.undo.turns import Work, recorded_turn
from harness.undo.undoing import UndoChoice, last_undo, undo


def checkpoint(store: UndoStore, phase: Any) -> None:
    with store.writing():
        take(store, Moment("log", "run", phase), most_bytes=1 << 30)


def test_sessions_that_begin_at_the_same_time_all_get_their_store(workspace: Path) -> None:
    """Both within one server and by several programs: who is first makes it, the others wait."""
    at_once, folders, problems = 6, 20, []

    def begin(folder: Path, barrier: threading.Barrier) -> None:
        barrier.wait()
        try:
            store = UndoStore(str(folder))
            problems.extend([store.problem] if store.problem else [])
            store.close()
        except (OSError, sqlite3.Error, HarnessError) as error:
            problems.append(str(error))

    for number in range(folders):
        folder = workspace / str(number)
        folder.mkdir()
        barrier = threading.Barrier(at_once)
        threads = [threading.Thread(target=begin, args=(folder, barrier)) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert problems == []


def test_a_store_is_made_by_one_at_a_time(workspace: Path) -> None:
    """SQLite refuses at once where another one makes the database: nobody else is let in meanwhile."""
    program = (
        "import sys, sqlite3\n"
        "from harness.undo import store\n"
        "real = store.UndoStore._open\n"
        "def slow(self):\n"
        "    print('in', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    return real(self)\n"
        "store.UndoStore._open = slow\n"
        "store.UndoStore(sys.argv[1]).close()\n"
    )
    command = [sys.executable, "-c", program, str(workspace)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "in\n"
        opened: list[str] = []

        def open_too() -> None:
            store = UndoStore(str(workspace))
            opened.append(store.folder)
            store.close()

        other = threading.Thread(target=open_too)
        other.start()
        other.join(0.2)
        assert not opened
        first.stdin.write("\n")
        first.stdin.flush()
        other.join()
    assert first.returncode == 0
    assert opened


def test_an_undo_is_recorded_before_another_session_writes(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would wait for that one, give up, and be done without a redo."""
    store, other = UndoStore(str(workspace)), UndoStore(str(workspace))
    (workspace / "f").write_text("before\n")
    checkpoint(store, "before")
    (workspace / "f").write_text("agent\n")
    checkpoint(store, "after")
    refused: list[str] = []

    def add_undo(*arguments: Any) -> None:
        try:
            with other.writing(patience_s=0):
                pass
        except UsageError as error:
            refused.append(error.message)
        real(*arguments)

    real = UndoStore.add_undo
    monkeypatch.setattr(UndoStore, "add_undo", add_undo)
    turn = recorded_turn(store, "run")
    assert turn is not None
    choice = UndoChoice(paths=["f"], forced=["f"])
    plan = undo(store, [turn], lambda *_: Work(), choice).plan
    undo(store, [turn], lambda *_: Work(), choice, expect=plan.digest)
    assert (workspace / "f").read_text() == "before\n"
    assert len(refused) == 1
    assert last_undo(store, "log") is not None
    store.close()
    other.close()
