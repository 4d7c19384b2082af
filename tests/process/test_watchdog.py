"""The watchdog: nothing outlives it, and it outlives what it has to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import SpawnFailed
from harness.process import child as child_module
from harness.process import watchdog
from harness.process.child import ChildExit, ChildTimeouts
from harness.system import posix
from real_processes import (
    FAMILY,
    LONE_HARNESS,
    alive,
    children,
    invocation,
    linux_only,
    parent,
    processes_with,
    read_until,
    start,
    to_the_end,
    wait_until,
)


@linux_only
def test_signals_to_the_watchdog_change_nothing():
    with start(invocation("sleep", "600")) as child:
        watchdog = parent(child.pid)
        assert os.getsid(watchdog) == watchdog
        assert os.getsid(child.pid) == child.pid
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(watchdog, number)
        assert child.read(0.1) == []
        assert alive(watchdog)
        assert alive(child.pid)
        child.stop()
        to_the_end(child)
        assert child.exit == ChildExit(code=None, signal=signal.SIGINT)


@linux_only
def test_a_run_whose_watchdog_is_killed_ends_without_its_agent():
    child = start(invocation("sh", "-c", "echo kept; exec sleep 600"))
    wait_until(lambda: Path(f"/proc/{child.pid}/cmdline").read_bytes().startswith(b"sleep"))
    os.kill(parent(child.pid), signal.SIGKILL)
    assert to_the_end(child)[0] == b"kept\n"
    assert child.exit == ChildExit(code=None, signal=None, tree_empty=False)
    wait_until(lambda: not alive(child.pid))


@linux_only
def test_a_watchdog_that_hangs_is_given_up():
    child = start(invocation("sleep", "600"), ChildTimeouts(kill_s=0.2))
    os.kill(parent(child.pid), signal.SIGSTOP)
    child.kill()
    to_the_end(child)
    assert child.exit == ChildExit(code=None, signal=None, tree_empty=False)
    wait_until(lambda: not alive(child.pid))


@pytest.mark.needs_linux_calls("a process that leaves the group is found by adoption only")
@linux_only
@pytest.mark.parametrize("round", range(5))
def test_nobody_outlives_a_harness_that_is_killed(round: int):
    with subprocess.Popen([*LONE_HARNESS, *FAMILY, "stay"], stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        members = [int(pid) for pid in harness.stdout.readline().split()]
        watchdog = parent(members[0])
        assert all(alive(member) for member in members)
        harness.kill()
        wait_until(lambda: not any(alive(member) for member in (watchdog, *members)), seconds=2)


@pytest.mark.needs_linux_calls("a process that leaves the group is found by adoption only")
@linux_only
@pytest.mark.parametrize("delay_ms", [0, 10, 20, 40, 60, 80, 100, 120, 160])
def test_nobody_outlives_a_harness_that_is_killed_while_it_starts(delay_ms: int):
    mark = f"mark{time.time_ns()}"
    harness = subprocess.Popen(
        [*LONE_HARNESS, *FAMILY, "stay"], stdout=subprocess.DEVNULL, env=os.environ | {"MARK": mark}
    )
    time.sleep(delay_ms / 1000)
    harness.kill()
    harness.wait()
    wait_until(lambda: not processes_with(mark, "environ"), seconds=5)


@pytest.mark.needs_linux_calls("a process that leaves the group is found by adoption only")
@linux_only
def test_nobody_outlives_a_harness_that_is_killed_even_if_a_copy_of_it_holds_its_pipes():
    with subprocess.Popen([*LONE_HARNESS, "--fork", *FAMILY, "stay"], stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        copy = int(harness.stdout.readline())
        members = [int(pid) for pid in harness.stdout.readline().split()]
        harness.kill()
        try:
            wait_until(lambda: not any(alive(member) for member in members))
            assert alive(copy)
        finally:
            os.kill(copy, signal.SIGKILL)


@pytest.fixture
def replace_watchdog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def replace(source: str) -> None:
        (tmp_path / "watchdog.py").write_text(source)
        monkeypatch.setattr(child_module, "_WATCHDOG", str(tmp_path / "watchdog.py"))

    return replace


@pytest.fixture
def nothing_leaks() -> Iterator[None]:
    before = sorted(os.listdir("/dev/fd")), children()
    yield
    assert (sorted(os.listdir("/dev/fd")), children()) == before


@linux_only
@pytest.mark.usefixtures("nothing_leaks")
def test_a_watchdog_that_fails_to_start_is_an_error_with_its_last_words(
    replace_watchdog: Callable[[str], None],
):
    replace_watchdog("raise RuntimeError('the dog is ill')")
    with pytest.raises(SpawnFailed, match="the dog is ill") as caught:
        start(invocation("true"))
    assert sys.executable in caught.value.hint


@linux_only
@pytest.mark.usefixtures("nothing_leaks")
def test_a_watchdog_that_never_answers_is_an_error(replace_watchdog: Callable[[str], None]):
    replace_watchdog("import time; time.sleep(600)")
    with pytest.raises(SpawnFailed, match="watchdog"):
        start(invocation("true"), ChildTimeouts(start_s=0.05, kill_s=0.05))


@linux_only
@pytest.mark.usefixtures("nothing_leaks")
def test_an_interrupted_start_leaves_nothing_behind(replace_watchdog: Callable[[str], None]):
    source = Path(watchdog.__file__).read_text()
    interrupting = source.replace('report(f"started {agent}")', "os.kill(os.getppid(), signal.SIGINT)")
    assert interrupting != source
    replace_watchdog(interrupting)
    mark = f"mark{time.time_ns()}"
    with pytest.raises(KeyboardInterrupt):
        start(invocation("sleep", "600", MARK=mark))
    assert processes_with(mark, "environ") == set()


@pytest.mark.needs_linux_calls("survivors are counted in /proc")
def test_an_end_that_is_reported_together_with_the_start_is_seen(replace_watchdog: Callable[[str], None]):
    source = Path(watchdog.__file__).read_text()
    started, ended = 'report(f"started {agent}")', 'report(f"exit {status}")'
    assert source.count(started) == source.count(ended) == 1
    at_once = source.replace(ended, "continue").replace(started, 'report(f"started {agent}\\nexit 0")')
    replace_watchdog(at_once)
    child = start(invocation("sh", "-c", "sleep 600 & exit 0"))
    to_the_end(child)
    assert child.exit == ChildExit(code=0, signal=None, survivors=1)


def test_without_the_calls_of_linux_the_agents_group_is_still_ended(
    replace_watchdog: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(child_module, "SYSTEM_FILE", posix.__file__)
    source = Path(watchdog.__file__).read_text()
    quick = source.replace("KILL_TIMEOUT_S = 3.0", "KILL_TIMEOUT_S = 0.1")
    assert quick != source
    # What adopts the orphans here may be slow to reap them, and a group lives as long as its dead.
    replace_watchdog(quick)

    child = start(invocation("sh", "-c", "sleep 600 & echo $!; exit 4"))
    left_behind = int(to_the_end(child)[0])
    assert (child.exit.code, child.exit.signal) == (4, None)
    wait_until(lambda: not alive(left_behind))

    child = start(invocation("sh", "-c", "sleep 600 & echo $!; wait"))
    left_behind = int(read_until(child, b"\n"))
    child.kill()
    to_the_end(child)
    assert (child.exit.code, child.exit.signal) == (None, signal.SIGKILL)
    wait_until(lambda: not alive(left_behind))

    child = start(
        invocation("sh", "-c", "{ sleep 0.1; echo late; } & echo first"), ChildTimeouts(leftovers_s=20)
    )
    assert to_the_end(child)[0] == b"first\nlate\n"
    assert child.exit.code == 0
