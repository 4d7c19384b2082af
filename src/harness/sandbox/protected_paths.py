"""What a confined command must not change or create: by it others could be made to run its programs later.

Which names these are is said in `approvals/protected.py`; here they are found in a workspace, with what git names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from harness import config
from harness.approvals.protected import closed_names
from harness.errors import UsageError
from harness.sandbox.placeholders import SOCKET
from harness.system.contract import PACKAGE
from harness.workspace import git_directories
from harness.workspace.git_directories import GIT, GUARDED, UNFINISHED, GitPaths

PROTECTED: dict[str, str] = closed_names()
"""Path in the workspace → who obeys what is there."""

_FILES = frozenset({".env", ".kilocodemodes", ".roomodes"})
"""Names without a suffix that are those of files."""
_MOST_OPEN_REPOSITORIES = 100
_MOST_REPOSITORIES = 1000
"""bubblewrap takes so many arguments and no more, and the kernel so many mounts."""


class PathGuard(NamedTuple):
    """One path that is protected from change; or, if `is_open`, only from being moved away."""

    path: str
    stand_in: str | None = None
    """What a file would say that stands in for it where it is absent; None: a folder would; SOCKET: a socket."""
    is_open: bool = False


class Survey(NamedTuple):
    """What there is to protect, as it is before a command."""

    roots: tuple[str, ...]
    found: tuple[GitPaths, ...]
    named: Mapping[str, str | None]
    """The paths of the table, and those that configuration names, absolute; and what stands in for each."""
    settings: frozenset[str] = frozenset()
    """Of these, the ones of the table: what agents and editors obey."""

    def repositories(self) -> list[str]:
        return [path for paths in self.found for path in paths.repositories]

    def pointers(self) -> list[str]:
        return [path for paths in self.found for path in paths.pointers]

    def links(self) -> list[str]:
        return [path for paths in self.found for path in paths.links]


def survey(roots: Sequence[str], protected: Sequence[str] | None = None) -> Survey:
    """`protected`: names instead of those of the table. Raises UsageError where nothing could be protected."""
    roots = tuple(os.path.realpath(root) for root in roots)
    for root in roots:
        require_apart(root)
    folders = tuple(git_directories.find(root) for root in roots)
    names = PROTECTED if protected is None else protected
    settings = frozenset(os.path.join(root, name) for root in roots for name in names if name != GIT)
    sockets_and_settings: dict[str, str | None] = {
        path: SOCKET if _is_file(path) else None for path in sorted(settings)
    }
    others = [
        guard for root, folder in zip(roots, folders, strict=True) for guard in _configured(root, folder)
    ]
    for path, stand_in in (*others, *((path, None) for path in _own_places())):
        if any(_is_below(path, root) for root in roots):
            sockets_and_settings.setdefault(path, stand_in)
    return Survey(roots, folders, sockets_and_settings, settings)


def settings_in(roots: Sequence[str], protected: Sequence[str] | None = None) -> Survey:
    """Only the names of the table that there are: for a wall that confines nothing."""
    roots = tuple(os.path.realpath(root) for root in roots)
    names = PROTECTED if protected is None else protected
    paths = [os.path.join(root, name) for root in roots for name in names if name != GIT]
    there = [path for path in paths if os.path.lexists(path)]
    return Survey(roots, (), dict.fromkeys(there), frozenset(there))


def guards(surveyed: Survey) -> list[PathGuard]:
    """For mounts: those above before those below. Raises UsageError when there are too many."""
    by_path: dict[str, PathGuard] = {}
    repositories = surveyed.repositories()
    if len(repositories) + len(surveyed.pointers()) > _MOST_REPOSITORIES:
        raise UsageError(
            f"there are more than {_MOST_REPOSITORIES} repositories in the workspace: too many to be protected",
            hint="name a smaller workspace with --cwd DIR",
        )
    for path, stand_in in surveyed.named.items():
        for above in _folders_above(path, surveyed.roots):
            by_path.setdefault(above, PathGuard(above, is_open=True))
        by_path[path] = PathGuard(path, stand_in)
    for root in surveyed.roots:
        git = os.path.join(root, GIT)
        if git not in repositories:
            by_path[git] = PathGuard(git)
    for path in surveyed.pointers():
        by_path[path] = PathGuard(path)
    is_open = len(repositories) <= _MOST_OPEN_REPOSITORIES
    for path in repositories:
        by_path.update((guard.path, guard) for guard in _repository_guards(path, is_open=is_open))
    outermost: list[PathGuard] = []
    for guard in sorted(by_path.values(), key=lambda guard: guard.path.split(os.sep)):
        # What lies below a closed one is closed with it; a mount there would open it again.
        if not any(_is_below(guard.path, above.path) for above in outermost if not above.is_open):
            outermost.append(guard)
    return outermost


def missing_names(root: str) -> tuple[str, ...]:
    """What is not there, and where a wall puts something so that it is not made, as paths below `root`: with the folders
    that it needs for that.
    """
    root = os.path.realpath(root)
    missing: set[str] = set()
    for guard in guards(survey((root,))):
        path = guard.path
        while _is_below(path, root) and not os.path.lexists(path):
            missing.add(os.path.relpath(path, root))
            path = os.path.dirname(path)
    return tuple(sorted(missing))


def _repository_guards(path: str, *, is_open: bool) -> Iterator[PathGuard]:
    inside = [os.path.join(path, name) for name in GUARDED]
    # Nothing can be mounted over a link; in a bare one stand-ins could be committed as files of the one around it;
    # and without HEAD it is none: perhaps a stand-in for one.
    is_usual = os.path.basename(path) == GIT and os.path.lexists(os.path.join(path, "HEAD"))
    if not is_open or not is_usual or any(map(os.path.islink, inside)):
        yield PathGuard(path)
        return
    yield PathGuard(path, is_open=True)
    for name, stand_in in GUARDED.items():
        yield PathGuard(os.path.join(path, name), stand_in)
    for name in UNFINISHED:
        if os.path.lexists(unfinished := os.path.join(path, name)):
            yield PathGuard(unfinished)


def _configured(root: str, paths: GitPaths) -> Iterator[tuple[str, str | None]]:
    """Where hooks and further configuration are, by what the repositories here, around here, and the user say."""
    home = os.path.expanduser("~")
    user_configs = (os.path.join(home, ".gitconfig"), os.path.join(home, ".config/git/config"))
    repositories = [*paths.repositories]
    above = os.path.dirname(root)
    while above != os.path.dirname(above):
        repositories.append(os.path.join(above, GIT))
        above = os.path.dirname(above)
    for path in repositories:
        worktree = os.path.dirname(path) if os.path.basename(path) == GIT else path
        for name in ("config", "config.worktree"):
            yield from git_directories.named_in(os.path.join(path, name), worktree)
        for file in user_configs:
            yield from git_directories.named_in(file, worktree)
        for name in GUARDED:
            if os.path.islink(link := os.path.join(path, name)):
                yield os.path.realpath(link), None


def _own_places() -> Iterator[str]:
    """Harness itself, and what it believes: a workspace may lie around them."""
    yield os.path.realpath(PACKAGE)
    yield from map(os.path.realpath, (sys.prefix, config.config_directory(), config.data_directory()))


def require_apart(root: str) -> None:
    """Raises UsageError for a workspace in which too much would have to be protected."""
    home = os.path.realpath(os.path.expanduser("~"))
    package = next(_own_places())
    if _is_below(home, root) or home == root:
        raise UsageError(
            "nothing can be confined to the home directory: what lies there runs when you log in",
            hint="name a workspace in it with --cwd DIR",
        )
    if _is_below(root, package) or root == package:
        raise UsageError(
            "nothing can be confined to a folder of Harness itself", hint="name a workspace with --cwd DIR"
        )


def _is_file(path: str) -> bool:
    """By its name: what agents expect there, if anything."""
    name = os.path.basename(path)
    return bool(os.path.splitext(name)[1]) or name in _FILES


def _folders_above(path: str, roots: Sequence[str]) -> Iterator[str]:
    """Between a path and its root."""
    root = max((root for root in roots if _is_below(path, root)), key=len)
    parts = os.path.relpath(path, root).split(os.sep)[:-1]
    for count in range(1, len(parts) + 1):
        yield os.path.join(root, *parts[:count])


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip(os.sep) + os.sep)
