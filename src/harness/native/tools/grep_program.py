"""Search files by a regular expression. A program: `python grep_program.py '{"expression": …}' < names`.

It is a separate program because matching a model's expression may run forever, and Python cannot interrupt
it. This file imports nothing of Harness. Expressions come from `grep_pattern.py`; file names end with NUL.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

LARGEST_SEARCHED_BYTES = 64 * 1024 * 1024
LONGEST_LINE = 500
_SNIFFED_BYTES = 8192
_UTF_8_MARK, _UTF_16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def search(query: dict[str, Any], paths: Iterable[str]) -> Iterator[str]:
    """Yields path, NUL, number, `:` or `-`, text; `--` between groups; with `files_only`, path and NUL."""
    expression = re.compile(query["expression"], re.MULTILINE)
    context, is_first = query["context"], True
    for path in paths:
        text = _text(path)
        hits = dict.fromkeys(_hits(expression, text))
        lines = _lines(text) if hits else []
        name_shown = path.replace("\n", "\\n")
        if query["files_only"]:
            if hits:
                yield f"{name_shown}\0"
            continue
        for group in _groups(hits, context, len(lines)):
            if context and not is_first:
                yield "--"
            is_first = False
            for number in group:
                sign = ":" if number in hits else "-"
                yield f"{name_shown}\0{number + 1}{sign}{_shown(lines[number])}"


def _shown(line: str) -> str:
    line = line.removesuffix("\r")
    line = f"{line[:LONGEST_LINE]} [cut]" if len(line) > LONGEST_LINE else line
    return line.replace("\0", "\\0")


def _text(path: str) -> str:
    """The text of a file; empty when it is not text."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_SEARCHED_BYTES)
    except OSError:
        return ""
    if data.startswith(_UTF_16_MARKS):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:_SNIFFED_BYTES]:
        return ""
    return data.removeprefix(_UTF_8_MARK).decode("utf-8", "surrogateescape")


def _hits(expression: re.Pattern[str], text: str) -> Iterator[int]:
    """The numbers of matching lines, from 0. No match spans lines, so the text is searched as a whole."""
    place = counted_to = number = 0
    while place < len(text) and (match := expression.search(text, place)):
        start = match.start()
        if start == len(text) and text.endswith("\n"):  # after the last line
            return
        number += text.count("\n", counted_to, start)
        counted_to = start
        yield number
        place = text.find("\n", start) + 1
        if not place:
            return


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


def _groups(hits: Iterable[int], context: int, count: int) -> Iterator[range]:
    """Ranges of lines to show, joined where they touch."""
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

    try:
        paths = filter(None, os.fsdecode(sys.stdin.buffer.read()).split("\0"))
        for line in search(json.loads(sys.argv[1]), paths):
            sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader has seen enough
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
