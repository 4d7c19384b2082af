"""The workspace of one attempt: made, changed for the variant, compared with what it was, and removed.

    <parent of the fleet>/.harness-work/<fleet>/<case>/  repo   what the agent works on
                                                         home   its home, empty at first
    <fleet>/base/<case>/                                 a Git folder of ours that knows what `repo` was like

The fleet's own folder has the hidden files of the tasks and the changes of other agents, so an agent works elsewhere.
After it has worked nothing in the workspace can be trusted: no link is followed, and no Git of `repo` is asked.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase

from msgspec.structs import replace

from harness.agents.registry import load
from harness.contracts.request import Request
from harness.errors import HarnessError, UsageError
from harness.fleet.container import CaseContainer, ContainerFailed, outer
from harness.fleet.first_commit import commit_all, tracked_files
from harness.fleet.plans.digests import path_digest
from harness.fleet.plans.plan import FleetCase, FleetPlan, WorkspaceKind
from harness.fleet.snapshot import Snapshots
from harness.log.private_files import make_private_directory
from harness.process.invocation import find_program
from harness.runs.replay_request import as_recorded
from harness.workspace.checkout import check_out
from harness.workspace.files import open_folder
from harness.workspace.git_calls import GitFailed

_LARGEST_DIFF_BYTES = 20 << 20
_SCORE_BYTES = 100_000
_BEFORE, _AFTER = "refs/snapshots/before", "refs/snapshots/after"
_XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")


_NO_PATCH = "what the agent changed is not known: {}"


class WorkspaceFailed(Exception):
    """The workspace could not be made; not a fault of the agent."""


class CaseWorkspace:
    """Contract: nothing outside of `place` and `base` changes."""

    def __init__(
        self, place: str, base: str, plan: FleetPlan, case: FleetCase, is_stopped: Callable[[], bool]
    ) -> None:
        """`base`: a folder that the agent has no business in."""
        self.place = place
        self.repo = os.path.join(place, "repo")
        self._home = os.path.join(place, "home")
        self._base = base
        self._snapshots = Snapshots(base, self.repo)
        self._has_snapshot = False
        self._trouble = ""
        """Why there is none."""
        self._tracked: frozenset[str] = frozenset()
        self._digests = plan.digests
        self._leaves_out = any(variant.without for variant in plan.variants)
        self._case = case
        self._kind = kind_of(plan.workspaces, case)
        self._is_stopped = is_stopped
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
            variant = self._case.variant
            tapes = [variant.tape] if variant.tape else []
            self._require_unchanged([self._case.task.workspace, *variant.added.values(), *tapes])
            make_private_directory(self._home)
            with open(os.path.join(self._home, ".gitconfig"), "w", encoding="utf-8") as file:
                file.write("[user]\n\tname = Harness\n\temail = harness@localhost\n")
            self._fill()
            for pattern in self._case.variant.without:
                self._leave_out(pattern)
            for there, here in self._case.variant.added.items():
                put(self.repo, there, here)
            self._commit()
            if self.container is not None:
                self.container.start(self._is_stopped)
        except (ContainerFailed, UsageError) as error:
            raise WorkspaceFailed(str(error)) from error
        except GitFailed as error:
            raise WorkspaceFailed(error.words) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise WorkspaceFailed(f"cannot make the workspace: {reason}: {error.filename}") from error

    def restore(self, kept_id: str) -> None:
        """A copy of what an agent has left. Raises WorkspaceFailed, StepStopped, OSError."""
        remove(self.place)
        make_private_directory(self._home)
        copy_tree(kept_id, self.repo)
        if self.container is not None:
            try:
                self.container.start(self._is_stopped)
            except (ContainerFailed, UsageError) as error:
                raise WorkspaceFailed(str(error)) from error

    def remember(self) -> None:
        """Note what the workspace is like now: `diff` says what changed since."""
        if not _has_git():  # then there is no patch; the run itself needs none
            return
        try:
            self._snapshots.prepare()
            self._snapshots.take(_BEFORE, self._tracked)
        except (GitFailed, OSError) as error:
            self._trouble = str(error)
            return
        self._has_snapshot = True

    def diff(self) -> bytes:
        """What the agent changed, as a patch; empty where there is no Git. Raises WorkspaceFailed: it is not known."""
        if self._trouble:
            raise WorkspaceFailed(_NO_PATCH.format(self._trouble))
        if not self._has_snapshot or not os.path.isdir(self.repo):
            return b""
        if self.container is not None:
            self.container.give_back()
        try:
            self._snapshots.take(_AFTER)
            return self._snapshots.patch(_BEFORE, _AFTER)[:_LARGEST_DIFF_BYTES]
        except (GitFailed, OSError) as error:
            raise WorkspaceFailed(_NO_PATCH.format(error)) from error

    def prepare_check(self) -> None:
        """Put the hidden files into place, and take away what the agent may have written as its score.

        Raises OSError, WorkspaceFailed where a hidden file is not what it was.
        """
        task = self._case.task
        self._require_unchanged(task.files.values())
        os.makedirs(self.repo, exist_ok=True)  # a task may delete its workspace
        if task.score_file:
            with suppress(OSError), open_folder(self._score_folder) as folder:
                os.unlink(os.path.basename(task.score_file), dir_fd=folder)
        for there, here in task.files.items():
            if self.container is not None and there.startswith("/"):
                self.container.put(here, there)
            else:
                put(self.repo, there, here)

    def score(self) -> bytes:
        """What the check wrote as its score; empty where that is nothing, or a link."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with open_folder(self._score_folder) as folder:
                descriptor = os.open(os.path.basename(self._case.task.score_file), flags, dir_fd=folder)
            with open(descriptor, "rb") as file:
                return file.read(_SCORE_BYTES)
        except OSError:
            return b""

    @property
    def _score_folder(self) -> str:
        inside = os.path.dirname(self._case.task.score_file)
        return os.path.join(os.path.realpath(self.place), "repo", inside)

    def _require_unchanged(self, paths: Iterable[str]) -> None:
        """Raises WorkspaceFailed where the fleet's copy of something is not what it was when the fleet was created."""
        for path in paths:
            if path in self._digests and path_digest(path, {}) != self._digests[path]:
                raise WorkspaceFailed(f"{path} has changed since the fleet was created: create it anew")

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

    def request(self, plan: FleetPlan, hidden: tuple[str, ...] = ()) -> Request:
        """What the agent is asked; in a container, through a program here that starts it there.

        `hidden`: what it must not see where it runs here.
        """
        case, variant = self._case, self._case.variant
        if self.container is None:
            return as_recorded(case.request(plan, self.repo, self.env(), hidden))
        request = case.request(plan, self.repo, self.env())
        agent = load(variant.agent)
        own = agent.command(request, ()).env
        program = self.container.agent_program(agent, variant.binary, {**own, **request.env})
        # What settings of the workspace start there stays in the container.
        use = request.folder_settings or "use"
        return replace(request, binary=program, env=outer(request.env), folder_settings=use)

    def remove(self) -> None:
        if self.container is not None:
            self.container.close()
        remove(self.place)
        remove(self._base)

    def _fill(self) -> None:
        task = self._case.task
        if not task.workspace and self.container is not None:
            self.container.fill()
        elif not task.workspace:
            os.mkdir(self.repo)
        elif self._kind == "copy":
            copy_tree(task.workspace, self.repo)
        else:
            os.mkdir(self.repo)
            check_out(task.workspace, task.commit, self.repo)
            self._tracked = tracked_files(task.workspace, task.commit)

    def _commit(self) -> None:
        """The history that the agent sees: of a commit, and where files are left out, no more than what is there."""
        git = os.path.join(self.repo, ".git")
        if self._kind == "copy" and not (self._leaves_out and os.path.isdir(git)):
            return
        remove(git)
        commit_all(self.repo, self._tracked)

    def _leave_out(self, pattern: str) -> None:
        for folder, folders, files in os.walk(self.repo):
            inside = os.path.relpath(folder, self.repo)
            for name in [*folders, *files]:
                path = os.path.normpath(os.path.join(inside, name))
                if fnmatchcase(path, pattern.rstrip("/")):
                    remove(os.path.join(folder, name))
            folders[:] = [name for name in folders if os.path.isdir(os.path.join(folder, name))]


def kind_of(kind: WorkspaceKind, case: FleetCase) -> WorkspaceKind:
    """`clone` and `worktree` are one: the files of a commit in a repository of their own."""
    return "clone" if case.task.commit and kind != "copy" else "copy"


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


def _has_git() -> bool:
    try:
        find_program("git", os.environ, os.getcwd())
    except HarnessError:
        return False
    return True
