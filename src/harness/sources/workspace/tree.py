"""Walk, match and search a tree of files. Also a program: `python tree.py '{"pattern": …}'` searches.

It is run as a program because a regular expression that a model wrote may never end, and Python cannot
interrupt one. So this file imports nothing of Harness.

Rules: symbolic links are not followed. `.git` is left out, and so is what `.gitignore` files, from the top
of the workspace downwards, say. A glob without a slash is about names, at any depth; one with a slash is
about paths, and `**` stands for any number of directories.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

MOST_ALTERNATIVES = 64
LARGEST_SEARCHED_BYTES = 64 * 1024 * 1024
LONGEST_LINE = 500
_SNIFFED_BYTES = 8192
_IGNORE_FILE = ".gitignore"
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

_Segments: TypeAlias = list[re.Pattern[str] | None]
"""Patterns of names; None is `**`."""


class Glob:
    def __init__(self, pattern: str) -> None:
        self._alternatives = [_segments(one) for one in _expanded(pattern)]

    def matches(self, path: str) -> bool:
        """`path` is relative, with slashes."""
        parts = path.split("/")
        return any(_fits(segments, parts) for segments in self._alternatives)


def _expanded(pattern: str) -> list[str]:
    """`a.{b,c}` → `a.b`, `a.c`."""
    done: list[str] = []
    open_ones = [pattern]
    while open_ones and len(done) + len(open_ones) <= MOST_ALTERNATIVES:
        one = open_ones.pop()
        found = _BRACES.search(one)
        if found is None:
            done.append(one)
        else:
            choices = found[1].split(",")
            open_ones += [one[: found.start()] + choice + one[found.end() :] for choice in choices]
    return done + open_ones


def _segments(pattern: str) -> _Segments:
    names = [name for name in pattern.removeprefix("./").split("/") if name]
    if "/" not in pattern:
        names.insert(0, "**")
    return [None if name == "**" else _name_pattern(name) for name in names]


def _name_pattern(name: str) -> re.Pattern[str]:
    # `fnmatch` writes expressions that never take long, however many stars there are.
    return re.compile(fnmatch.translate(re.sub(r"\*{2,}", "*", name)))


def _fits(segments: _Segments, parts: list[str]) -> bool:
    """Names against names; where `**` took too few directories, it takes one more."""
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
    """Where the rule was read, relative to the top; empty for the top itself."""
    glob: Glob
    is_exception: bool
    is_for_folders: bool


def _rules(folder: str, relative: str) -> list[_Rule]:
    try:
        with open(os.path.join(folder, _IGNORE_FILE), encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 20).split("\n")
    except (OSError, ValueError):
        return []
    return [rule for line in lines if (rule := _rule(line.rstrip("\r"), relative)) is not None]


def _rule(line: str, folder: str) -> _Rule | None:
    pattern = line if line.endswith("\\ ") else line.rstrip(" ")
    if not pattern or pattern.startswith("#"):
        return None
    is_exception = pattern.startswith("!")
    pattern = pattern.removeprefix("!").removeprefix("\\")
    is_for_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    return _Rule(folder, Glob(pattern), is_exception, is_for_folders) if pattern.strip("/") else None


def _is_ignored(rules: Sequence[_Rule], path: str, *, is_folder: bool) -> bool:
    """The last rule that says something of a path decides."""
    for rule in reversed(rules):
        if rule.is_for_folders and not is_folder:
            continue
        below = path[len(rule.folder) + 1 :] if rule.folder else path
        if rule.glob.matches(below):
            return not rule.is_exception
    return False


class Entry(NamedTuple):
    path: str
    """Absolute."""
    relative: str
    """To the start of the walk."""


def walk(start: str, top: str) -> Iterator[Entry]:
    """All files below `start`, directory by directory, by name. Never raises; skips what cannot be opened."""
    above = [folder for folder in _folders_above(start) if f"{folder}/".startswith(f"{top}/")]
    top = above[0] if above else start
    waiting = [(start, [rule for folder in above for rule in _rules(folder, _relative(folder, top))])]
    while waiting:
        folder, inherited = waiting.pop()
        own = _rules(folder, _relative(folder, top))
        rules = [*inherited, *own] if own else inherited
        folders = []
        for entry in _entries(folder):
            is_folder = entry.is_dir(follow_symlinks=False)
            is_file = entry.is_file(follow_symlinks=False)
            if entry.name == ".git" or not (is_folder or is_file):
                continue
            if rules and _is_ignored(rules, _relative(entry.path, top), is_folder=is_folder):
                continue
            if is_folder:
                folders.append((entry.path, rules))
            else:
                yield Entry(entry.path, _relative(entry.path, start))
        waiting += reversed(folders)


def _folders_above(path: str) -> list[str]:
    """From the root downwards."""
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


def search(query: dict[str, Any]) -> Iterator[str]:
    """Lines as ripgrep writes them with `--null`: path, NUL, number, `:` or `-`, text; `--` between groups.

    Raises re.error.
    """
    expression = re.compile(query["pattern"], re.IGNORECASE if query["ignore_case"] else 0)
    include = Glob(query["include"]) if query["include"] else None
    start, context = query["start"], query["context"]
    is_file = os.path.isfile(start)
    entries: Iterator[Entry] = iter([Entry(start, start)]) if is_file else walk(start, query["top"])
    is_first = True
    for entry in entries:
        if include is not None and not include.matches(entry.relative):
            continue
        lines = _lines(entry.path)
        hits = {number: None for number, line in enumerate(lines) if expression.search(line)}
        if query["files_only"]:
            if hits:
                yield f"{entry.path}\0"
            continue
        for group in _groups(hits, context, len(lines)):
            if context and not is_first:
                yield "--"
            is_first = False
            for number in group:
                sign = ":" if number in hits else "-"
                yield f"{entry.path}\0{number + 1}{sign}{lines[number][:LONGEST_LINE]}"


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_SEARCHED_BYTES)
    except OSError:
        return []
    if b"\0" in data[:_SNIFFED_BYTES]:
        return []
    lines = data.decode("utf-8", "replace").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _groups(hits: Iterable[int], context: int, count: int) -> Iterator[range]:
    """Lines to be shown, joined where they touch."""
    begin = end = -1
    for hit in hits:
        first, last = max(0, hit - context), min(count, hit + context + 1)
        if begin >= 0 and first <= end:
            end = last
            continue
        if begin >= 0:
            yield range(begin, end)
        begin, end = first, last
    if begin >= 0:
        yield range(begin, end)


def main() -> int:
    import json

    found = False
    try:
        for line in search(json.loads(sys.argv[1])):
            found = True
            sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
        sys.stdout.buffer.flush()
    except re.error as error:
        sys.stderr.write(f"the pattern is no regular expression: {error}\n")
        return 2
    except BrokenPipeError:
        return 0
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
