"""Run a program for a tool: in its own thread, under the watchdog, with a timeout.

In every case, the program and everything it started has ended before `run_command` returns or raises
CancelledError.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple, TypeAlias

from harness.config import data_directory
from harness.contracts.tool import ToolFailure
from harness.errors import HarnessError
from harness.log.private_files import append_all, make_private_directory, open_private
from harness.log.redact.redactor import Redactor
from harness.process.child import Child, ChildExit, ChildTimeouts, OutputChunk
from harness.process.invocation import Invocation

_TIMEOUTS = ChildTimeouts(kill_s=2.0)

Take: TypeAlias = Callable[[Sequence[OutputChunk]], float | None]
"""Called in the command's thread with its output, possibly empty. Returns after how many seconds it must be
called again even without output; None: not at all. May raise `Enough`."""


class Enough(Exception):
    """No more output is needed: end the program."""


class CommandEnd(NamedTuple):
    exit: ChildExit
    is_timeout: bool
    is_enough: bool


async def run_command(invocation: Invocation, take: Take, timeout_s: float) -> CommandEnd:
    """Raises ToolFailure when it cannot be started."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[CommandEnd] = loop.create_future()
    command = _Command(invocation, take, timeout_s)

    def work() -> None:
        try:
            ending, error = command.run(), None
        except BaseException as raised:  # noqa: BLE001 # it is raised in the task that waits
            ending, error = None, raised
        with suppress(RuntimeError):  # the event loop is closed: no task waits any more
            loop.call_soon_threadsafe(settle, ending, error)

    def settle(ending: CommandEnd | None, error: BaseException | None) -> None:
        if end.done():
            return
        if ending is not None:
            end.set_result(ending)
        elif error is not None:
            end.set_exception(error)

    threading.Thread(target=work, name="command", daemon=True).start()
    try:
        return await asyncio.shield(end)
    except asyncio.CancelledError:
        command.kill()
        await asyncio.wait([end])
        raise
    except HarnessError as error:
        raise ToolFailure(f"{error.message}. {error.hint}".strip()) from None
    finally:
        if end.done() and not end.cancelled():
            end.exception()  # mark the exception as retrieved


class _Command:
    def __init__(self, invocation: Invocation, take: Take, timeout_s: float) -> None:
        self._invocation = invocation
        self._take = take
        self._timeout_s = timeout_s
        self._child: Child | None = None
        self._is_killed = False

    def kill(self) -> None:
        """May be called from any thread."""
        self._is_killed = True
        if self._child is not None:
            self._child.kill()

    def run(self) -> CommandEnd:
        with Child(self._invocation, _TIMEOUTS) as child:
            self._child = child
            if self._is_killed:
                child.kill()
            is_timeout = is_enough = False
            deadline = time.monotonic() + self._timeout_s
            wait_s: float | None = None
            while child.exit is None:
                left_s = deadline - time.monotonic()
                if left_s <= 0 and not is_timeout:
                    is_timeout = True
                    child.kill()
                chunks = child.read(_sooner(None if is_timeout else max(left_s, 0.0), wait_s))
                if not is_enough:
                    try:
                        wait_s = self._take(chunks)
                    except Enough:
                        is_enough, wait_s = True, None
                        child.kill()
            return CommandEnd(child.exit, is_timeout, is_enough)


def _sooner(first_s: float | None, second_s: float | None) -> float | None:
    limits = [seconds for seconds in (first_s, second_s) if seconds is not None]
    return min(limits) if limits else None


# Output that may be huge: beginning and end in memory, all of it in a file that the model may read.


SHOWN_BYTES = 30_000
MOST_KEPT_BYTES = 256 * 1024 * 1024
KEPT_FOR_S = 7 * 24 * 3600.0
_LONGEST_LINE_BYTES = 1024 * 1024
"""A longer line is written in pieces, without waiting for its end."""


class HeadAndTail:
    """A limited part of a byte stream: half from the beginning, half from the end."""

    def __init__(self, most_bytes: int = SHOWN_BYTES) -> None:
        self.size_bytes = 0
        self._half_bytes = most_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    @property
    def has_gap(self) -> bool:
        return self.size_bytes > len(self._head) + self._tail_bytes

    def feed(self, data: bytes) -> None:
        self.size_bytes += len(data)
        room = self._half_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data[-self._half_bytes :])
            self._tail_bytes += len(self._tail[-1])
            while self._tail_bytes - len(self._tail[0]) >= self._half_bytes:
                self._tail_bytes -= len(self._tail.popleft())

    def text(self) -> str:
        tail = b"".join(self._tail)
        if not self.has_gap and len(tail) <= self._half_bytes:
            return _readable(bytes(self._head) + tail)
        tail = tail[-self._half_bytes :]
        missing = self.size_bytes - len(self._head) - len(tail)
        return f"{_readable(bytes(self._head))}\n… [{missing} bytes left out] …\n{_readable(tail)}"


_OWN_NAME = re.compile(r"[0-9a-f]{16}")


@cache
def _own_name() -> str:
    """One folder per process, so that a run can read only the outputs of this process."""
    return os.urandom(8).hex()


class OutputFolder:
    """Stores outputs that are too long for a model, for some days. Secrets are masked in them."""

    def __init__(self, path: str = "", secrets: Mapping[str, str] | None = None) -> None:
        """Without `secrets` nothing is masked. A folder given as `path` is never cleaned up."""
        self.path = path or os.path.join(data_directory(), "outputs", _own_name())
        self._secrets = secrets
        self._is_tidy = bool(path)

    def new(self, label: str, threshold_bytes: int) -> KeptOutput:
        """An output whose file is created once it exceeds the threshold."""
        return KeptOutput(self, label, threshold_bytes)

    def create(self, label: str) -> tuple[str, int]:
        make_private_directory(self.path)
        self._tidy()
        plain = "".join(character if character.isalnum() else "-" for character in label[-80:])
        path = os.path.join(self.path, f"{plain}-{os.urandom(4).hex()}.txt")
        return path, open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def redactor(self) -> Redactor | None:
        return None if self._secrets is None else Redactor(self._secrets)

    def _tidy(self) -> None:
        """Remove old folders of other processes."""
        if self._is_tidy:
            return
        self._is_tidy = True
        oldest_s = time.time() - KEPT_FOR_S
        with suppress(OSError), os.scandir(os.path.dirname(self.path)) as entries:
            for folder in entries:
                if _OWN_NAME.fullmatch(folder.name) and folder.stat().st_mtime < oldest_s:
                    _remove(folder.path)


class KeptOutput:
    """One output that is written to a file; stays in memory as long as it is short. `close` it."""

    def __init__(self, folder: OutputFolder, label: str, threshold_bytes: int) -> None:
        self.path = ""
        """Empty while there is no file: the output is short, or writing failed."""
        self.is_cut = False
        """Whether the file has only the beginning, too."""
        self._folder = folder
        self._label = label
        self._threshold_bytes = threshold_bytes
        self._waiting: list[bytes] = []
        self._size_bytes = 0
        self._descriptor = -1
        self._redactor: Redactor | None = None
        self._has_failed = False

    def feed(self, data: bytes) -> None:
        self._size_bytes += len(data)
        if self._has_failed or self.is_cut:
            return
        self._waiting.append(data)
        if self._size_bytes > MOST_KEPT_BYTES:
            self.is_cut = True
        if self._size_bytes > self._threshold_bytes:
            self._write(is_last=False)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._write(is_last=True)
            os.close(self._descriptor)
            self._descriptor = -1
        self._waiting.clear()

    def notice(self) -> str:
        """One line for the model; empty when there is nothing to report."""
        if not self.path:
            return ""
        part = f"the first {MOST_KEPT_BYTES // 1024 // 1024} MB are" if self.is_cut else "all of it is"
        return f"[{self._size_bytes} bytes of output; {part} in {self.path}: read or grep that]"

    def _write(self, *, is_last: bool) -> None:
        block = b"".join(self._waiting)
        end = len(block) if is_last or len(block) > _LONGEST_LINE_BYTES else block.rfind(b"\n") + 1
        self._waiting = [block[end:]] if end < len(block) else []
        try:
            if self._descriptor < 0:
                self.path, self._descriptor = self._folder.create(self._label)
                self._redactor = self._folder.redactor()
            append_all(self._descriptor, (self._masked(block[:end], is_last=is_last),))
        except OSError:
            self._has_failed = True  # the model then has no file; the output shown is limited anyway
            self._waiting.clear()

    def _masked(self, block: bytes, *, is_last: bool) -> bytes:
        if self._redactor is None:
            return block
        return self._redactor.feed(block) + (self._redactor.flush() if is_last else b"")


def _remove(folder: str) -> None:
    """Remove a folder of stored outputs, which contains only files."""
    with suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def _readable(data: bytes) -> str:
    return data.decode("utf-8", "replace")
