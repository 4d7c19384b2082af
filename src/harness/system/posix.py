"""What any POSIX system can do: the fallback for macOS and others. Each function says what it does not promise.

Loaded by path in the watchdog, so it imports little and nothing of Harness.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Mapping
    from typing import NoReturn

name = "posix"
can_confine = False
"""No sandbox: a run that asks for one is refused, and so is a REPL that is to be confined."""
traverse_only = os.O_RDONLY
"""A folder without the right to read it cannot be passed through."""


def adopt_orphans() -> bool:
    """Not possible: a process that leaves the agent's process group outlives a stop unless it ends by itself."""
    return False


def descendants() -> tuple[set[int], set[int]]:
    """Not known: the agent's process group is all that can be killed, and survivors are not counted."""
    return set(), set()


def watch_process(pid: int) -> int | None:
    """Not possible: the watchdog looks once a second whether its parent is still there."""
    del pid
    return None


def process_usage(pid: int) -> tuple[float, int]:
    """Not known."""
    del pid
    return 0.0, 0


def ancestors(most: int) -> list[list[bytes]]:
    """Not known: a server of ours below another one is known by its environment alone."""
    del most
    return []


def inherited_variable(name: str, most: int) -> str:
    """Not known: what a program does not pass on is lost."""
    del name, most
    return ""


def process_start(pid: int) -> str:
    """Not known: a process that has the number of an ended one is taken for it."""
    del pid
    return ""


def processes_in(folder: str) -> list[tuple[int, str]]:
    """Not known: the doctor does not see what an agent has left behind."""
    del folder
    return []


def peer(connection: socket.socket) -> tuple[int, int] | None:
    """Not known: a socket is protected by the folder that it is in alone."""
    del connection
    return None  # the contract's None: not known


def refuse_inspection() -> bool:
    """Not possible: what the system lets other programs of the same user read, they can read."""
    return False


def wipe_environment(secrets_of: Callable[[Mapping[str, str]], Collection[str]]) -> None:
    """Not possible: the environment at the start stays visible to programs of the same user."""
    del secrets_of


def widen_pipe(writer: int, size: int) -> None:
    """Not possible: an agent that writes much takes more reads."""
    del writer, size


def lock_holder(descriptor: int) -> int | None:
    """Not known: that a log is locked is reported without the process that locks it."""
    del descriptor
    return None  # the contract's None: not known


def locked_inodes() -> frozenset[int]:
    """Not known: whether a program still writes a file is decided by other signs."""
    return frozenset()


def descriptor_path(descriptor: int) -> str:
    """None: what needs a short path fails below a folder whose path is too long."""
    del descriptor
    return ""


def change_mode(folder: int, mode: int) -> None:
    os.fchmod(folder, mode)


def watch_directory(path: str) -> NoReturn:
    """Not possible: the index reads the folder again for every query."""
    raise OSError(f"changes in {path} are not reported on this system")


def enter_own_network() -> str:
    """Not possible: the doctor examines agents with the network they have."""
    return "only Linux has network namespaces"
