"""Harness itself is killed in the middle of a conversation: no process is left, and the log is completed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conversations import (
    ANSWER,
    HELLO,
    INIT,
    READY,
    SESSION,
    Step,
    Talk,
    call,
    called,
    first_turn,
    is_alive,
    prompt,
    state,
    wait_until,
)
from harness.events import Relay, RelayReply, Result, ToolEnd, ToolStart
from harness.log.store import read_all
from harness.runs.audit import recover
from source_tree import ROOT

HERE = Path(__file__).parent
BEGUN = [HELLO, READY, prompt(), state("running"), INIT]
STATES: dict[str, list[Step]] = {
    "handshake": [HELLO, prompt("never"), prompt("never")],
    "busy": [*BEGUN, call("c1"), prompt("never")],
    "asked": [*BEGUN, *called("c1"), ANSWER],
    "idle": first_turn(),
}


@pytest.mark.needs_linux_calls("the watchdog ends the tree of a killed harness")
@pytest.mark.parametrize("where", STATES)
def test_a_conversation_whose_harness_was_killed_is_complete(tmp_path: Path, where: str) -> None:
    talk = Talk(tmp_path)
    binary = talk.program(*STATES[where])
    command = [sys.executable, str(HERE / "lone_conversation.py"), binary, str(tmp_path), where]
    path = os.pathsep.join([str(HERE), str(HERE.parent / "protocols"), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as harness:
        assert harness.stdout is not None
        run_id = harness.stdout.readline().decode().strip()
        assert run_id
        wait_until(lambda: where == "handshake" or SESSION.encode() in log_of(talk, run_id))
        agents = processes_of(binary)
        os.kill(harness.pid, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in agents))

    recover(talk.store, run_id)
    talk.prove(run_id)
    events = list(read_all(talk.store, run_id))
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == ("completed" if where == "idle" else "interrupted")
    for began, ended in ((ToolStart, ToolEnd), (Relay, RelayReply)):
        assert sum(isinstance(one, began) for one in events) == sum(isinstance(one, ended) for one in events)


def log_of(talk: Talk, run_id: str) -> bytes:
    path = Path(talk.store.path(run_id, ".ndjson"))
    return path.read_bytes() if path.exists() else b""


def processes_of(binary: str) -> list[int]:
    """Those that play this program."""
    folder = os.path.dirname(binary).encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        if folder in words and b"lone_conversation" not in words:
            found.append(int(name))
    return found
