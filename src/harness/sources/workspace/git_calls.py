"""Calls of git that run nothing that a repository brings with it.

A repository can name programs in its configuration and have them run by ordinary commands: hooks, filters, external
diffs, a file system monitor, the transports of remotes. So git is asked for objects and for the index only, never to
look at the files of the working tree; what could run is switched off besides, and the environment is our own. What is
in the working tree is read by Harness itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from harness.errors import HarnessError
from harness.sources.process.child import Child, ChildTimeouts
from harness.sources.process.invocation import Invocation

_TIMEOUT_S = 20.0
_MOST_BYTES = 64 * 1024 * 1024
_TIMEOUTS = ChildTimeouts(interrupt_s=0.2, terminate_s=0.5, kill_s=2.0)
_PASSED_ON = ("PATH", "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "TMPDIR", "SYSTEMROOT")
_OFF = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.gitProxy": "",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "core.quotePath": "false",
    "core.autocrlf": "false",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "submodule.recurse": "false",
    "protocol.allow": "never",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
}
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
}
"""No protocol is allowed: a repository with missing objects would fetch them, by programs that it names."""
SAFE_OPTIONS: tuple[str, ...] = tuple(
    part for name, value in _OFF.items() for part in ("-c", f"{name}={value}")
)
"""Of every call of git, before its command; with `safe_environment`."""
_OWN_SCOPES = ("local", "worktree")


class GitFailed(HarnessError):
    """Git refused, took too long, or is not installed."""


def safe_environment() -> dict[str, str]:
    """All of the environment that git gets."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _ENVIRONMENT


class GitCalls:
    """Contract: `folder` has a `.git`; only that repository is used, with that folder as its working tree."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def ask(self, *arguments: str, stdin: bytes | None = None, index: str = "") -> bytes:
        """What git prints. `index`: another index than the user's. Raises GitFailed."""
        argv = ("git", "--no-pager", f"--work-tree={self.folder}", *SAFE_OPTIONS, *arguments)
        env = safe_environment()
        # Git must not look above the folder, where another repository may be.
        env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(self.folder)
        if index:
            env["GIT_INDEX_FILE"] = index
        return self._run(argv, env, stdin, arguments[0])

    def own_filters(self) -> list[str]:
        """Settings of the repository itself that name programs to run when files are checked out."""
        question = ("--show-scope", "--name-only", "--get-regexp", r"^filter\..*\.(smudge|process)$")
        try:
            listed = self.ask("config", "-z", *question)
        except GitFailed:
            return []  # there is none
        fields = [os.fsdecode(word) for word in listed.split(b"\0")]
        return [name for scope, name in zip(fields[::2], fields[1::2], strict=False) if scope in _OWN_SCOPES]

    def _run(self, argv: tuple[str, ...], env: Mapping[str, str], stdin: bytes | None, name: str) -> bytes:
        output: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        size = 0
        deadline = time.monotonic() + _TIMEOUT_S
        try:
            child = Child(Invocation(argv=argv, env=env, cwd=self.folder, stdin=stdin), _TIMEOUTS)
        except (HarnessError, OSError) as error:
            raise GitFailed(f"git does not start: {error}") from error
        with child:
            while child.exit is None:
                chunks = child.read(max(0.0, deadline - time.monotonic()))
                for chunk in chunks:
                    output[chunk.stream].append(chunk.data)
                    size += len(chunk.data)
                if size > _MOST_BYTES or time.monotonic() >= deadline:
                    child.kill()
        if size > _MOST_BYTES:
            raise GitFailed(f"git {name} printed more than {_MOST_BYTES // 1024 // 1024} MB")
        if child.exit.code != 0:
            lines = b"".join(output["stderr"]).decode("utf-8", "replace").strip().split("\n")
            late = time.monotonic() >= deadline
            reason = f"took longer than {_TIMEOUT_S:.0f} s" if late else lines[-1][:300] or "failed"
            raise GitFailed(f"git {name}: {reason}")
        return b"".join(output["stdout"])
