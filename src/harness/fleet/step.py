"""Run a shell command of a task to its end, within limits that hold whatever it does.

The watchdog ends everything that the command started. Beside the time, the number of processes, the space it takes on
the disk and what it writes to its output are limited.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from harness.errors import HarnessError
from harness.process.child import Child, ChildTimeouts
from harness.process.invocation import Invocation
from harness.system.contract import system

TIMED_OUT = 124
"""The exit code of a command that took too long, as `timeout` gives it."""
_KILLED = 128 + signal.SIGKILL
"""So a shell, and a container, say that a command was killed."""
_TIMEOUTS = ChildTimeouts(interrupt_s=1.0, terminate_s=1.0, kill_s=5.0)
_LOOK_EVERY_S = 0.5
_MOST_PROCESSES = 1000
_MOST_DISK_BYTES = 20 << 30
_LEAST_FREE_BYTES = 200 << 20
_HEAD_BYTES, _TAIL_BYTES = 2_000, 6_000


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended. `trouble` says what ended it early; empty when it ended by itself."""

    code: int | None
    output: str
    trouble: str = ""
    duration_s: float = 0.0
    signal: int | None = None
    """What ended it, where that was not we."""

    @property
    def end_of_signal(self) -> str:
        """Empty where it ended by itself, or was ended by us."""
        if self.trouble or (self.signal is None and self.code != _KILLED):
            return ""
        is_killed = self.code == _KILLED or self.signal == signal.SIGKILL
        return (
            "the check was killed (out of memory?)"
            if is_killed
            else f"the check was ended by signal {self.signal}"
        )

    @property
    def is_ok(self) -> bool:
        return self.code == 0 and not self.trouble


class StepStopped(Exception):
    """The worker was asked to stop."""


class _Output:
    """The beginning and the end of what was written, however much it is."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = _HEAD_BYTES - len(self._head)
        self._head += data[:room]
        rest = self._tail + data[room:] if room < len(data) else self._tail
        self._dropped += max(0, len(rest) - _TAIL_BYTES)
        self._tail = rest[-_TAIL_BYTES:]

    def text(self) -> str:
        gap = f"\n… {self._dropped} bytes …\n".encode() if self._dropped else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace").replace("\0", "\ufffd")


def run_step(
    command: str | tuple[str, ...],
    cwd: str,
    env: Mapping[str, str],
    timeout_s: float,
    is_stopped: Callable[[], bool] = lambda: False,
) -> CommandResult:
    """`command`: for the shell, or a program and its arguments. Raises StepStopped."""
    argv = command if isinstance(command, tuple) else (_shell(env), "-c", command)
    began = time.monotonic()
    output = _Output()
    with _opened(cwd) as folder:
        limits = _StepLimits(folder, began + timeout_s, is_stopped)
        try:
            child = Child(Invocation(argv, env, cwd), _TIMEOUTS)
        except HarnessError as error:
            return CommandResult(None, "", error.words)
        trouble = ""
        with child:
            while child.exit is None:
                for chunk in child.read(_LOOK_EVERY_S):
                    output.add(chunk.data)
                if not trouble and (trouble := limits.exceeded()):
                    child.kill()
    if is_stopped():
        raise StepStopped
    took_s = time.monotonic() - began
    code = child.exit.code if child.exit.code is not None else 128 + (child.exit.signal or 0)
    return CommandResult(
        TIMED_OUT if trouble.startswith("timed out") else code,
        output.text(),
        trouble,
        took_s,
        child.exit.signal,
    )


@contextmanager
def _opened(folder: str) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _StepLimits:
    def __init__(self, folder: int, deadline: float, is_stopped: Callable[[], bool]) -> None:
        """`folder`: the working folder, open, because a task may delete it."""
        self._folder = folder
        self._deadline = deadline
        self._is_stopped = is_stopped
        self._free_before = _free_bytes(folder)
        self._look_at = 0.0

    def exceeded(self) -> str:
        """Which limit is exceeded; empty: none. What is costly to find out is looked at now and then."""
        now = time.monotonic()
        if self._is_stopped():
            return "stopped"
        if now >= self._deadline:
            return "timed out"
        if now < self._look_at:
            return ""
        self._look_at = now + _LOOK_EVERY_S
        free = _free_bytes(self._folder)
        if free < min(_LEAST_FREE_BYTES, self._free_before // 2):
            return "the disk is almost full"
        if self._free_before - free > _MOST_DISK_BYTES:
            return f"it has written more than {_MOST_DISK_BYTES >> 30} GB"
        if len(system.descendants()[0]) > _MOST_PROCESSES:
            return f"it has started more than {_MOST_PROCESSES} processes"
        return ""


def _free_bytes(folder: int) -> int:
    statistics = os.statvfs(folder)
    return statistics.f_bavail * statistics.f_frsize


def _shell(env: Mapping[str, str]) -> str:
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        if os.access(os.path.join(folder, "bash"), os.X_OK):
            return "bash"
    return "sh"
