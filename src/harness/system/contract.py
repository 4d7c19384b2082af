"""What Harness asks of the system it runs on, and the choice between its two implementations."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import socket


class DirectoryWatch(Protocol):
    """Reports which files of a folder changed since it was last asked, whichever process changed them."""

    def changed(self) -> set[str] | None:
        """The names of files; None when changes were missed: then everything may have changed."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Whether there is something to ask for, within that time."""
        ...

    def close(self) -> None: ...


class System(Protocol):
    """A module with these functions. On Linux all of them hold; `posix` says what is weaker elsewhere."""

    name: str
    """Of the module: `linux` or `posix`."""
    can_confine: bool
    """Whether `system.confinement` can be used: Landlock, seccomp, bubblewrap."""
    traverse_only: int
    """The flag for opening a folder that is only passed through; reading it may be forbidden."""

    # Processes

    def adopt_orphans(self) -> bool:
        """Become the parent of every descendant whose own parent ends. False: not possible."""
        ...

    def descendants(self) -> tuple[set[int], set[int]]:
        """Every living process below this one, and the process groups of all of them but our own."""
        ...

    def watch_process(self, pid: int) -> int | None:
        """A descriptor that becomes readable when that process ends. None: not possible."""
        ...

    def process_usage(self, pid: int) -> tuple[float, int]:
        """Processor time in seconds and resident memory in KB, both 0 where they are not known."""
        ...

    def ancestors(self, most: int) -> list[list[bytes]]:
        """The command lines of this process' parents, the nearest first; none where the system does not show them."""
        ...

    def inherited_variable(self, name: str, most: int) -> str:
        """What the nearest of this process' parents was started with; empty: nothing, or the system does not show it."""
        ...

    def process_start(self, pid: int) -> str:
        """When that process began, in the system's own count: differs for another process of the same number.

        Empty: not known.
        """
        ...

    def processes_in(self, folder: str) -> list[tuple[int, str]]:
        """Processes whose working directory is in this folder, each with its command line; empty: not known."""
        ...

    def peer(self, connection: socket.socket) -> tuple[int, int] | None:
        """The process and the user at the other end of a local socket. None: not known."""
        ...

    # Secrets of this process

    def refuse_inspection(self) -> bool:
        """Keep other programs of the same user from reading this process's memory and environment."""
        ...

    def wipe_environment(self, secrets_of: Callable[[Mapping[str, str]], Collection[str]]) -> None:
        """Remove secrets from what the system shows as this process's environment; `os.environ` keeps them.

        `secrets_of`: the environment at the start → the names whose values are secret. Never raises.
        """
        ...

    # Files and pipes

    def widen_pipe(self, writer: int, size: int) -> None:
        """Let more wait in a pipe: fewer and larger reads. Never raises."""
        ...

    def lock_holder(self, descriptor: int) -> int | None:
        """The process that holds a file's lock. None: not known."""
        ...

    def locked_inodes(self) -> frozenset[int]:
        """The files that any process has locked, by their inodes; empty where that is not known."""
        ...

    def descriptor_path(self, descriptor: int) -> str:
        """A short path of what is open, for calls that take no long one. Empty: there is none."""
        ...

    def change_mode(self, folder: int, mode: int) -> None:
        """Change the mode of a folder that was opened with `traverse_only`. Raises OSError."""
        ...

    def watch_directory(self, path: str) -> DirectoryWatch:
        """Raises OSError where a folder cannot be watched: then it must be read again."""
        ...

    # Network

    def enter_own_network(self) -> str:
        """Leave the network for one with a loopback only. Empty when it worked, else the reason it did not.

        Must be called while there is one thread only.
        """
        ...


def _choose() -> System:
    if sys.platform == "linux" and os.environ.get("HARNESS_SYSTEM") != "posix":
        from harness.system import linux

        return linux
    from harness.system import posix

    return posix


system = _choose()
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of Harness itself."""
SYSTEM_FILE = os.path.join(PACKAGE, "system", f"{system.name}.py")
"""By which the watchdog loads the same module."""
