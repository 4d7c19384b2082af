"""Where a run works: which paths are below its folder, and which of them may be edited without asking.

Rules
1. Paths are compared as the file system sees them: every symbolic link is followed first, `..` afterwards.
2. Programs read a path each in their own way. Some take `..` off the text before any link is followed, as shells do for
   `cd`; some take off blanks around it, or an `@` before it. A path is below the folder only in all these readings.
3. What is not certain is outside: a path with a control character, `~user`, `$HOME`, an address, a device, a process.
4. A decision is about a path as it is now. Our own tools open it without following links that came later; an agent
   program opens it by itself, and only a wall holds it to the decision.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator

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
        """Where a path leads as it is written; None when that is not certain."""
        reals = self.reals(path, cwd)
        return reals[0] if reals else None

    def reals(self, path: str, cwd: str = "") -> tuple[str, ...]:
        """Where a path leads in each way that a program may read it, first as it is written; none: that is not certain."""
        paths: dict[str, None] = {}
        for reading in _readings(path):
            place = _expanded(reading)
            if place is None:
                return ()
            for whole in _without_climbing(self.root or "/", cwd, place):
                try:
                    paths[_plain(os.path.realpath(whole))] = None
                except (OSError, ValueError):
                    return ()
        return tuple(paths)

    def holds(self, path: str, cwd: str = "") -> bool:
        """Whether a path is the folder or below it."""
        reals = self.reals(path, cwd)
        return bool(reals) and all(is_below(real, self.root) and not _is_device(real) for real in reals)

    def is_elsewhere(self, path: str, cwd: str = "") -> bool:
        """Whether a path leads out of the folder, however it is read; what is not certain may be anywhere."""
        reals = self.reals(path, cwd)
        return bool(reals) and not any(is_below(real, self.root) for real in reals)

    def may_edit(self, path: str, cwd: str = "") -> bool:
        """Below the folder, not a name that others obey, and not another name of a file elsewhere."""
        reals = self.reals(path, cwd)
        return bool(reals) and all(map(self._may_edit, reals))

    def _may_edit(self, real: str) -> bool:
        if not is_below(real, self.root) or real == _plain(self.root) or self._is_of_a_home(real):
            return False
        if self.guard(os.path.relpath(real, _plain(self.root))):
            return False
        try:
            status = os.lstat(real)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)

    def _is_of_a_home(self, real: str) -> bool:
        """Whether the folder is the user's home, or above it, and the path is one of those by which programs are set up."""
        if _plain(self.root) == "/":
            return True  # the whole system
        home = _plain(os.path.realpath(os.path.expanduser("~")))
        if not is_below(home, self.root) or not is_below(real, home):
            return False
        return os.path.relpath(real, home).startswith((".", "bin/"))


_BLANKS = "\ufeff\u200b\u2060" + "".join(
    map(chr, (*range(0x21), 0x7F, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)))
)
_BLANKS += "\u2028\u2029\u202f\u205f\u3000"
"""What programs in some language take off the ends of a text."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNCERTAIN = re.compile(r"[$%'\"]|\\\\|[A-Za-z][\w+.-]+:|.*://", re.DOTALL)
"""How a path begins that a program may take for a variable, a quoted text or an address."""


def _readings(path: str) -> list[str]:
    """A path as it is written, and in other ways that programs take a text for a path."""
    stripped = path.strip(_BLANKS)
    readings = [path, stripped, stripped.removeprefix("@").strip(_BLANKS)]
    readings += [each.replace("\\", "/") for each in readings if "\\" in each]
    return list(dict.fromkeys(readings))


def _expanded(path: str) -> str | None:
    """The path with `~` written out; None when it is not certain what it is."""
    if not path or _CONTROL.search(path) or _UNCERTAIN.match(path):
        return None
    if not path.startswith("~"):
        return path
    place = os.path.expanduser(path) if path == "~" or path.startswith("~/") else path
    return None if place.startswith("~") else place


def _without_climbing(root: str, cwd: str, path: str) -> Iterator[str]:
    """The whole path; with `..` also as programs read it that take it off the text, before any link is followed."""
    whole = os.path.join(root, cwd, path)
    yield whole
    if ".." in whole:
        yield os.path.join(root, os.path.normpath(cwd) if cwd else "", path)
        yield os.path.join(root, cwd, os.path.normpath(path))
        yield os.path.normpath(whole)


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
