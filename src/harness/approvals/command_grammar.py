r"""Command lines that every shell reads in the same way, and nothing else: what may be judged word by word.

    line    = command { ("&&" | "||" | ";" | "|") command }
    command = name { word | "2>&1" | "2>/dev/null" }
    name    = [a-z]+                                                      so no path, assignment, keyword or quoting
    word    = { bare | '…' | "…" }     bare = A-Za-z0-9 _ . / , : @ % + = -     not beginning with =
              '…' without \      "…" without \ $ ` !

Only printable ASCII of at most 2,000 characters; blanks are spaces. There is no expansion, glob, brace, `~`, `#`,
history or redirection in it that bash, dash, zsh and fish could disagree about. A line that is not of this grammar
is not wrong: it is asked about.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST_LINE = 2_000
_BARE = r"[A-Za-z0-9_./,:@%+=-]"
_TOKEN = re.compile(
    rf"""
      (?P<blank>[ ]+)
    | (?P<join>&& | \|\|(?!\|) | ;(?![;&|]) | \|(?![|&]))
    | (?P<quiet>2>(?:&1|/dev/null)(?=[ ;|]|$))
    | (?P<word>(?:{_BARE}|'[^'\\]*'|"[^"\\$`!]*")+)
    """,
    re.VERBOSE,
)
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_NAME = re.compile(r"[a-z]+")


def names(text: str) -> frozenset[str]:
    """A set of words, for tables."""
    return frozenset(text.split())


class PlainLine(NamedTuple):
    """A line of the grammar."""

    commands: list[list[str]]
    """The words of each command, without their quotes."""
    joins: list[str]
    """What stands between them."""


def parse(line: str) -> PlainLine | None:
    """The commands of a line; None where it is not of the grammar."""
    if not line.isascii() or not line.isprintable() or len(line) > LONGEST_LINE:
        return None
    commands: list[list[str]] = [[]]
    joins: list[str] = []
    position, is_apart = 0, True
    while position < len(line):
        token = _TOKEN.match(line, position)
        if token is None:
            return None
        position, text = token.end(), token[0]
        match token.lastgroup:
            case "blank":
                is_apart = True
                continue
            case "join":
                if not commands[-1]:
                    return None
                commands.append([])
                joins.append(text)
                is_apart = True
                continue
            case "quiet" if not commands[-1]:
                return None
            case "word" if text.startswith("=") or (not commands[-1] and _NAME.fullmatch(text) is None):
                return None
        if not is_apart:
            return None
        is_apart = False
        if token.lastgroup == "word":
            commands[-1].append(_QUOTED.sub(lambda part: part[1] or part[2] or "", text))
    return PlainLine(commands, joins) if commands[-1] else None
