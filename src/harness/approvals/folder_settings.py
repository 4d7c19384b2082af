"""What a folder brings for an agent: the files that it would obey there, and the digest by which they are known again.

Files at the top of the folder and of those above it are looked at, since agents look there as well, up to the user's
home: what lies at the top of that is the user's own. Nothing of them is executed, and no file is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

import msgspec

from harness.approvals.git_config import GitSetting, unknown_in_file
from harness.approvals.git_index import nested_repositories
from harness.config.named_files import named_files
from harness.config.trust import digest_of, read_whole

_MOST_FILES = 2_000
_MOST_BYTES = 64 << 20
_NOT_ENTERED = frozenset({"node_modules", ".git"})
"""Packages that agents install: only that they are there counts."""
_NOT_ENTERED_AT_THE_TOP = frozenset({"worktrees"})
"""Copies of the project that agents make; deeper down, a plugin or a skill may have that name."""
_LEFT_OUT_AT_THE_TOP = frozenset({"CLAUDE.md"})
"""Text for models, which starts nothing; deeper down, it may be an agent or a command of that name."""
_MADE_BY_PYTHON = ".pyc"
_PROGRAMS = (".sh", ".bash", ".js", ".cjs", ".mjs", ".ts", ".py", ".rb", ".pl", ".ps1", ".md", ".mdc")
"""Files that are what they say: names in them are not followed."""
_MOST_REPOSITORIES = 200
_READ_BY_GIT = ("post-index-change",)
"""Hooks that run when git only reads."""


class FolderSettings(msgspec.Struct, frozen=True, kw_only=True):
    folder: str
    """Its real path."""
    places: tuple[tuple[str, str], ...]
    """Folder and name of everything that is there of what the agent obeys."""
    contents: dict[str, bytes]
    """Name, from the folder on, → content of each file that the agent obeys; empty for one that was not read."""
    programs: dict[str, str]
    """Name → digest of each other file in the folder that one of these names."""
    git: tuple[GitSetting, ...]
    """Settings of the repository that are not known to be harmless, and hooks that run when git only reads."""
    is_whole: bool
    """False: there is more than was looked at, so that it can be neither shown nor trusted."""

    @property
    def is_empty(self) -> bool:
        return not self.contents and not self.git

    @property
    def files(self) -> dict[str, str]:
        """Name → digest, of all that counts: what two looks at the folder are compared by."""
        values: dict[str, str] = {}
        for setting in self.git:  # a setting may be there more than once
            values[setting.name] = (
                f"{values[setting.name]}\n{setting.value}" if setting.name in values else setting.value
            )
        git = {f".git: {name}": digest_of(os.fsencode(value)) for name, value in values.items()}
        contents = {name: digest_of(data) for name, data in self.contents.items()}
        return {**contents, **self.programs, **git}

    @property
    def digest(self) -> str:
        lines = "".join(f"{name}\0{digest}\n" for name, digest in sorted(self.files.items()))
        return digest_of(os.fsencode(lines))


def look(folder: str, names: Sequence[str]) -> FolderSettings:
    """`names`: those that the agent obeys."""
    top = os.path.realpath(folder)
    walk = _Walk(top)
    places = [(place, name) for place in _places(top) for name in names]
    places = [pair for pair in places if os.path.lexists(os.path.join(*pair))]
    for place, name in places:
        walk.take(os.path.join(place, name))
    programs = {
        name: digest_of(read_whole(path))
        for file, data in walk.contents.items()
        if not file.endswith(_PROGRAMS)
        for name, path in _named(data, top, os.path.dirname(os.path.join(top, file)))
        if name not in walk.contents
    }
    git = tuple(_git_settings(top))
    for setting in git:
        programs |= _git_programs(setting, top)
    return FolderSettings(
        folder=top,
        places=tuple(places),
        contents=walk.contents,
        programs=programs,
        git=git,
        is_whole=walk.is_whole,
    )


def _places(top: str) -> Iterator[str]:
    """The folder and those above it, up to the user's home, which is left out."""
    home = os.path.realpath(os.path.expanduser("~"))
    place = top
    while place not in (home, os.path.dirname(place)):
        yield place
        place = os.path.dirname(place)


def _named(data: bytes, *folders: str) -> Iterator[tuple[str, str]]:
    """Files of the project that a text names, as seen from the project or from the file."""
    top = folders[0]
    for folder in dict.fromkeys(folders):
        for _name, path in named_files(data, folder):
            if path.startswith(f"{top}{os.sep}"):
                yield os.path.relpath(path, top), path


class _Walk:
    """Reads files below the names that are obeyed, in one order, within bounds, and each folder once."""

    def __init__(self, top: str) -> None:
        self.contents: dict[str, bytes] = {}
        self.is_whole = True
        self._top = top
        self._size = 0
        self._entered: set[str] = set()

    def take(self, path: str, depth: int = 0) -> None:
        """A link counts as what it leads to; `depth`: below the name that is obeyed."""
        real = os.path.realpath(path)
        try:
            mode = os.stat(real).st_mode
        except OSError:
            if os.path.lexists(path):
                self._add(path, b"")
            return
        if stat.S_ISSOCK(mode):
            return  # nothing can read it as a file: a wall of ours stands in for what is not to be made there
        if not stat.S_ISDIR(mode):
            self._add(path, read_whole(real) if stat.S_ISREG(mode) else b"")
        elif real not in self._entered:
            self._entered.add(real)
            self._take_folder(path, real, depth)
        elif os.path.islink(path):  # another name may make something else of what is known already
            self._add(path, os.fsencode(os.readlink(path)))

    def _take_folder(self, path: str, real: str, depth: int) -> None:
        try:
            names = sorted(os.listdir(real))
        except OSError:
            self._add(path, os.urandom(32))  # what cannot be seen is never the same
            return
        for name in names:
            if not self.is_whole:
                return
            inside = os.path.join(path, name)
            if name in _NOT_ENTERED or (not depth and name in _NOT_ENTERED_AT_THE_TOP):
                self._add(inside, b"")
            elif not _is_left_out(name, depth) or os.path.isdir(inside):
                self.take(inside, depth + 1)

    def _add(self, path: str, data: bytes) -> None:
        self._size += len(data)
        if len(self.contents) >= _MOST_FILES or self._size > _MOST_BYTES:
            self.is_whole = False
            return
        self.contents.setdefault(os.path.relpath(path, self._top), data)


def _is_left_out(name: str, depth: int) -> bool:
    return name.endswith(_MADE_BY_PYTHON) or (not depth and name in _LEFT_OUT_AT_THE_TOP)


def _git_settings(top: str) -> Iterator[GitSetting]:
    for place in _places(top):
        git = os.path.join(place, ".git")
        if os.path.lexists(git):
            yield from _settings_of_repository(place, git, set())
        elif _is_bare_repository(place):
            yield from _settings_of_repository("", place, set())
        else:
            continue
        return  # git looks no further up


def _settings_of_repository(place: str, git: str, seen_files: set[str]) -> Iterator[GitSetting]:
    """Of a repository, and of those that it holds: git looks at them, too. `place`: its work tree, if it has one."""
    if len(seen_files) >= _MOST_REPOSITORIES:
        yield GitSetting("more repositories than Harness looks at", "")
    if (real := os.path.realpath(git)) in seen_files or len(seen_files) >= _MOST_REPOSITORIES:
        return
    seen_files.add(real)
    folders = _git_folders(git)
    for folder in folders:
        for name in ("config", "config.worktree"):
            try:
                yield from unknown_in_file(os.path.join(folder, name))
            except OSError:
                yield GitSetting(f"{name} that cannot be read", "")
        for name in _READ_BY_GIT:
            hook = os.path.join(folder, "hooks", name)
            if os.path.lexists(hook):
                yield GitSetting(f"hook {name}", digest_of(read_whole(hook)))
    nested = nested_repositories(folders[0]) if place else []
    if nested is None:
        yield GitSetting(
            "an index that cannot be read", digest_of(read_whole(os.path.join(folders[0], "index")))
        )
    for path in nested or ():
        below = os.path.join(place, path)
        if os.path.lexists(inner := os.path.join(below, ".git")):
            yield from _settings_of_repository(below, inner, seen_files)


def _is_bare_repository(place: str) -> bool:
    """Git takes a folder for a repository by what lies in it, also one that came with a clone."""
    has_head = os.path.lexists(os.path.join(place, "HEAD"))
    return has_head and all(os.path.isdir(os.path.join(place, name)) for name in ("objects", "refs"))


def _git_folders(git: str) -> list[str]:
    """The Git folder, and the one that it shares its configuration with, as a linked worktree does."""
    if os.path.isfile(git):
        text = read_whole(git).decode("utf-8", "replace").strip()
        git = os.path.normpath(os.path.join(os.path.dirname(git), text.removeprefix("gitdir:").strip()))
    common = os.path.join(git, "commondir")
    if not os.path.isfile(common):
        return [git]
    other = read_whole(common).decode("utf-8", "replace").strip()
    return [git, os.path.normpath(os.path.join(git, other))]


def _git_programs(setting: GitSetting, top: str) -> dict[str, str]:
    """Files of the project that a setting leads to: programs, included files, hooks of a folder."""
    programs = dict(_named(os.fsencode(setting.value), top, os.path.join(top, ".git")))
    if setting.name == "core.hookspath":
        folder = os.path.join(top, setting.value.strip('"'))
        with_hooks = _Walk(top)
        with_hooks.take(folder)
        return {name: digest_of(data) for name, data in with_hooks.contents.items()}
    return {name: digest_of(read_whole(path)) for name, path in programs.items()}
