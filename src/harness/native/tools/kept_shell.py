"""What a command line leaves to the next one: the directory it has gone to, and the variables it has exported.

Each line runs in a shell of its own, so that none can hang or spoil the next; at its end that shell tells both through
the pipe of its errors, behind a mark that nobody can know before. Only bash is asked: other shells have no descriptor that
is out of the way of scripts.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from harness.contracts.tool import Resource
from harness.process.child import StreamName

_DESCRIPTOR = 198
"""Where the shell tells it: scripts count from 3, and locks are often 9 or 200."""
_MOST_BYTES = 256 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_THE_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "PS1", "PS2", "SHELLOPTS", "BASHOPTS"})
"""Set, or dropped where nobody types, by the shell itself: a line that changes none of them has other ones at its end."""
_OF_THE_WALL = frozenset({"TMPDIR", "TMP", "TEMP"})
"""A confined command has a temporary folder of its own, which is gone with it."""
_NOT_KEPT = _OF_THE_SHELL | _OF_THE_WALL


class KeptShell(Resource):
    """The state of the shell of one conversation; a sub-agent has one of its own."""

    def __init__(self) -> None:
        self.cwd = ""
        """Where the next line begins; empty: in the folder of the workspace."""
        self._changes: dict[str, str | None] = {}
        """Variable → its value, or None where it was unset."""
        self._key = secrets.token_bytes(16)

    def place(self) -> str:
        """Where the next line begins: a folder that is gone is left."""
        if not os.path.isdir(self.cwd):
            self.cwd = ""
        return self.cwd

    @property
    def environment(self) -> str:
        """The names of the variables that earlier lines have changed, with a word that stands for their values.

        The values themselves may be secrets, and are shown nowhere. Empty: none was changed.
        """
        if not self._changes:
            return ""
        text = repr(sorted(self._changes.items())).encode("utf-8", "surrogateescape")
        return f"{' '.join(sorted(self._changes))} ({hashlib.blake2b(text, key=self._key, digest_size=4).hexdigest()})"

    def around(self, env: Mapping[str, str]) -> dict[str, str]:
        """An environment with what earlier lines have changed."""
        changed = {**env, **self._changes}
        return {name: value for name, value in changed.items() if value is not None}

    def keep(self, state_told: Mapping[str, str], env: Mapping[str, str]) -> None:
        """`state_told`: the variables at the end of a line; `env`: those that the first line was given."""
        after = {name: value for name, value in state_told.items() if name not in _NOT_KEPT}
        before = {
            name: value for name, value in env.items() if name not in _NOT_KEPT and _NAME.fullmatch(name)
        }  # of other names a shell tells nothing
        lost_names: dict[str, str | None] = dict.fromkeys(name for name in before if name not in after)
        self._changes = lost_names | {
            name: value for name, value in after.items() if before.get(name) != value
        }

    def kill(self) -> None:
        """Nothing runs between two lines."""

    async def ended(self) -> None:
        """Nothing runs between two lines."""


class ToldState(NamedTuple):
    """What a shell has told at its end."""

    cwd: str
    env: dict[str, str]


class ShellEnd:
    """Has one shell tell its state at its end, and takes what it tells out of the output."""

    def __init__(self) -> None:
        self._name = secrets.token_hex(12)
        self._mark = b"\0%s\0" % self._name.encode()
        self._held_bytes = b""
        """The end of the output so far, when it may be the beginning of the mark."""
        self._told_bytes = bytearray()

    def script(self, command: str) -> str:
        """Within `eval`, errors name and quote the lines of the command as it was written, and no others.

        With `-p`, `env` and `wc` are those of the system: one that lies in the folder must not run for a line that reads.
        A PATH without an `env` is not kept: no later line would find anything.
        """
        size = '"$(builtin command -p env -0 | builtin command -p wc -c)"'
        tell = (
            f'{{ builtin printf "\\0%s\\0%s\\0%s\\0" {self._name} {size} "$(builtin pwd -P)";'
            " builtin command -p env -0; }"
            f" >&{_DESCRIPTOR}"
        )
        tell = f"set +x; builtin type -P env >/dev/null && {tell}"
        return f"exec {_DESCRIPTOR}>&2; trap '{{ {tell}; }} 2>/dev/null' EXIT; eval -- {_quoted(command)}"

    def output(self, stream: StreamName, data: bytes) -> bytes:
        """The part of it that is the command's own."""
        if stream != "stderr":
            return data
        if self._told_bytes:
            self._tell(data)
            return b""
        data, self._held_bytes = self._held_bytes + data, b""
        before, mark, told_data = data.partition(self._mark)
        if mark:
            self._tell(mark + told_data)
            return before
        start = data.rfind(b"\0", max(0, len(data) - len(self._mark) + 1))
        while start >= 0:
            if self._mark.startswith(data[start:]):
                self._held_bytes = data[start:]
                return data[:start]
            start = data.rfind(b"\0", max(0, len(data) - len(self._mark) + 1), start)
        return data

    def rest(self) -> bytes:
        """What was held back, and is output after all."""
        data_held, self._held_bytes = self._held_bytes, b""
        return data_held

    def state(self) -> ToldState | None:
        """None: it has told nothing, or something else wrote in between."""
        parts = bytes(self._told_bytes).removeprefix(self._mark).split(b"\0", 2)
        if len(parts) < 3:
            return None
        size, cwd, rest = parts
        with suppress(ValueError):
            env = rest[: int(size)]
            if len(env) == int(size) and env.endswith(b"\0") and cwd.startswith(b"/"):
                return ToldState(os.fsdecode(cwd), _variables(env))
        return None

    def _tell(self, data: bytes) -> None:
        self._told_bytes += data[: max(0, _MOST_BYTES - len(self._told_bytes))]


def _quoted(command: str) -> str:
    """In one line, since a shell counts the lines of a quotation."""
    escaped = command.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"$'{escaped}'"


def _variables(env: bytes) -> dict[str, str]:
    """Exported functions are left out: under the name of a program they would stand in for it."""
    pairs = (os.fsdecode(entry).partition("=") for entry in env.split(b"\0"))
    return {name: value for name, _, value in pairs if _NAME.fullmatch(name)}
