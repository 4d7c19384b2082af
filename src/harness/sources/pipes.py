"""The pipes of one child process: made out of its way, watched together, closed exactly once."""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios

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
        _widen(writer)
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


def _widen(writer: int) -> None:
    """Let more wait in a pipe, where the system allows it: fewer and larger reads when an agent writes much."""
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (AttributeError, OSError):
        pass  # not on Linux, or the user's share of pipe memory is used up


def waiting_bytes(reader: int) -> int:
    """How much can be read before the pipe is empty."""
    counted = fcntl.ioctl(reader, termios.FIONREAD, bytes(4))
    return int.from_bytes(counted, sys.byteorder)
