"""How an agent's program is to be started: an agent's file says it, `process` does it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Invocation(msgspec.Struct, frozen=True):
    """One command, complete: the agent gets this environment and no other."""

    argv: tuple[str, ...]
    """`argv[0]` is a path, or a name that is looked up on the `PATH` of `env`."""
    env: Mapping[str, str]
    cwd: str
    stdin: bytes | None = None
    """Written and then closed. Without it the agent reads end-of-file at once, and waits for nobody."""
    stdin_stays_open: bool = False
    """`Child.write` adds to stdin, until `Child.close_stdin`."""
    confinement: str = ""
    """What the program may do at most, as `sandbox` writes it and `confinement` reads it. Empty: everything."""
