"""Start a program that outlives this process: a worker of Harness itself, which ends its own programs.

Everything else is started by `child`, whose watchdog ends it together with this process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from harness.errors import SpawnFailed
from harness.log.private_files import open_private


class DetachedProcess:
    """Contract: `code` is called until it is not None; then the process is gone, and its id is not used again."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], output: str) -> None:
        """`output`: the file that its output is appended to. Raises SpawnFailed."""
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        ]
        try:
            fd = open_private(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise SpawnFailed(f"cannot write {output}: {error.strerror}") from error
        actions += [(os.POSIX_SPAWN_DUP2, fd, 1), (os.POSIX_SPAWN_DUP2, fd, 2)]
        try:
            self.pid = os.posix_spawn(argv[0], list(argv), env, file_actions=actions, setsid=True)
        except OSError as error:
            raise SpawnFailed(f"cannot start {argv[0]}: {error.strerror}") from error
        finally:
            os.close(fd)
        self._code: int | None = None

    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def signal(self, number: int) -> None:
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
