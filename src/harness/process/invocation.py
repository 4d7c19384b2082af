"""One command to start: what is run, where its program is found, and what is wrong when it cannot start.

`Invocation` is the contract between those who want a program (agents, tools, MCP servers) and `child`, which
starts it. `pack` turns it into the watchdog's request.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from harness.errors import AgentNotFound, HarnessError, InvalidDirectory, SpawnFailed


class StandingWall(Protocol):
    """Around a program that was started."""

    def take_down(self) -> list[str]:
        """After everything behind it has ended. Returns what had to be switched off, as text."""
        ...


class Enclosure(Protocol):
    """What is to be built around a program before it starts; `sandbox.wall.Wall` is one."""

    def build(self, invocation: Invocation) -> tuple[Invocation, StandingWall]:
        """What to start instead. Raises UsageError where it cannot be built."""
        ...


class Invocation(msgspec.Struct, frozen=True):
    """One command, complete: the agent gets this environment and no other."""

    argv: tuple[str, ...]
    """`argv[0]` is a path, or a name that is looked up on the `PATH` of `env`."""
    env: Mapping[str, str]
    cwd: str
    stdin: bytes | None = None
    """Written and then closed. Without it the agent reads end-of-file at once, and never waits."""
    stdin_stays_open: bool = False
    """`Child.write` adds to stdin, until `Child.close_stdin`."""
    confinement: str = ""
    """The policy that `sandbox.rungs` writes and the watchdog enforces. Empty: not confined."""
    wall: Enclosure | None = None
    """What is to be built around it, by the strongest means that work here; it is not started without."""
    dial: Callable[[int], socket.socket] | None = None
    """Connects to a port that the program listens on, in a network of its own; None: it is on the loopback of the system.
    Raises OSError."""


_TOO_MANY_FILES = "Too many files are open; close some, or raise the limit (`ulimit -n`)."
_TOO_MANY_PROCESSES = (
    "Too many processes run, or memory is short; end some, or raise the limit (`ulimit -u`)."
)
_LIMIT_HINTS = {
    errno.EMFILE: _TOO_MANY_FILES,
    errno.ENFILE: _TOO_MANY_FILES,
    errno.EAGAIN: _TOO_MANY_PROCESSES,
    errno.ENOMEM: _TOO_MANY_PROCESSES,
}
_PROGRAM_HINTS = _LIMIT_HINTS | {
    errno.E2BIG: "Its arguments and environment are too long for this system; shorten the prompt.",
    errno.ENOENT: "The interpreter that its first line names is missing; install it.",
    errno.ENOEXEC: "It is neither a program for this machine nor a script with a `#!` line.",
    errno.EACCES: "Check its permissions, and those of the interpreter that its first line names.",
}


def find_program(name: str, env: Mapping[str, str], cwd: str) -> str:
    """The file that `name` means: a path as it is, a bare name as the first match on `PATH`."""
    if "/" in name:
        candidates = [os.path.join(cwd, name)]
    else:
        folders = env.get("PATH", os.defpath).split(os.pathsep)
        candidates = [os.path.join(cwd, folder, name) for folder in folders if folder]
    files = [candidate for candidate in candidates if name and os.path.isfile(candidate)]
    for file in files:
        if os.access(file, os.X_OK):
            return file
    if files:
        raise SpawnFailed(f"{files[0]} is not executable", hint=f"run `chmod +x {files[0]}`")
    where = "" if "/" in name else " on PATH"
    raise AgentNotFound(
        f"program {name!r} was not found{where}", hint="install it, or name the file by its full path"
    )


def pack(invocation: Invocation) -> bytes:
    """The request for the watchdog, checked as far as that is possible without starting anything."""
    cwd = os.path.abspath(invocation.cwd)
    if not os.path.isdir(cwd):
        raise InvalidDirectory(
            f"working directory {invocation.cwd} is not a directory", hint="create it or name another one"
        )
    program = find_program(invocation.argv[0] if invocation.argv else "", invocation.env, cwd)
    for key in invocation.env:
        if not key or "=" in key:
            raise SpawnFailed(
                f"environment variable {key!r} has an impossible name", hint="remove it or rename it"
            )
    entries = [f"{key}={value}" for key, value in invocation.env.items()]
    argv_fields = (str(len(invocation.argv)), *invocation.argv)
    fields = [str(os.getpid()), cwd, program, invocation.confinement, *argv_fields, *entries]
    try:
        encoded = [os.fsencode(field) for field in fields]
    except UnicodeEncodeError as error:
        raise SpawnFailed(
            f"cannot start {program}: {error.object[error.start : error.end]!r} cannot be passed to a program",
            hint="remove it from the arguments and the environment",
        ) from error
    if any(b"\0" in field for field in encoded):
        raise SpawnFailed(
            f"cannot start {program}: an argument or environment variable contains a NUL character",
            hint="remove it; only stdin can carry NUL characters",
        )
    packed = b"\0".join(encoded)
    return len(packed).to_bytes(8, "big") + packed


def start_failure(invocation: Invocation, stage: str, number: int, words: str = "") -> HarnessError:
    """The exception for a start that the system refused, though nothing had seemed to be wrong."""
    reason = words or os.strerror(number)
    if stage == "cwd":
        return InvalidDirectory(
            f"cannot enter working directory {invocation.cwd}: {reason}", hint="check its permissions"
        )
    if stage == "sandbox":
        return SpawnFailed(
            f"cannot confine {invocation.argv[0]}: {reason}",
            hint="it was not started; `harness check --diagnose` says which sandbox works here",
        )
    if stage == "watchdog":
        return SpawnFailed(
            f"cannot start the watchdog for {invocation.argv[0]}: {reason}",
            hint=_LIMIT_HINTS.get(number, f"Check that {sys.executable} runs."),
        )
    return SpawnFailed(
        f"cannot start {invocation.argv[0]}: {reason}",
        hint=_PROGRAM_HINTS.get(number, "Try to run it by hand."),
    )
