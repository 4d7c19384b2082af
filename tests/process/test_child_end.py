"""Real processes, stopped and killed, alone and with all their offspring."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.process.child import Child, ChildExit, ChildTimeouts
from real_processes import (
    FAMILY,
    SLOW,
    alive,
    family,
    invocation,
    linux_only,
    parent,
    processes_with,
    python,
    read_until,
    start,
    to_the_end,
    wait_until,
)

# The end


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("exit 0", ChildExit(code=0, signal=None)),
        ("exit 3", ChildExit(code=3, signal=None)),
        ("exit 255", ChildExit(code=255, signal=None)),
        ("kill -SEGV $$", ChildExit(code=None, signal=signal.SIGSEGV)),
        ("kill -KILL $$", ChildExit(code=None, signal=signal.SIGKILL)),
    ],
)
def test_the_agents_own_end_is_reported(command: str, end: ChildExit):
    child = start(invocation("sh", "-c", command))
    to_the_end(child)
    assert child.exit == end


STUBBORN = """
import os, signal, sys
def heard(number, frame):
    os.write(1, b"heard %d\\n" % number)
    if str(number) not in sys.argv: os._exit(7)
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, heard)
os.write(1, b"ready\\n")
while True: signal.pause()
"""


@pytest.mark.parametrize(
    ("ignored", "end", "heard"),
    [
        ([], ChildExit(code=7, signal=None), b"heard 2\n"),
        (["2"], ChildExit(code=7, signal=None), b"heard 2\nheard 15\n"),
        (["2", "15"], ChildExit(code=None, signal=signal.SIGKILL), b"heard 2\nheard 15\n"),
    ],
    ids=["nothing", "SIGINT", "SIGINT and SIGTERM"],
)
def test_the_ladder_ends_an_agent_that_ignores(ignored: list[str], end: ChildExit, heard: bytes):
    child = start(python(STUBBORN, *ignored))
    read_until(child, b"ready\n")
    child.stop()
    assert to_the_end(child) == (heard, b"")
    assert child.exit == end


def test_each_further_stop_skips_the_wait_for_the_next_rung():
    child = start(python(STUBBORN, "2", "15"), SLOW)
    read_until(child, b"ready\n")
    child.stop()
    read_until(child, b"heard 2\n")
    child.stop()
    read_until(child, b"heard 15\n")
    child.stop()
    to_the_end(child)
    assert child.exit == ChildExit(code=None, signal=signal.SIGKILL)


def test_the_ladder_waits_between_its_rungs():
    child = start(python(STUBBORN, "2", "15"), ChildTimeouts(interrupt_s=0.3, terminate_s=0.2))
    read_until(child, b"ready\n")
    child.stop()
    began = time.monotonic()
    read_until(child, b"heard 15\n")
    assert time.monotonic() - began >= 0.3
    to_the_end(child)
    assert time.monotonic() - began >= 0.5


def test_an_agent_that_is_suspended_can_be_stopped():
    child = start(invocation("sh", "-c", "echo ready; kill -STOP $$"), SLOW)
    read_until(child, b"ready\n")
    wait_until(lambda: Path(f"/proc/{child.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T")
    child.stop()
    to_the_end(child)
    assert child.exit == ChildExit(code=None, signal=signal.SIGINT)


def test_kill_does_not_wait_for_the_other_rungs():
    child = start(python(STUBBORN, "2", "15"), SLOW)
    read_until(child, b"ready\n")
    child.kill()
    assert to_the_end(child) == (b"", b"")
    assert child.exit == ChildExit(code=None, signal=signal.SIGKILL)


def test_stop_may_come_from_a_signal_handler():
    child = start(python(STUBBORN, "15"), SLOW)
    read_until(child, b"ready\n")
    previous = signal.signal(signal.SIGUSR1, lambda _number, _frame: child.stop())
    try:
        sender = start(invocation("sh", "-c", f"kill -USR1 {os.getpid()}"))
        assert to_the_end(child)[0] == b"heard 2\n"
        to_the_end(sender)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert child.exit == ChildExit(code=7, signal=None)


def test_wake_from_another_thread_ends_a_read_that_waits():
    with start(invocation("sleep", "600")) as child:
        waker = threading.Thread(target=child.wake)
        waker.start()
        assert child.read(None) == []
        waker.join()
        assert child.exit is None
        for _ in range(100_000):  # more than a pipe can hold
            child.wake()
        assert child.read(None) == []


def test_close_kills_what_lives_and_may_be_repeated():
    child = start(python(STUBBORN, "2", "15"), SLOW)
    read_until(child, b"ready\n")
    child.close()
    assert child.exit == ChildExit(code=None, signal=signal.SIGKILL)
    assert child.read(None) == []
    child.close()
    child.wake()
    child.stop()
    child.kill()


# The tree


@pytest.mark.needs_linux_calls("a process that leaves the group is found by adoption only")
@linux_only
@pytest.mark.parametrize("end", [Child.stop, Child.kill, Child.close])
def test_no_descendant_is_left_after(end: Callable[[Child], None]):
    child = start(invocation(*FAMILY, "stay"))
    members = family(child)
    assert members[0] == child.pid
    assert all(alive(member) for member in members)
    end(child)
    to_the_end(child)
    assert not any(alive(member) for member in members)
    assert child.exit is not None
    assert child.exit.tree_empty
    # SIGINT reaches the agent's group; the two that detached, at least, are left over.
    assert child.exit.survivors >= 2 if end is Child.stop else child.exit.survivors == 0


@pytest.mark.needs_linux_calls("survivors are counted in /proc")
@linux_only
def test_what_an_agent_leaves_behind_is_ended_and_counted():
    child = start(invocation(*FAMILY, "leave"))
    members = family(child)
    to_the_end(child)
    assert child.exit == ChildExit(code=0, signal=None, survivors=3)
    assert not any(alive(member) for member in members)


@pytest.mark.needs_linux_calls("survivors are counted in /proc")
@linux_only
def test_a_stop_after_the_agents_end_does_not_wait_for_leftovers():
    child = start(invocation(*FAMILY, "leave"), SLOW)
    family(child)
    wait_until(lambda: not Path(f"/proc/{child.pid}").exists())
    while child.exit is None:
        child.stop()
        child.read(0.05)
    assert child.exit.survivors == 3


@pytest.mark.needs_linux_calls("a process that left its group lives on")
def test_a_detached_process_that_respawns_itself_is_ended():
    code = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    end = time.monotonic() + 60  # a failing test must not leave it to this machine for ever
    while time.monotonic() < end:
        if os.fork(): os._exit(0)
else:
    os.write(1, b"ready\\n")
    signal.pause()
"""
    mark = f"mark{time.time_ns()}"
    child = start(python(code, MARK=mark))
    read_until(child, b"ready\n")
    child.kill()
    to_the_end(child)
    assert child.exit is not None
    assert child.exit.tree_empty
    assert processes_with(mark, "environ") == set()


@pytest.mark.needs_linux_calls("survivors are counted in /proc")
def test_a_grandchild_that_holds_stdout_does_not_hang_the_run_and_costs_no_byte():
    child = start(invocation("sh", "-c", "sleep 600 & head -c 500000 /dev/zero; echo last"), ChildTimeouts())
    began = time.monotonic()
    out, _ = to_the_end(child)
    assert time.monotonic() - began < 5
    assert (len(out), out[-5:]) == (500_005, b"last\n")
    assert child.exit == ChildExit(code=0, signal=None, survivors=1)


def test_a_grandchild_that_ends_soon_may_finish_its_sentence():
    child = start(invocation("sh", "-c", "{ sleep 0.1; echo late; } & echo first"), SLOW)
    assert to_the_end(child)[0] == b"first\nlate\n"
    assert child.exit == ChildExit(code=0, signal=None, survivors=0)


@linux_only
def test_dead_orphans_do_not_pile_up_while_the_agent_lives():
    code = """
import os, signal
for _ in range(20):
    child = os.fork()
    if child == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
os.write(1, b"ready\\n")
signal.pause()
"""
    with start(python(code)) as child:
        read_until(child, b"ready\n")
        watchdog = parent(child.pid)
        children = Path(f"/proc/{watchdog}/task/{watchdog}/children")
        wait_until(lambda: children.read_text().split() == [str(child.pid)])
