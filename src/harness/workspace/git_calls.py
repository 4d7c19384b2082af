"""Every call of git that Harness makes itself: none runs anything that a repository brings with it.

A repository can name programs in its configuration and have them run by ordinary commands: hooks, filters, external
diffs, a file system monitor, the transports of remotes. So git is asked for objects and for the index only, never to
look at the files of the working tree; what could run is switched off besides, and the environment is our own. What is
in the working tree is read by Harness itself.

What has to read or write files of a working tree (`checkout.py`) uses a Git folder of ours instead of the
repository's, so that no configuration but ours is read: which names a repository can give to a filter is for it to
choose, and an included file can give others in a worktree than in the repository.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from harness.errors import HarnessError
from harness.process.child import Child, ChildTimeouts
from harness.process.invocation import Invocation

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
_FIRES_HOOKS = frozenset({"branch", "read-tree", "symbolic-ref", "update-index", "update-ref", "worktree"})
"""From Git 2.54 on, configured hooks (`hook.NAME.command`) run whatever `core.hooksPath` is."""
_BLANK_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n"
_SHA256_CONFIG = "[extensions]\n\tobjectformat = sha256\n"


NO_USER_SETTINGS: Mapping[str, str] = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


class GitFailed(HarnessError):
    """Git refused, took too long, or is not installed."""


def safe_environment() -> dict[str, str]:
    """All of the environment that git gets."""
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _ENVIRONMENT
    if "PATH" in env:
        # A relative entry would find a `git` in the folder that is looked at.
        env["PATH"] = os.pathsep.join(
            entry for entry in env["PATH"].split(os.pathsep) if os.path.isabs(entry)
        )
    return env


class GitCalls:
    """Contract: `folder` has a `.git`; only that repository is used, with that folder as its working tree.

    With `git_directory`, that is the repository instead, and `objects` are its objects (`blank_git` makes one).
    """

    def __init__(
        self, folder: str, *, git_directory: str = "", objects: str = "", timeout_s: float = _TIMEOUT_S
    ) -> None:
        self.folder = folder
        self._timeout_s = timeout_s
        self._place: dict[str, str] = {}
        if git_directory:
            self._place = {"GIT_DIR": git_directory, **NO_USER_SETTINGS}
        if objects:
            self._place["GIT_OBJECT_DIRECTORY"] = objects

    def ask(self, *arguments: str, stdin: bytes | None = None, index: str = "") -> bytes:
        """What git prints. `index`: another index than the user's. Raises GitFailed."""
        argv = ("git", "--no-pager", f"--work-tree={self.folder}", *SAFE_OPTIONS, *arguments)
        env = safe_environment() | self._place
        # Git must not look above the folder, where another repository may be.
        env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(self.folder)
        if arguments[0] in _FIRES_HOOKS and not self._place:
            env |= _settings([(f"{hook}.enabled", "false") for hook in self._configured_hooks()])
        if index:
            env["GIT_INDEX_FILE"] = index
        return self._run(argv, env, stdin, arguments[0])

    def _configured_hooks(self) -> list[str]:
        """`hook.NAME` of each hook that the settings define, wherever they are."""
        try:
            answer = self.ask("config", "-z", "--name-only", "--get-regexp", r"^hook\..*\.(command|event)$")
        except GitFailed:
            return []  # there is none
        names = (os.fsdecode(name) for name in answer.split(b"\0") if name)
        return [*dict.fromkeys(name.rpartition(".")[0] for name in names)]

    def _run(self, argv: tuple[str, ...], env: Mapping[str, str], stdin: bytes | None, name: str) -> bytes:
        output: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        size = 0
        deadline = time.monotonic() + self._timeout_s
        try:
            child = Child(Invocation(argv=argv, env=env, cwd=self.folder, stdin=stdin), _TIMEOUTS)
        except (HarnessError, OSError) as error:
            raise GitFailed(f"git does not start: {getattr(error, 'strerror', None) or error}") from error
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
            reason = f"took longer than {self._timeout_s:.0f} s" if late else lines[-1][:300] or "failed"
            raise GitFailed(f"git {name}: {reason}")
        return b"".join(output["stdout"])


@contextmanager
def blank_git(
    folder: str, *, objects: str = "", object_format: str = "sha1", timeout_s: float = _TIMEOUT_S
) -> Iterator[GitCalls]:
    """Git on the files of a folder, with a repository of ours: nobody's configuration is read, no filter is known.

    `objects`: the folder of the objects of another repository, which are only read.
    """
    with tempfile.TemporaryDirectory(prefix="harness-git-") as place:
        for name in ("refs", "objects"):
            os.mkdir(os.path.join(place, name))
        is_sha256 = object_format == "sha256"
        config = _BLANK_CONFIG.format(version=int(is_sha256)) + (_SHA256_CONFIG if is_sha256 else "")
        for name, text in (("HEAD", "ref: refs/heads/main\n"), ("config", config)):
            with open(os.path.join(place, name), "w", encoding="utf-8") as file:
                file.write(text)
        yield GitCalls(folder, git_directory=place, objects=objects, timeout_s=timeout_s)


def _settings(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Settings as variables: unlike in `-c`, a name may contain `=`."""
    env = {"GIT_CONFIG_COUNT": str(len(pairs))} if pairs else {}
    for number, (name, value) in enumerate(pairs):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return env
