"""Runs pytest with the arguments of this program, and ends everything that the tests have started when it ends.

Tests start databases, clusters and servers. Whoever presses Ctrl-C must not find them running afterwards, and a worker
that is killed cannot stop what it has started. So this process adopts what loses its parent, as init would.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

if sys.platform == "linux":  # also where `HARNESS_SYSTEM` makes the tests believe that it is not
    from harness.system import linux as system
else:
    from harness.system import posix as system

_TESTS_FAILED = 1
"""The exit code of pytest."""
_MOST_ONCE_MORE = 5
"""More are no accident."""
_GRACE_S = 5.0
"""How long a database may take to stop, and what was killed to be gone."""


def main() -> int:
    system.adopt_orphans()
    # A terminal sends an interrupt to pytest as well, which then ends in good order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tests = _started(sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(tests, signal.SIGINT))
    code = _exit_code(tests)
    if code == _TESTS_FAILED and (failures := _failures()):
        code = _once_more(failures)
    if names := _end_what_is_left():
        number = (
            "1 process running, which was"
            if len(names) == 1
            else f"{len(names)} processes running, which were"
        )
        print(f"The tests left {number} ended: {', '.join(names)}")
    return code if code >= 0 else 128 - code


def _started(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    return os.posix_spawn(sys.executable, command, os.environ, setsigdef=[signal.SIGINT])


def _failures() -> list[str]:
    """The tests that failed, where `TEST_FAILURES` names the file that conftest.py lists them in."""
    with suppress(KeyError, OSError):
        names = Path(os.environ["TEST_FAILURES"]).read_text().splitlines()
        return names if len(names) <= _MOST_ONCE_MORE else []
    return []


def _once_more(failures: list[str]) -> int:
    """Alone, without the others beside it: what fails then is broken, what passes is named, since it is not sound."""
    print("Once more, alone:", *failures, sep="\n  ", flush=True)
    code = _exit_code(_started(["-n", "0", *failures]))
    if code == 0:
        print("Passed alone, failed among others:", *failures, sep="\n  ", flush=True)
    return code


def _exit_code(tests: int) -> int:
    """When that process has ended. What was adopted is reaped meanwhile, so that no test takes it for running."""
    while True:
        pid, status = os.wait()
        if pid == tests:
            return os.waitstatus_to_exitcode(status)


def _end_what_is_left() -> list[str]:
    """The names of processes that did not end by themselves."""
    names: list[str] = []
    while _is_something_left():
        left = system.descendants()[0]
        names += map(_name, sorted(left))
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return names


def _is_something_left() -> bool:
    """Whether it is after a while. Below a process that ended, everything is our own child by then."""
    ends_s = time.monotonic() + _GRACE_S
    while time.monotonic() < ends_s:
        try:
            has_ended = os.waitpid(-1, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return False
        if not has_ended:
            time.sleep(0.02)
    return True


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return str(pid)


if __name__ == "__main__":
    sys.exit(main())
