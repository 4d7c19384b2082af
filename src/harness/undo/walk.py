"""Walk a workspace for a checkpoint: what is in it, and of what the content is taken.

Nothing is executed and no link is followed. `.git` is never entered, at any depth. A folder whose time is unchanged has
the same names as last time, so that an unchanged tree costs one `lstat` for each path.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from harness.undo.states import Seen, stamp_of
from harness.workspace.tree import IgnoreRules

LARGEST = 8 << 20
"""A larger file is named, not taken."""
LARGEST_IGNORED = 1 << 20
"""Of files that git ignores, such as `.env` or a local database."""
MOST_IGNORED = 200
MOST_IGNORED_BYTES = 4 << 20
"""An ignored folder is taken while it is no larger; else it is only named: node_modules, .venv, target."""
RACY_NS = 50_000_000
"""What changed this shortly before it was looked at may change again without a new time."""
_IGNORE_FILE = ".gitignore"
_GIT = ".git"


class WalkedPath(NamedTuple):
    path: str
    """Relative to the workspace."""
    status: os.stat_result
    is_taken: bool
    is_ignored: bool


class Walk:
    """One walk. Contract: raises OSError only if the workspace itself cannot be listed: a checkpoint in which everything
    is deleted must not be.
    """

    def __init__(
        self,
        root: str,
        states: Mapping[str, Seen],
        folders: Mapping[str, tuple[int, int]],
        excluded: frozenset[str] = frozenset(),
        writes: frozenset[str] = frozenset(),
        nested: frozenset[str] = frozenset(),
    ) -> None:
        """`folders`: the time and inode of each folder that was listed last time. `excluded`: absolute paths. `writes`:
        what is taken in any case. `nested`: folders that had a `.git` of their own last time.
        """
        self._root = root
        self._states = states
        self._excluded = excluded
        self._writes = writes
        self._nested = nested
        self.nested: set[str] = set()
        """Folders with a `.git` of their own, but for the workspace itself."""
        self._last = folders if self._has_same_rules() else {}
        self._children: dict[str, list[tuple[str, bool]]] = {}
        self.folders: dict[str, tuple[int, int]] = {}
        """As they are now, for the next walk."""
        self.unlisted: list[str] = []
        """Folders that cannot be listed, with a slash: what is in them counts as unchanged."""
        if self._last:
            for path, state in states.items():
                above, _, name = path.rpartition("/")
                self._children.setdefault(above, []).append((name, state.is_ignored))

    def entries(self) -> Iterator[WalkedPath]:
        waiting = [("", IgnoreRules(()), False)]
        while waiting:
            folder = waiting.pop()
            try:
                yield from self._entries_of(*folder, waiting)
            except OSError:
                if not folder[0]:
                    raise
                self.unlisted.append(f"{folder[0]}/")

    def _entries_of(
        self,
        relative: str,
        inherited: IgnoreRules,
        is_ignored: bool,
        waiting: list[tuple[str, IgnoreRules, bool]],
    ) -> Iterator[WalkedPath]:
        """Raises OSError if they cannot be seen: one may list a folder and not look at what is in it, or remember what
        was in one that is shut now.
        """
        names, rules = self._listing(relative, inherited, is_ignored=is_ignored)
        prefix = f"{relative}/" if relative else ""
        for name, ignored in names:
            path = prefix + name
            full = f"{self._root}/{path}"
            try:
                status = os.lstat(full)
            except (FileNotFoundError, NotADirectoryError):
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield WalkedPath(path, status, status.st_size <= self._room(path, ignored), ignored)
            elif full in self._excluded:
                continue
            elif ignored and not is_ignored and not self._has_room(path):
                yield WalkedPath(path, status, is_taken=False, is_ignored=True)
            else:
                yield WalkedPath(path, status, is_taken=True, is_ignored=ignored)
                waiting.append((path, rules, ignored))

    def _listing(
        self, relative: str, inherited: IgnoreRules, *, is_ignored: bool
    ) -> tuple[list[tuple[str, bool]], IgnoreRules]:
        """Names with whether they are ignored, and the rules for what is below."""
        folder = f"{self._root}/{relative}" if relative else self._root
        own = os.lstat(folder)
        stamp = own.st_mtime_ns, own.st_ino
        if own.st_mtime_ns < time.time_ns() - RACY_NS:
            self.folders[relative] = stamp
        if self._last.get(relative) == stamp:
            names = self._children.get(relative, [])
            self.nested |= {relative} & self._nested
            has_rules = not is_ignored and any(name == _IGNORE_FILE for name, _ in names)
            return names, inherited.and_of(folder, relative) if has_rules else inherited
        with os.scandir(folder) as entries:
            all_below = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        entries_below = [entry for entry in all_below if entry[0] != _GIT]
        if relative and len(entries_below) < len(all_below):
            self.nested.add(relative)
        prefix = f"{relative}/" if relative else ""
        if any(name == _IGNORE_FILE and prefix + name not in self._states for name, _ in entries_below):
            self._last = {}  # new rules: what is below is matched again
        rules = inherited if is_ignored else inherited.and_of(folder, relative)
        return [
            (name, is_ignored or rules.ignore(prefix + name, name, is_folder=is_folder))
            for name, is_folder in entries_below
        ], rules

    def _has_same_rules(self) -> bool:
        files = (path for path in self._states if path.endswith(_IGNORE_FILE))
        return all(self._is_same(path) for path in files)

    def _is_same(self, path: str) -> bool:
        with suppress(OSError):
            return self._states[path].stamp == stamp_of(os.lstat(f"{self._root}/{path}"))
        return False

    def _room(self, path: str, is_ignored: bool) -> int:
        """What was taken stays taken when it becomes ignored: an agent hides nothing that way."""
        if not is_ignored or path in self._writes:
            return LARGEST
        entry = self._states.get(path)
        return LARGEST if entry is not None and entry.state.kind == "f" else LARGEST_IGNORED

    def _has_room(self, path: str) -> bool:
        """Whether an ignored folder is taken. One that was is given up only when it has grown a lot."""
        entry = self._states.get(path)
        if path in self._writes or self._is_small(path, 1):
            return True
        if entry is None or entry.state.kind != "d":
            return False
        count = sum(path_known.startswith(f"{path}/") for path_known in self._states)
        return self._is_small(path, 5 + count // MOST_IGNORED * 2)

    def _is_small(self, path: str, factor: int) -> bool:
        count = size = 0
        waiting = [f"{self._root}/{path}"]
        while waiting:
            with suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    is_folder = entry.is_dir(follow_symlinks=False)
                    waiting += [entry.path] if is_folder else []
                    size += 0 if is_folder else entry.stat(follow_symlinks=False).st_size
                    if count > MOST_IGNORED * factor or size > MOST_IGNORED_BYTES * factor:
                        return False
        return True
