"""Git repositories in a workspace: found, prevented from running anything, and judged when new.

A repository is a folder with HEAD, objects and refs, whatever it is called. What it holds is data, but for
a few names by which git is made to run programs; those are `GUARDED`. A repository that a confined command
made must be such that git, started in it by others, runs nothing: else it is switched off.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from harness.approvals.git_config import unknown_in_file
from harness.system.contract import system

GIT = ".git"
GUARDED: dict[str, str | None] = {
    "hooks": None,
    "info": None,
    "modules": None,
    "worktrees": None,
    "config": "",
    "config.worktree": "",
    "commondir": ".\n",
}
"""In a repository: what names programs, or another place with such names. None: a folder; else what a file that
stands in for it says: nothing, or that there is no other place."""
UNFINISHED = ("rebase-merge", "rebase-apply", "sequencer")
"""In a repository: what `git rebase --continue` and its like will do. Guarded where it is there; an empty stand-in would
make git believe that a rebase has begun."""
_TODO = ("git-rebase-todo", "todo")
_RUNS = re.compile(rb"^\s*(?:exec|x)\s", re.MULTILINE)
REFUSED = ".refused"
_PARTS = frozenset({"HEAD", "objects", "refs"})
_LONGEST_CONFIG_BYTES = 100_000
_NAMING = re.compile(rb"^\s*(hookspath|path)\s*=\s*(.*?)\s*$", re.IGNORECASE | re.MULTILINE)


class GitPaths(NamedTuple):
    repositories: dict[str, tuple[int, int]]
    """Path → device and inode."""
    pointers: dict[str, tuple[int, int]]
    """Files called `.git`."""
    links: dict[str, str]
    """Symbolic links called `.git`, and where they lead. Nothing can be mounted over them, so that one may be
    removed, and its inode used again: only where they lead shows whether it is the same."""
    unseen: list[str]
    """Folders that cannot be looked into."""
    unfinished: dict[str, tuple[int, int]]
    """What of a rebase there is in the repositories."""


def find(root: str, known_folders: frozenset[tuple[int, int]] | None = None) -> GitPaths:
    """All below a folder; the inside of a `.git` only if others are known, and it is not among them."""
    paths = GitPaths({}, {}, {}, [], {})
    unvisited = [root]
    while unvisited:
        folder = unvisited.pop()
        try:
            with os.scandir(folder) as entries:
                children = list(entries)
        except FileNotFoundError:  # removed meanwhile, as by another command of the same workspace
            continue
        except OSError:
            paths.unseen.append(folder)
            continue
        if {entry.name for entry in children} >= _PARTS and (identity := _identity(folder)):
            paths.repositories[folder] = identity
        for entry in children:
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name != GIT:
                unvisited += [entry.path] if is_folder else []
            elif (identity := _identity(entry.path)) and is_folder:
                paths.repositories[entry.path] = identity
                unvisited += [] if known_folders is None or identity in known_folders else [entry.path]
            elif entry.is_symlink():
                paths.links[entry.path] = _target(entry.path)
            elif identity:
                paths.pointers[entry.path] = identity
    for repository in paths.repositories:
        for path in (os.path.join(repository, name) for name in UNFINISHED):
            if identity := _identity(path):
                paths.unfinished[path] = identity
    return paths


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def is_repository(folder: str) -> bool:
    return all(os.path.lexists(os.path.join(folder, part)) for part in _PARTS)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def named_in(config: str, worktree: str) -> Iterator[tuple[str, str | None]]:
    """Paths at which a file of git's configuration has hooks, or more configuration; and what stands in for them."""
    try:
        with open(config, "rb") as file:
            text = file.read(_LONGEST_CONFIG_BYTES)
    except OSError:
        return
    for key, value in _NAMING.findall(text):
        path = os.path.expanduser(os.fsdecode(value.strip(b'"')))
        has_hooks = key.lower() == b"hookspath"
        base = worktree if has_hooks else os.path.dirname(config)
        if path and "\0" not in path:
            yield os.path.normpath(os.path.join(base, path)), None if has_hooks else ""


def switch_off_new(roots: Sequence[str], before: Sequence[GitPaths]) -> list[str]:
    """Disable what appeared since. Returns what was done, as text."""
    parts = [part for paths in before for part in (paths.repositories, paths.pointers, paths.unfinished)]
    known_folders = frozenset(identity for part in parts for identity in part.values())
    unreadable = {path for paths in before for path in paths.unseen}
    links = {link for paths in before for link in paths.links.items()}
    notes: list[str] = []
    for root in roots:
        paths_now = find(root, known_folders)
        new = [path for path, identity in paths_now.pointers.items() if identity not in known_folders]
        new += [path for path, target in paths_now.links.items() if (path, target) not in links]
        notes += [_switched_off(path, "it leads git to another place") for path in new]
        # What lies deeper first: afterwards its path is another one.
        for path, identity in sorted(paths_now.repositories.items(), reverse=True):
            if identity not in known_folders and (reason := why_harmful(path)):
                notes.append(_switched_off(path, reason))
        new = [path for path, identity in paths_now.unfinished.items() if identity not in known_folders]
        notes += [_put_aside(path) for path in new if _runs_programs(path)]
        notes += [f"{path} cannot be looked into" for path in paths_now.unseen if path not in unreadable]
    return notes


def _switched_off(path: str, reason: str) -> str:
    """A repository without HEAD is none; under another name it is not found either."""
    name = os.path.basename(path)
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            with suppress(FileNotFoundError):
                _rename(path, "HEAD")
        if name == GIT:
            _rename(os.path.dirname(path), GIT)
    except OSError as error:
        return f"{path} MUST NOT BE USED, and could not be renamed ({error.strerror}): {reason}"
    return f"{path} was switched off ({GIT if name == GIT else 'HEAD'} is {REFUSED[1:]} now): {reason}"


def _runs_programs(unfinished: str) -> bool:
    """Whether something to be done there is to run a program; yes, too, where that cannot be seen."""
    try:
        for name in _TODO:
            path = os.path.join(unfinished, name)
            if os.path.lexists(path):
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                with open(descriptor, "rb") as file:
                    if _RUNS.search(file.read(_LONGEST_CONFIG_BYTES)) or file.read(1):
                        return True
    except FileNotFoundError:  # the repository was switched off meanwhile
        return False
    except OSError:
        return True
    return os.path.islink(unfinished)


def _put_aside(unfinished: str) -> str:
    reason = "git rebase --continue would run what stands there"
    try:
        _rename(os.path.dirname(unfinished), os.path.basename(unfinished))
    except OSError as error:
        return f"{unfinished} MUST NOT BE USED, and could not be renamed ({error.strerror}): {reason}"
    return f"{unfinished} was switched off (its name ends with {REFUSED} now): {reason}"


def why_harmful(repository: str) -> str:
    """What would make git run a program there; empty when nothing would."""
    try:
        if not stat.S_ISDIR(os.lstat(repository).st_mode):
            return "it is no folder"
        for name in GUARDED:
            path = os.path.join(repository, name)
            if os.path.islink(path):
                return f"{name} is a symbolic link"
        if "commondir" in (names := os.listdir(repository)):
            return "it takes its configuration from another place"
        if any(not name.endswith(".sample") for name in _listed(repository, "hooks")):
            return "it has hooks"
        if _listed(repository, "modules") or _listed(repository, "worktrees"):
            return "it has other repositories in it"
        for name in ("config", "config.worktree"):
            if name in names and (key := _harmful_key(os.path.join(repository, name))):
                return f"its {name} sets {key}"
    except OSError as error:
        return f"it cannot be looked at: {error.strerror}"
    return ""


def _listed(repository: str, name: str) -> list[str]:
    with suppress(FileNotFoundError):
        return os.listdir(os.path.join(repository, name))
    return []


def _harmful_key(path: str) -> str:
    """The first key that is not known to be harmless, without its subsection; or a line that is not understood."""
    for setting in unknown_in_file(path):
        section, _, rest = setting.name.partition(".")
        return f"{section}.{rest.rpartition('.')[2]}" if rest else setting.name
    return ""


def _rename(folder_path: str, name: str) -> None:
    """Put it aside, without following any link: a command that still runs could put one in the way."""
    from harness.workspace.files import open_folder

    with open_folder(folder_path) as folder:
        target = f"{name}{REFUSED}"
        while _is_there(target, folder):
            target += "-again"
        try:
            os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)
        except PermissionError:
            system.change_mode(folder, 0o700)
            os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)


def _is_there(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
