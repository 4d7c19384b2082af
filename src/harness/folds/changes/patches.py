"""Patches that agents write: unified diffs, and those between `*** Begin Patch` and `*** End Patch`.

A patch says for each file which lines replace which. Where it has no line numbers, the place is found by the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_START = re.compile(
    r"^(?:diff --git |--- |\*\*\* (?:Begin Patch|Add File|Update File|Delete File)|@@ )", re.MULTILINE
)
_CHANGED = re.compile(r"^[+-]", re.MULTILINE)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = re.compile(r"\*\*\* Move to: (.+)")
_NO_FILE = "/dev/null"
_KINDS = {"Add": "create", "Update": "update", "Delete": "delete"}


class PatchHunk(msgspec.Struct):
    """Whole lines `old`, which become `new`."""

    old: str = ""
    new: str = ""
    line: int | None = None
    """The number of its first line in the new text, if the patch says it."""


class PatchedFile(msgspec.Struct):
    path: str
    change: str = "update"
    moved_to: str = ""
    hunks: list[PatchHunk] = []


def is_patch(text: str) -> bool:
    return _START.search(text) is not None and _CHANGED.search(text) is not None


def files_of_patch(text: str, path: str = "") -> list[PatchedFile]:
    """What a patch changes. `path`: of a patch that names no file. Lines that are not understood are skipped."""
    reader = _PatchReader(path)
    for line in text.rstrip("\n").split("\n"):
        reader.feed(line)
    return [file for file in reader.files if file.path]


class _PatchReader:
    def __init__(self, path: str) -> None:
        self.files: list[PatchedFile] = [PatchedFile(path)] if path else []
        self._hunk: PatchHunk | None = None
        self._left_old = self._left_new = 0
        """How many lines of the hunk are still to come, of a patch that counts them."""
        self._is_counted = False
        self._old_path = ""
        self._last = ""

    def feed(self, line: str) -> None:
        if self._is_counted and (self._left_old > 0 or self._left_new > 0):
            self._content(line)
        elif line.startswith("*** "):
            self._marker(line)
        elif match := _HUNK.match(line):
            self._begin(int(match[3]), match)
        elif line.startswith("@@"):
            self._begin(None, None)
        elif line.startswith("diff --git "):
            self._hunk, self._old_path = None, ""
        elif line.startswith("--- ") and not self._is_in_open_hunk():
            self._hunk, self._old_path = None, _path_in(line)
        elif line.startswith("+++ ") and not self._is_in_open_hunk():
            self._unified(_path_in(line))
        elif line.startswith("\\"):
            self._end_open()
        else:
            self._content(line)

    def _is_in_open_hunk(self) -> bool:
        return self._hunk is not None and not self._is_counted

    def _marker(self, line: str) -> None:
        if match := _FILE.match(line):
            self.files.append(PatchedFile(match[2].strip(), _KINDS[match[1]], "", []))
            self._hunk = None
            if match[1] == "Add":
                self._begin(1, None)
        elif (match := _MOVE.match(line)) and self.files:
            self.files[-1].change, self.files[-1].moved_to = "move", match[1].strip()
        elif line.startswith("*** End Patch"):
            self._hunk = None

    def _unified(self, new_path: str) -> None:
        old_path = self._old_path
        path = new_path if new_path != _NO_FILE else old_path
        if len(self.files) == 1 and not self.files[0].hunks and self.files[0].path.endswith(path):
            return  # the header of a patch whose file is known
        change = "create" if old_path == _NO_FILE else "delete" if new_path == _NO_FILE else "update"
        self.files.append(PatchedFile(path, change, "", []))
        self._hunk = None

    def _begin(self, line: int | None, match: re.Match[str] | None) -> None:
        if not self.files:
            return
        self._hunk = PatchHunk("", "", line)
        self._is_counted = match is not None
        if match is not None:
            self._left_old, self._left_new = int(match[2] or 1), int(match[4] or 1)
        self.files[-1].hunks.append(self._hunk)

    def _content(self, line: str) -> None:
        hunk = self._hunk
        if hunk is None:
            return
        sign, text = line[:1], f"{line[1:]}\n"
        if sign == "\\":
            self._end_open()
            return
        if sign in ("-", " ", ""):
            hunk.old += text
            self._left_old -= 1
        if sign in ("+", " ", ""):
            hunk.new += text
            self._left_new -= 1
        self._last = sign

    def _end_open(self) -> None:
        """The line before this one has no line feed."""
        if self._hunk is None:
            return
        if self._last in ("-", " "):
            self._hunk.old = self._hunk.old.removesuffix("\n")
        if self._last in ("+", " "):
            self._hunk.new = self._hunk.new.removesuffix("\n")


def _path_in(line: str) -> str:
    """The path of a `---` or `+++` line, without a date and the letter that git writes before it."""
    path = line[4:].split("\t", maxsplit=1)[0].strip().strip('"')
    return path[2:] if path[:2] in ("a/", "b/") else path


def hunks_in(text: str) -> Iterator[PatchHunk]:
    """The hunks of a patch of one file."""
    for file in files_of_patch(text, "-"):
        yield from file.hunks
