"""A conversation through a gateway whose Harness is killed while a question is open, and which goes on in another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway_place import KEY, Place, calls_of
from harness.clients.sessions.model_calls import call_lines
from harness.log.store import read_all
from harness.runs.audit import check
from harness.runs.replay_request import recorded_run
from harness.system.contract import system

FIRST: list[Any] = [{"call": "run", "command": "echo one > one.txt"}, {"text": "Never."}]
SECOND: list[Any] = [{"call": "run", "command": "echo two > two.txt"}, {"text": "Two is done."}]
COMMAND = [
    sys.executable,
    "-m",
    "harness.cli.main",
    "chat",
    "-a",
    "claude",
    "--gateway",
    "--permissions",
    "ask",
]


def _until(what: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_it_goes_on_through_another_gateway_and_every_call_is_counted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_LOG_DIRECTORY", place.store.directory)
    place.script(FIRST)
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=place.cwd
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(b"Go.\n")
        first.stdin.flush()
        shown = b""
        while b"[y]" not in shown:
            piece = os.read(first.stdout.fileno(), 65536)
            assert piece, shown.decode()
            shown += piece
        first.send_signal(signal.SIGKILL)
    _until(lambda: not list(system.processes_in(str(place.cwd))))
    assert not (place.cwd / "one.txt").exists()

    place.script(SECOND)
    words = [*COMMAND, "--resume", "last"]
    done = subprocess.run(
        words, input=b"Again.\ny\n", capture_output=True, cwd=place.cwd, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Two is done." in done.stdout, done.stdout.decode() + done.stderr.decode()
    assert (place.cwd / "two.txt").read_text() == "two\n"

    [log] = place.store.list()
    assert not check(place.store, log.session_id).problems
    events = list(read_all(place.store, log.session_id))
    assert len(calls_of(events)) == len([entry for entry in place.lab.requests if entry.wire]) == 3
    assert KEY not in repr(events)
    recorded = recorded_run(place.store, log.session_id)
    assert (recorded.prompts, recorded.unplayed) == (("Go.",), 1)
    assert "Again." in "\n".join(call_lines(place.store, log.session_id, 3, only_new=False))
