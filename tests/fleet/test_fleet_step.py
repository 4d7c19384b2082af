"""Commands of a task: whatever they do, they end, and nothing of them is left."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.fleet import step
from harness.fleet.step import StepStopped, run_step
from python_programs import PYTHON
from small_fleet import descendants_with


def test_a_command_is_run_by_the_shell(tmp_path: Path) -> None:
    end = run_step("echo out; echo err >&2; exit 3", str(tmp_path), os.environ, 20)
    assert (end.code, sorted(end.output.split()), end.is_ok) == (3, ["err", "out"], False)


def test_one_that_hangs_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    end = run_step("(setsid sleep 100 &) ; trap '' INT TERM; sleep 100", str(tmp_path), os.environ, 0.5)
    assert (end.code, end.trouble) == (124, "timed out")
    assert time.monotonic() - began < 15
    assert not descendants_with(str(tmp_path))


def test_one_that_forks_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "_MOST_PROCESSES", 30)
    end = run_step("while true; do sleep 100 & done", str(tmp_path), os.environ, 50)
    assert "more than 30 processes" in end.trouble
    assert not descendants_with(str(tmp_path))


def test_one_that_fills_the_disk_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "_MOST_DISK_BYTES", 1 << 20)
    free = iter([10 << 30, *[(10 << 30) - (2 << 20)] * 1000])
    monkeypatch.setattr(step, "_free_bytes", lambda path: next(free))
    end = run_step("sleep 100", str(tmp_path), os.environ, 50)
    assert "it has written more than" in end.trouble


def test_garbage_without_end_is_cut(tmp_path: Path) -> None:
    command = f"{PYTHON} -c \"import os; os.write(1, b'begin'); [os.write(1, bytes(range(256)) * 400) for _ in range(300)]; os.write(1, b'end')\""
    end = run_step(command, str(tmp_path), os.environ, 50)
    assert end.is_ok
    assert end.output.startswith("begin")
    assert end.output.endswith("end")
    assert "bytes …" in end.output
    assert len(end.output) < 20_000
    end.output.encode()


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    end = run_step(("no-such-program",), str(tmp_path), os.environ, 5)
    assert (end.code, end.is_ok) == (None, False)
    assert "no-such-program" in end.trouble


def test_one_that_is_stopped_raises(tmp_path: Path) -> None:
    with pytest.raises(StepStopped):
        run_step("sleep 100", str(tmp_path), os.environ, 50, lambda: True)
