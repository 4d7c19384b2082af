"""Where a run works: which paths are below its folder, and which of them may be edited without asking.

Rules
1. Paths are compared as the file system sees them: every symbolic link is followed first, `..` afterwards.
2. What is not certain is outside: a path with a NUL byte, `~user`, an address, a device, a process.
3. A decision is about a path as it is now. Our own tools open it without following links that came later; an agent
   program opens it by itself, and only a wall holds it to the decision.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable

import msgspec

from harness.approvals.protected import is_protected
from harness.system.file_names import FOLDS_CASE, NOT_FILES


class WorkFolder(msgspec.Struct, frozen=True, kw_only=True):
    root: str
    """The real path of the folder; empty: there is none, and every path is outside."""
    programs: frozenset[str] = frozenset()
    """Programs that a free command may run (`free_commands.free_programs`); none: no command is free."""
    guard: Callable[[str], bool] = is_protected
    """Whether a path, from the folder on, is one that others obey."""

    def real(self, path: str, cwd: str = "") -> str | None:
        """Where a path leads; None when that is not certain."""
        if not path or "\0" in path or "://" in path or path.startswith("\\\\"):
            return None
        if path.startswith("~"):
            if path != "~" and not path.startswith("~/"):
                return None
            path = os.path.expanduser(path)
            if path.startswith("~"):
                return None
        try:
            real = os.path.realpath(os.path.join(self.root or "/", cwd, path))
        except (OSError, ValueError):
            return None
        return _plain(real)

    def holds(self, path: str, cwd: str = "") -> bool:
        """Whether a path is the folder or below it."""
        real = self.real(path, cwd)
        return real is not None and is_below(real, self.root) and not _is_device(real)

    def may_edit(self, path: str, cwd: str = "") -> bool:
        """Below the folder, not a name that others obey, and not another name of a file elsewhere."""
        real = self.real(path, cwd)
        if real is None or not is_below(real, self.root) or real == _plain(self.root):
            return False
        if self.guard(os.path.relpath(real, _plain(self.root))):
            return False
        try:
            found = os.lstat(real)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)


def is_below(path: str, folder: str) -> bool:
    """Whether a real path is a folder or lies below it, compared by whole names."""
    if not folder:
        return False
    path, folder = _plain(path), _plain(folder).rstrip("/")
    if any(path == place or path.startswith(f"{place}/") for place in NOT_FILES):
        return False
    return path == folder or path.startswith(f"{folder}/")


def _plain(path: str) -> str:
    """As the file system compares names: macOS and Windows take capitals for small letters, and é in two spellings."""
    if not FOLDS_CASE:
        return path
    return unicodedata.normalize("NFC", path).casefold()


def _is_device(real: str) -> bool:
    try:
        mode = os.lstat(real).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
