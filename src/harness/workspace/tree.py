"""Walk a tree of files, and match their names.

Rules: symbolic links are not followed. `.git` is skipped, and so is everything that the `.gitignore` files of
the workspace exclude. A glob without a slash matches names at any depth; one with a slash matches paths, and
`**` matches any number of directories.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

MOST_ALTERNATIVES = 64
_IGNORE_FILE = ".gitignore"
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

_Segments: TypeAlias = list[re.Pattern[str] | None]
"""One pattern per name; None is `**`."""


class Glob:
    def __init__(self, pattern: str) -> None:
        self._alternatives = [_segments(part) for part in _expanded(pattern)]

    def matches(self, path: str) -> bool:
        """`path` is relative, with slashes."""
        parts = path.split("/")
        return any(_fits(segments, parts) for segments in self._alternatives)


def _expanded(pattern: str) -> list[str]:
    """`a.{b,c}` → `a.b`, `a.c`."""
    finished: list[str] = []
    open_ones = [pattern]
    while open_ones and len(finished) + len(open_ones) <= MOST_ALTERNATIVES:
        alternative = open_ones.pop()
        match = _BRACES.search(alternative)
        if match is None:
            finished.append(alternative)
        else:
            choices = match[1].split(",")
            open_ones += [
                alternative[: match.start()] + choice + alternative[match.end() :] for choice in choices
            ]
    return finished + open_ones


def _segments(pattern: str) -> _Segments:
    names = [name for name in pattern.removeprefix("./").split("/") if name]
    if "/" not in pattern:
        names.insert(0, "**")
    return [None if name == "**" else _name_pattern(name) for name in names]


def _name_pattern(name: str) -> re.Pattern[str]:
    # The expressions of `fnmatch` never take long, however many stars there are.
    return re.compile(fnmatch.translate(re.sub(r"\*{2,}", "*", name)))


def _fits(segments: _Segments, parts: list[str]) -> bool:
    """Match segment by segment; if `**` matched too few directories, try one more."""
    place = position = 0
    star, resume = -1, 0
    while position < len(parts):
        segment = segments[place] if place < len(segments) else _NOTHING
        if segment is None:
            star, resume = place, position
            place += 1
            if place == len(segments):
                return True
        elif segment.match(parts[position]):
            place, position = place + 1, position + 1
        elif star >= 0:
            resume += 1
            place, position = star + 1, resume
        else:
            return False
    return place == len(segments)


_NOTHING = re.compile(r"(?!)")


class _Rule(NamedTuple):
    folder: str
    """The folder of the rule, relative to the top, with a trailing slash; empty for the top itself."""
    segments: _Segments
    last: str
    """The expression that the last name of a path must match."""
    is_exception: bool
    is_for_folders: bool


class IgnoreRules:
    """The rules of the `.gitignore` files from the top down to one folder; the last matching rule decides."""

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self.rules = rules
        self._names = re.compile("|".join({rule.last for rule in rules}), re.DOTALL) if rules else _NOTHING

    def and_of(self, folder: str, relative: str) -> IgnoreRules:
        own = _rules(folder, f"{relative}/" if relative else "")
        return IgnoreRules([*self.rules, *own]) if own else self

    def ignore(self, path: str, name: str, *, is_folder: bool) -> bool:
        if not self._names.match(name):  # one check instead of one per rule: most names match none
            return False
        for rule in reversed(self.rules):
            if rule.is_for_folders and not is_folder:
                continue
            if _fits(rule.segments, path[len(rule.folder) :].split("/")):
                return not rule.is_exception
        return False


def _rules(folder: str, relative: str) -> list[_Rule]:
    try:
        with open(os.path.join(folder, _IGNORE_FILE), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(1 << 20).removeprefix("\ufeff").split("\n")
    except (OSError, ValueError):
        return []
    return [rule for line in lines if (rule := _rule(line.rstrip("\r"), relative)) is not None]


def _rule(line: str, folder: str) -> _Rule | None:
    """Parse a line as git does: a backslash escapes the next character, and braces are plain characters."""
    pattern = line
    while pattern.endswith(" ") and not _ESCAPED_BLANK.search(pattern):
        pattern = pattern[:-1]
    if not pattern or pattern.startswith("#"):
        return None
    is_exception = pattern.startswith("!")
    pattern = pattern.removeprefix("!")
    is_for_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    names = [name for name in pattern.split("/") if name]
    if not names:
        return None
    expressions = [None if name == "**" else _ignored_name(name) for name in names]
    segments: _Segments = [None if part is None else re.compile(part, re.DOTALL) for part in expressions]
    if "/" not in pattern:
        segments.insert(0, None)
    return _Rule(folder, segments, expressions[-1] or "", is_exception, is_for_folders)


_ESCAPED_BLANK = re.compile(r"(?<!\\)(?:\\\\)*\\ $")
_IN_BRACKETS = re.compile(r"\[([!^]?)((?:\]|\[:\w+:\]|\\.|[^\]\\])(?:\[:\w+:\]|\\.|[^\]\\])*)\]", re.DOTALL)
_MEMBER = re.compile(r"\[:(\w+):\]|(\\.|.)(?:-(\\.|.))?", re.DOTALL)
_NAMED_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\x0b\\x0c",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


def _ignored_name(name: str) -> str:
    """One name of a `.gitignore` line, as an expression."""
    parts = [""]
    place = 0
    while place < len(name):
        character = name[place]
        place += 1
        if character == "*":
            parts += [""] if parts[-1] or len(parts) == 1 else []
        elif character == "?":
            parts[-1] += "."
        elif character == "\\" and place < len(name):
            parts[-1] += re.escape(name[place])
            place += 1
        elif character == "[":
            match = _IN_BRACKETS.match(name, place - 1)
            if match is None:
                return r"(?!)"  # to git, this rule matches nothing
            parts[-1] += _bracket_class(match[1], match[2])
            place = match.end()
        else:
            parts[-1] += re.escape(character)
    if len(parts) == 1:
        return rf"{parts[0]}\Z"
    # As in `fnmatch`, a star does not backtrack: however many there are, matching never takes long.
    between = "".join(f"(?>.*?{part})" for part in parts[1:-1])
    return rf"{parts[0]}{between}.*{parts[-1]}\Z"


def _bracket_class(sign: str, members: str) -> str:
    body = ""
    for match in _MEMBER.finditer(members):
        low, high = (name[-1:] for name in (match[2] or "", match[3] or ""))
        if match[1]:
            if match[1] not in _NAMED_CLASSES:
                return r"(?!)"
            body += _NAMED_CLASSES[match[1]]
        else:
            # Of a reversed range, git uses only the first character.
            body += f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low)
    return f"[{'^' if sign else ''}{body}]"


class TreeEntry(NamedTuple):
    path: str
    """Absolute."""
    relative: str
    """Relative to the start of the walk."""


def walk(start: str, top: str) -> Iterator[TreeEntry]:
    """All files below `start`, by directory, sorted by name. Never raises; skips what cannot be opened."""
    above = [folder for folder in _folders_above(start) if f"{folder}/".startswith(f"{top.rstrip('/')}/")]
    top = above[0] if above else start
    rules = IgnoreRules(())
    for folder in above:
        rules = rules.and_of(folder, _relative(folder, top))
    waiting = [(start, _relative(start, top), "", rules)]
    while waiting:
        folder, from_top, from_start, inherited = waiting.pop()
        rules = inherited.and_of(folder, from_top)
        folders = []
        for entry in _entries(folder):
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            is_file = entry.is_file(follow_symlinks=False)
            if name == ".git" or not (is_folder or is_file):
                continue
            below_top = f"{from_top}/{name}" if from_top else name
            if rules.ignore(below_top, name, is_folder=is_folder):
                continue
            below_start = f"{from_start}/{name}" if from_start else name
            if is_folder:
                folders.append((entry.path, below_top, below_start, rules))
            else:
                yield TreeEntry(entry.path, below_start)
        waiting += reversed(folders)


def _folders_above(path: str) -> list[str]:
    """The folders above a path, from the root downwards."""
    folders: list[str] = []
    while (parent := os.path.dirname(path)) != path:
        folders.append(parent)
        path = parent
    return folders[::-1]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _relative(path: str, folder: str) -> str:
    return "" if path == folder else os.path.relpath(path, folder)
