"""Start an agent, read what it writes, and stop it: the file that spawns.

    Harness ── requests ──▶ watchdog ──▶ agent ──▶ whatever the agent starts
       ▲ ▲ ◀── reports ────────┘           │
       │ └──────── stdout, stderr ─────────┘

One loop polls every pipe: there is one order of arrival, no thread and no queue. What the caller has not read
stays in the pipe, so the agent waits. The watchdog owns the tree of processes
and alone sends signals, because it alone knows which process ids are still the agent's.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import termios
import threading
import time
from collections import deque
from math import inf
from typing import Literal, NamedTuple, Self, TypeAlias

import msgspec

from harness.errors import SpawnFailed
from harness.process.invocation import Invocation, StandingWall, pack, start_failure
from harness.system.contract import SYSTEM_FILE, system

# The pipes of one child process: made out of its way, watched together, closed exactly once.


LOWEST_DESCRIPTOR = 10
"""A child is given its descriptors as 0, 1, 2, …; ours must not be among the numbers it is given."""

PIPE_BYTES = 1024 * 1024


class Pipes:
    """Every descriptor that is open for the child's sake, and the poll over some of them."""

    def __init__(self) -> None:
        self.poll = select.poll()
        self._open: set[int] = set()

    def new(self) -> tuple[int, int]:
        """A reading and a writing end; neither is inherited by other programs."""
        reader, writer = os.pipe()
        system.widen_pipe(writer, PIPE_BYTES)
        try:
            reader = self.adopt(reader)
        except OSError:
            os.close(writer)
            raise
        return reader, self.adopt(writer)

    def adopt(self, descriptor: int) -> int:
        """Take over an open descriptor, under a new number."""
        try:
            high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR)
        finally:
            os.close(descriptor)
        self._open.add(high)
        return high

    def watch(self, descriptor: int, events: int) -> None:
        os.set_blocking(descriptor, False)
        self.poll.register(descriptor, events)

    def close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            try:
                self.poll.unregister(descriptor)
            except KeyError:
                pass  # not every one is watched
            os.close(descriptor)

    def close_all(self) -> None:
        for descriptor in list(self._open):
            self.close(descriptor)


class Feed:
    """What is written into a pipe by the thread that polls it. Any thread may `add` to it, at any time."""

    def __init__(self, pipes: Pipes, descriptor: int, first: bytes, *, stays_open: bool) -> None:
        self.descriptor = descriptor
        self._pipes = pipes
        self._parts = deque([memoryview(first)] if first else [])
        self._stays_open = stays_open
        pipes.watch(descriptor, select.POLLOUT)

    def add(self, data: bytes) -> None:
        """Contract: the polling thread must `resume` after this."""
        self._parts.append(memoryview(data))

    def end(self) -> None:
        """Close the pipe once everything is written; `resume` is due as well."""
        self._stays_open = False

    def resume(self) -> None:
        """Poll again for what was added."""
        if self.descriptor >= 0 and (self._parts or not self._stays_open):
            self._pipes.poll.modify(self.descriptor, select.POLLOUT)

    def serve(self, events: int) -> None:
        """Write what the pipe takes. That its reader has gone is no error."""
        if events & (select.POLLERR | select.POLLHUP):  # which one depends on the system
            self._close()
            return
        try:
            while self._parts:
                part = self._parts[0]
                count = os.write(self.descriptor, part[:PIPE_BYTES])
                if count < len(part):
                    self._parts[0] = part[count:]
                    return
                self._parts.popleft()
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._close()
            return
        if self._stays_open:
            self._pipes.poll.modify(self.descriptor, 0)
        else:
            self._close()

    def _close(self) -> None:
        self._parts.clear()
        self._pipes.close(self.descriptor)
        self.descriptor = -1


def waiting_bytes(reader: int) -> int:
    """How much can be read before the pipe is empty."""
    answer = fcntl.ioctl(reader, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


StreamName: TypeAlias = Literal["stdout", "stderr"]

READ_BYTES = 1024 * 1024

_WATCHDOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "watchdog.py")
_RUN_COMPILED = (  # a program that is named on the command line is compiled anew each time
    "import sys; from importlib.machinery import SourceFileLoader; __file__ = sys.argv[1];"
    "exec(SourceFileLoader('__main__', __file__).get_code('__main__'))"
)
_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH")
_LADDER = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_KILL_RUNG = len(_LADDER) - 1
_BLOCKED_IN_WATCHDOG = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class OutputChunk(NamedTuple):
    """Bytes as they came: neither lines nor characters are whole."""

    stream: StreamName
    data: bytes


class ChildTimeouts(NamedTuple):
    """How long each step may take before the next one is taken; first the ladder, rung by rung."""

    interrupt_s: float = 3.0
    terminate_s: float = 2.0
    kill_s: float = 5.0
    """For the watchdog to say that the tree is empty; after that it is killed itself."""
    leftovers_s: float = 0.5
    """For what an agent left behind to end by itself once the agent has."""
    start_s: float = 30.0


DEFAULT_TIMEOUTS = ChildTimeouts()


class ChildExit(msgspec.Struct, frozen=True):
    """How the agent ended. Neither code nor signal: unseen, for the watchdog itself was killed."""

    code: int | None
    signal: int | None
    survivors: int = 0
    """Processes that outlived the agent and had to be killed."""
    tree_empty: bool = True
    """False if something could not be killed, or the watchdog itself was killed."""
    refused: tuple[str, ...] = ()
    """What it left behind its wall and had to be switched off, as text."""


class Child:
    """One agent, from its start to its proven end.

    Contract: `read` and `close` belong to one thread; `wake`, `write`, `stop` and `kill` may
    come from any thread and any signal handler, at any time. `read` does all the work (feeds stdin,
    climbs the ladder, collects the end), so call it until `exit` is set. SIGPIPE must be ignored
    in this process, as it is in every Python program that did not change it.
    """

    def __init__(self, invocation: Invocation, timeouts: ChildTimeouts = DEFAULT_TIMEOUTS) -> None:
        self.exit: ChildExit | None = None
        self.pid: int = 0
        self._timeouts = timeouts
        self._asked_signals: deque[signal.Signals] = deque()
        self._lock = threading.RLock()  # re-entrant: a signal handler may interrupt its own thread
        self._pipes = Pipes()
        self._streams: dict[int, StreamName] = {}
        self._owed_bytes: dict[int, int] = {}
        self._feed: Feed | None = None
        self._buffer = memoryview(bytearray(READ_BYTES))
        """What is read goes here first: to use memory again costs less than to ask for new memory each time."""
        self._requests = self._reports = self._wake_reader = self._wake_writer = -1
        self._report = b""
        self._status: int | None = None
        self._survivors = 0
        self._tree_empty: bool | None = None
        self._rung = -1
        self._rung_ends = inf
        self._watchdog = 0
        self._wall: StandingWall | None = None
        if invocation.wall is not None:
            invocation, self._wall = invocation.wall.build(invocation)
        try:
            request = pack(invocation)
            self._launch(invocation)
            self._await_start(invocation, request)
        except BaseException as error:
            self._abort()
            if isinstance(error, OSError):
                raise start_failure(invocation, "watchdog", error.errno or 0) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stdout_open(self) -> bool:
        """False once the agent has closed its output, which may be long before it ends."""
        return "stdout" in self._streams.values()

    def read(self, timeout_s: float | None = None) -> list[OutputChunk]:
        """Wait for output. Empty: the end, the timeout, a `wake`, or stdout was closed."""
        give_up_at = inf if timeout_s is None else time.monotonic() + timeout_s
        while self.exit is None:
            stdout_was_open = self.stdout_open
            now = self._climb()
            wait_s = min(give_up_at, self._rung_ends) - now
            ready = self._pipes.poll.poll(None if wait_s == inf else max(0, int(wait_s * 1000) + 1))
            chunks, woken = self._serve(ready)
            if self._reports < 0 and not self._streams:
                self._finish()
            if chunks or woken or stdout_was_open != self.stdout_open or time.monotonic() >= give_up_at:
                return chunks
        return []

    def wake(self) -> None:
        """Make the waiting `read`, or else the next one, return at once."""
        with self._lock:
            if self._wake_writer >= 0:
                try:
                    os.write(self._wake_writer, b"\0")
                except BlockingIOError:
                    return  # there are plenty of wakes in it

    def write(self, data: bytes) -> None:
        """Add to a stdin that stays open. From any thread; dropped once stdin has no reader any more."""
        assert self._feed is not None, "the child was started without a stdin"
        self._feed.add(data)
        self.wake()

    def close_stdin(self) -> None:
        """Let the agent read end-of-file once it has read everything. From any thread."""
        assert self._feed is not None, "the child was started without a stdin"
        self._feed.end()
        self.wake()

    def stop(self) -> None:
        """Begin the ladder SIGINT, SIGTERM, SIGKILL of the whole tree; each further call skips a wait."""
        self._asked_signals.append(signal.SIGINT)
        self.wake()

    def kill(self) -> None:
        """Go to the end of the ladder."""
        self._asked_signals.append(signal.SIGKILL)
        self.wake()

    def pause(self) -> None:
        """Stop the agent where it is, until `resume`; what it has started continues. In the thread of `read`."""
        if self._rung < 0:
            self._send(bytes([signal.SIGSTOP]))

    def resume(self) -> None:
        """In the thread of `read`."""
        self._send(bytes([signal.SIGCONT]))

    def close(self) -> None:
        """Kill what still runs, and close everything."""
        if self.exit is None:
            for descriptor in list(self._streams):
                self._close_stream(descriptor)
            self.kill()
            while self.exit is None:
                self.read(None)

    # Start

    def _launch(self, invocation: Invocation) -> None:
        pipes = self._pipes
        self._wake_reader, self._wake_writer = pipes.new()
        if invocation.stdin is None and not invocation.stdin_stays_open:
            stdin = pipes.adopt(os.open(os.devnull, os.O_RDONLY))
        else:
            stdin, feed = pipes.new()
            self._feed = Feed(pipes, feed, invocation.stdin or b"", stays_open=invocation.stdin_stays_open)
        stdout_reader, stdout = pipes.new()
        stderr_reader, stderr = pipes.new()
        requests, self._requests = pipes.new()
        self._reports, reports = pipes.new()
        self._streams = {stdout_reader: "stdout", stderr_reader: "stderr"}
        descriptors = (stdin, stdout, stderr, requests, reports)
        self._watchdog = _spawn_watchdog(descriptors)
        for descriptor in descriptors:
            pipes.close(descriptor)
        for descriptor in (*self._streams, self._reports, self._wake_reader):
            pipes.watch(descriptor, select.POLLIN)
        for descriptor in (self._requests, self._wake_writer):
            os.set_blocking(descriptor, False)

    def _await_start(self, invocation: Invocation, request: bytes) -> None:
        """Say what to start, and wait until it has started or failed to."""
        unsent = memoryview(request)
        poll = select.poll()
        poll.register(self._reports, select.POLLIN)
        poll.register(self._requests, select.POLLOUT)
        deadline = time.monotonic() + self._timeouts.start_s
        while b"\n" not in self._report:
            ready = dict(poll.poll(_milliseconds_until(deadline)))
            part = os.read(self._reports, 4096) if self._reports in ready else b""
            self._report += part
            if not part and (not ready or self._reports in ready):
                raise SpawnFailed(
                    f"cannot start the watchdog for {invocation.argv[0]}{self._last_error()}",
                    hint=f"check that {sys.executable} runs",
                )
            if self._requests in ready:
                unsent = unsent[self._send(unsent[:READ_BYTES]) :]
                if not unsent or ready[self._requests] & select.POLLERR:
                    poll.unregister(self._requests)
        line, _, self._report = self._report.partition(b"\n")
        word, *details = line.decode(errors="replace").split()
        if word == "failed":
            raise start_failure(invocation, details[0], int(details[1]), " ".join(details[2:]))
        self.pid = int(details[0])
        self._take_report(b"")  # its end may have come along with its start

    def _last_error(self) -> str:
        descriptor = next(fd for fd, name in self._streams.items() if name == "stderr")
        try:
            text = os.read(descriptor, 4096).decode(errors="replace").strip()
        except BlockingIOError:
            return ""
        return f": {text.rpartition(chr(10))[2]}" if text else ""

    def _abort(self) -> None:
        """The start failed, perhaps after the agent's own: without requests the watchdog kills and ends."""
        self.exit = ChildExit(code=None, signal=None)
        if self._watchdog:
            self._pipes.close(self._requests)
            deadline = time.monotonic() + self._timeouts.kill_s
            poll = select.poll()
            poll.register(self._reports, select.POLLIN)
            while poll.poll(_milliseconds_until(deadline)) and os.read(self._reports, 4096):
                pass
            self._kill_watchdog()
            self._reap_watchdog()
        self._take_down_wall()
        self._close_all()

    # Work

    def _climb(self) -> float:
        """Take the rungs of the ladder that were asked for or are due. Returns the time."""
        now = time.monotonic()
        while self._asked_signals or now >= self._rung_ends:
            if self._asked_signals and self._asked_signals.popleft() == signal.SIGKILL:
                self._rung = max(self._rung, _KILL_RUNG - 1)
            if self._rung < _KILL_RUNG:
                self._rung += 1
                self._send(bytes([_LADDER[self._rung]]))
                self._rung_ends = now + self._timeouts[self._rung]
            elif now >= self._rung_ends:
                self._rung_ends = inf
                self._kill_watchdog()
        return now

    def _send(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self._requests, data)
        except (BrokenPipeError, BlockingIOError):
            return 0  # a watchdog that has gone shows as the end of its reports

    def _serve(self, ready: list[tuple[int, int]]) -> tuple[list[OutputChunk], bool]:
        chunks: list[OutputChunk] = []
        woken = False
        for descriptor, events in ready:
            if descriptor in self._streams:
                self._take_output(descriptor, chunks)
            elif self._feed is not None and descriptor == self._feed.descriptor:
                self._feed.serve(events)
            elif descriptor == self._reports:
                self._take_reports()
            elif descriptor == self._wake_reader:
                os.read(descriptor, 4096)
                woken = True
                if self._feed is not None:
                    self._feed.resume()
        return chunks, woken

    def _take_output(self, descriptor: int, chunks: list[OutputChunk]) -> None:
        owed_bytes = self._owed_bytes.get(descriptor, inf)
        try:
            count = os.readv(descriptor, [self._buffer[: int(min(READ_BYTES, owed_bytes))]])
        except BlockingIOError:
            return
        data = bytes(self._buffer[:count])
        if data:
            chunks.append(OutputChunk(self._streams[descriptor], data))
        if descriptor in self._owed_bytes:
            self._owed_bytes[descriptor] -= len(data)
        if not data or len(data) == owed_bytes:
            self._close_stream(descriptor)

    def _take_reports(self) -> None:
        part = os.read(self._reports, 4096)
        self._take_report(part)
        if not part:
            self._pipes.close(self._reports)
            self._reports = -1
            self._after_watchdog()

    def _take_report(self, part: bytes) -> None:
        *lines, self._report = (self._report + part).split(b"\n")
        for line in lines:
            word, _, number = line.decode().partition(" ")
            if word == "exit":
                self._status = int(number)
                if self._rung < _KILL_RUNG:
                    self._rung = _KILL_RUNG - 1
                    self._rung_ends = time.monotonic() + self._timeouts.leftovers_s
            else:
                self._tree_empty = word == "empty"
                self._survivors = int(number)

    def _after_watchdog(self) -> None:
        """The watchdog has ended: nothing of the tree writes any more, what is in the pipes is all."""
        if self._tree_empty is None and self._status is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)  # the watchdog was killed; do what can be done
            except OSError:
                pass
        self._rung_ends = inf
        for descriptor in list(self._streams):
            self._owed_bytes[descriptor] = waiting_bytes(descriptor)
            if not self._owed_bytes[descriptor]:
                self._close_stream(descriptor)

    def _finish(self) -> None:
        self._reap_watchdog()
        self._close_all()
        exit_code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        self.exit = ChildExit(
            code=exit_code if exit_code is not None and exit_code >= 0 else None,
            signal=-exit_code if exit_code is not None and exit_code < 0 else None,
            survivors=self._survivors,
            tree_empty=bool(self._tree_empty),
            refused=tuple(self._take_down_wall()),
        )

    def _take_down_wall(self) -> list[str]:
        wall, self._wall = self._wall, None
        return wall.take_down() if wall is not None else []

    def _kill_watchdog(self) -> None:
        try:
            os.kill(self._watchdog, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _reap_watchdog(self) -> None:
        try:
            os.waitpid(self._watchdog, 0)
        except ChildProcessError:
            return  # another part of this program waits for every child

    def _close_stream(self, descriptor: int) -> None:
        del self._streams[descriptor]
        self._pipes.close(descriptor)

    def _close_all(self) -> None:
        with self._lock:  # as soon as a descriptor is closed its number may be used again
            self._wake_writer = -1
            self._pipes.close_all()


def _milliseconds_until(deadline: float) -> int:
    return max(0, int((deadline - time.monotonic()) * 1000) + 1)


def _spawn_watchdog(descriptors: tuple[int, ...]) -> int:
    """Start it in a session of its own, where no terminal's Ctrl-C reaches it."""
    program = sys.executable
    argv = [program, "-I", "-S", "-c", _RUN_COMPILED, _WATCHDOG, SYSTEM_FILE]
    env = {name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ}
    actions = [(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(descriptors)]
    blocked = _BLOCKED_IN_WATCHDOG
    try:
        return os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigmask=blocked)
    except NotImplementedError:  # setsid is newer than posix_spawn itself
        return os.posix_spawn(program, argv, env, file_actions=actions, setpgroup=0, setsigmask=blocked)
