"""The pipes of one child process: made out of its way, watched together, closed exactly once."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
from collections import deque

from harness.system.contract import system

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
                written = os.write(self.descriptor, part[:PIPE_BYTES])
                if written < len(part):
                    self._parts[0] = part[written:]
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
    counted = fcntl.ioctl(reader, termios.FIONREAD, bytes(4))
    return int.from_bytes(counted, sys.byteorder)
