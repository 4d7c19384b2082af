"""The workspace of one attempt: made, changed for the variant, compared with what it was, and removed.

    <fleet>/work/<case>/  repo   what the agent works on
                          home   its home, empty at first
                          base   a Git folder of ours that knows what `repo` was like; nothing in `repo` configures it

After the agent has worked here nothing in it can be trusted: no link is followed, and no Git of `repo` is asked.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from shlex import join, quote

from msgspec.structs import replace

from harness.errors import HarnessError, UsageError
from harness.fleet.container import CaseContainer, ContainerFailed, outer
from harness.fleet.plan import FleetCase, FleetPlan, WorkspaceKind
from harness.fleet.step import run_step
from harness.sources.process.invocation import find_program
from harness.sources.registry import load
from harness.sources.request import Request
from harness.sources.workspace.git_calls import SAFE_OPTIONS, GitCalls, safe_environment

_GIT_TIMEOUT_S = 600.0
_LARGEST_DIFF_BYTES = 20 << 20
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
"""Settings of the user would make a workspace differ from one machine to another."""
_GIT = ("git", *SAFE_OPTIONS, "-c", "advice.detachedHead=false")
_SAFE_GIT = join(_GIT)
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Of a folder without files; every Git knows it."""
_XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")


class WorkspaceFailed(Exception):
    """The workspace could not be made; not a fault of the agent."""


class CaseWorkspace:
    """Contract: nothing outside of `place` changes, but for the worktree list of a repository with `worktree`."""

    def __init__(self, place: str, plan: FleetPlan, case: FleetCase, is_stopped: Callable[[], bool]) -> None:
        self.place = place
        self.repo = os.path.join(place, "repo")
        self._home = os.path.join(place, "home")
        self._base = os.path.join(place, "base")
        self._case = case
        self._kind = kind_of(plan.workspaces, case)
        self._is_stopped = is_stopped
        self._tree = ""
        self.container: CaseContainer | None = None
        """Where setup, agent and check run; None: here."""
        if case.task.image:
            mounts = plan.container.mounts | {path: path for path in case.variant.mcp}
            self.container = CaseContainer(place, case.task, replace(plan.container, mounts=mounts))

    def env(self) -> dict[str, str]:
        """What differs from the environment of the worker, or of the container."""
        if self._case.variant.home == "user":
            return {}
        inside = {name: os.path.join(self._home, name.lower()) for name in _XDG}
        return {"HOME": self._home, **inside}

    def make(self) -> None:
        """Raises WorkspaceFailed, StepStopped."""
        remove(self.place)
        try:
            os.makedirs(self._home, mode=0o700)
            with open(os.path.join(self._home, ".gitconfig"), "w", encoding="utf-8") as file:
                file.write("[user]\n\tname = Harness\n\temail = harness@localhost\n")
            self._fill()
            for pattern in self._case.variant.without:
                self._leave_out(pattern)
            for there, here in self._case.variant.added.items():
                put(self.repo, there, here)
            if self.container is not None:
                self.container.start(self._is_stopped)
        except (ContainerFailed, UsageError) as error:
            raise WorkspaceFailed(str(error)) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise WorkspaceFailed(f"cannot make the workspace: {reason}: {error.filename}") from error

    def remember(self) -> None:
        """Note what the workspace is like now: `diff` says what changed since."""
        if not _has_git():
            return
        if not os.listdir(self.repo):
            self._tree = _EMPTY_TREE
            return
        alternates = ""
        source = os.path.join(self._case.task.workspace, ".git", "objects")
        if self._case.task.commit and os.path.isdir(source):
            alternates = f"echo {quote(source)} > {quote(self._base)}/objects/info/alternates\n"
            # The stat cache of the clone: unchanged files need not be read again.
            alternates += f"cp {quote(self.repo)}/.git/index {quote(self._base)}/index 2>/dev/null || true\n"
        script = f"{_SAFE_GIT} init -q --bare {quote(self._base)} || exit 1\n{alternates}{self._git()} add -A . || exit 1\n"
        end = run_step(f"{script}{self._git()} write-tree", self.repo, _git_environment(), _GIT_TIMEOUT_S)
        self._tree = end.output.strip().rpartition("\n")[2] if end.is_ok else ""

    def diff(self) -> bytes:
        """What the agent changed, as a patch; empty where that is not known."""
        if not self._tree or not os.path.isdir(self.repo):
            return b""
        if self.container is not None:
            self.container.give_back()
        patch = os.path.join(self.place, "patch")
        options = "--cached --binary --no-ext-diff --no-textconv --no-renames --ignore-submodules=none"
        made = "" if os.path.isdir(self._base) else f"{_SAFE_GIT} init -q --bare {quote(self._base)} && "
        command = (
            f"{made}{self._git()} add -A . && {self._git()} diff {options} {self._tree} > {quote(patch)}"
        )
        if not run_step(command, self.repo, _git_environment(), _GIT_TIMEOUT_S).is_ok:
            return b""
        with open(patch, "rb") as file:
            return file.read(_LARGEST_DIFF_BYTES)

    def add_hidden_files(self) -> None:
        """Raises OSError."""
        os.makedirs(self.repo, exist_ok=True)  # a task may delete its workspace
        for there, here in self._case.task.files.items():
            put(self.repo, there, here)

    def keep(self, place: str) -> None:
        """Move what the agent worked on to another place."""
        with suppress(OSError):
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            os.rename(self.repo, place)

    def command(
        self, command: str, env: Mapping[str, str]
    ) -> tuple[str | tuple[str, ...], Mapping[str, str]]:
        """How a shell command of the task is run, with these variables and what differs; and its environment."""
        if self.container is None:
            return command, {**os.environ, **self.env(), **env, "PWD": self.repo}
        return self.container.argv(("sh", "-c", command), {**self.env(), **env}), {**os.environ, **outer(env)}

    def request(self, plan: FleetPlan) -> Request:
        """What the agent is asked; in a container, through a program here that starts it there."""
        case, variant = self._case, self._case.variant
        request = case.request(plan, self.repo, self.env())
        if self.container is None:
            return request
        agent = load(variant.agent)
        own = agent.command(request, ()).env
        program = self.container.agent_program(agent, variant.binary, {**own, **request.env})
        return replace(request, binary=program, env=outer(request.env))

    def remove(self) -> None:
        if self.container is not None:
            self.container.close()
        remove(self.place)
        if self._kind == "worktree":
            command = (*_GIT, "-C", self._case.task.workspace, "worktree", "prune")
            run_step(command, os.path.dirname(self.place), _git_environment(), _GIT_TIMEOUT_S)

    def _fill(self) -> None:
        task = self._case.task
        if not task.workspace and self.container is not None:
            self.container.fill()
        elif not task.workspace:
            os.mkdir(self.repo)
        elif self._kind == "copy":
            copy_tree(task.workspace, self.repo)
        else:
            source, repo = quote(task.workspace), quote(self.repo)
            if self._kind == "worktree":
                _refuse_own_filters(task.workspace)
                script = f"{_SAFE_GIT} -C {source} worktree add -q --detach -f {repo} {quote(task.commit)}"
            else:
                script = (
                    f"GIT_ALLOW_PROTOCOL=file {_SAFE_GIT} clone -q --shared --no-checkout --template= {source} {repo}"
                    f" && {_SAFE_GIT} -C {repo} checkout -q --detach {quote(task.commit)}"
                    f" && {_SAFE_GIT} -C {repo} remote remove origin"
                )
            end = run_step(script, self.place, _git_environment(), _GIT_TIMEOUT_S, self._is_stopped)
            if not end.is_ok:
                raise WorkspaceFailed(f"git: {end.trouble or end.output.strip()}")

    def _leave_out(self, pattern: str) -> None:
        for folder, folders, files in os.walk(self.repo):
            inside = os.path.relpath(folder, self.repo)
            for name in [*folders, *files]:
                path = os.path.normpath(os.path.join(inside, name))
                if fnmatchcase(path, pattern.rstrip("/")):
                    remove(os.path.join(folder, name))
            folders[:] = [name for name in folders if os.path.isdir(os.path.join(folder, name))]

    def _git(self) -> str:
        return f"{_SAFE_GIT} --git-dir={quote(self._base)} --work-tree={quote(self.repo)}"


def kind_of(asked: WorkspaceKind, case: FleetCase) -> WorkspaceKind:
    """A worktree shares refs with the user's repository, so a clone is the default; without a commit, a copy."""
    if not case.task.commit:
        return "copy"
    return "worktree" if asked == "worktree" else "clone"


def put(root: str, there: str, here: str) -> None:
    """Copy a file or folder into `root`. A link or a file in the way is replaced, never followed. Raises OSError."""
    folder = root
    *parents, name = [part for part in there.split("/") if part not in {"", "."}]
    for part in parents:
        folder = os.path.join(folder, part)
        if not stat.S_ISDIR(_mode(folder)):
            remove(folder)
            os.mkdir(folder)
    target = os.path.join(folder, name)
    if os.path.isdir(here):
        if not stat.S_ISDIR(_mode(target)):
            remove(target)
            os.mkdir(target)
        for entry in sorted(os.listdir(here)):
            put(root, f"{there}/{entry}", os.path.join(here, entry))
    else:
        remove(target)
        shutil.copy2(here, target, follow_symlinks=False)


def copy_tree(source: str, target: str) -> None:
    """With links as links, and without sockets and pipes. Raises OSError."""

    def special(folder: str, names: list[str]) -> list[str]:
        modes = {name: _mode(os.path.join(folder, name)) for name in names}
        return [
            name
            for name, mode in modes.items()
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
        ]

    try:
        shutil.copytree(source, target, symlinks=True, ignore=special)
    except shutil.Error as error:
        first = error.args[0][0]
        raise OSError(None, str(first[2]), first[0]) from error


def remove(path: str) -> None:
    """Remove a file or folder, whatever its permissions; nothing happens where there is none."""
    if not stat.S_ISDIR(_mode(path)):
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        os.chmod(path, 0o700)
        for folder, folders, _files in os.walk(path):
            for name in folders:
                inner = os.path.join(folder, name)
                with suppress(OSError):
                    if stat.S_ISDIR(_mode(inner)):
                        os.chmod(inner, 0o700)
        shutil.rmtree(path, ignore_errors=True)


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return 0


def _git_environment() -> dict[str, str]:
    return safe_environment() | _NO_SETTINGS


def _refuse_own_filters(repository: str) -> None:
    """A worktree has the settings of its repository; a clone does not."""
    if own := GitCalls(repository).own_filters():
        raise WorkspaceFailed(
            f"{repository} runs programs of its own when files are checked out ({own[0][:100]});"
            " leave `workspaces` out of the plan to work in clones, which do not"
        )


def _has_git() -> bool:
    try:
        find_program("git", os.environ, os.getcwd())
    except HarnessError:
        return False
    return True
