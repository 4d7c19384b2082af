"""The blocks of code in README and the documents: fenced ones, also in lists, and indented ones."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

from source_tree import ROOT

PAGES = [
    page
    for page in (
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        ROOT / "benchmarks/README.md",
    )
    if page.name != "CHANGELOG.md"
]
"""The changelog names things as they were."""
_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^ {4}\S.*\n(?:^ *\n(?= {4}))?)+", re.MULTILINE)
_ITEM = re.compile(r"^(?: *(?:[-*]|\d+\.) .*\n(?:^ +\S.*\n|^\n(?= ))*)+", re.MULTILINE)


class CodeBlock(NamedTuple):
    page: str
    line: int
    kind: str
    """What stands behind the fence; empty for commands and what they print."""
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0].strip()

    @property
    def lines(self) -> list[str]:
        return [line for line in self.text.split("\n") if line.strip()]


def blocks_of(page: str, text: str) -> list[CodeBlock]:
    found = [
        CodeBlock(page, _line(text, match.start()), match[2], textwrap.dedent(match[3]))
        for match in _FENCED.finditer(text)
    ]
    # Of the same length, so that lines keep their numbers; what is indented in a list is its text.
    rest = _ITEM.sub(_blank, _FENCED.sub(_blank, text))
    found += [
        CodeBlock(page, _line(text, match.start()), "", textwrap.dedent(match[0]))
        for match in _INDENTED.finditer(rest)
    ]
    return sorted(found, key=lambda block: block.line)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def all_blocks() -> list[CodeBlock]:
    found = []
    for page in PAGES:
        found += blocks_of(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8"))
    return found
