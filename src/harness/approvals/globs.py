"""Globs of rules: `*` is any text (also `/`, blanks and line ends), `?` one character, `[ab]` one of these,
`{a,b}` either; a backslash takes the next character as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_TOKEN = re.compile(
    r"\\(?P<escaped>.)|(?P<stars>\*+)|(?P<any>\?)|\[(?P<no>[!^]?)(?P<set>[^\]]+)\]", re.DOTALL
)
_SPECIAL = re.compile(r"[\\*?\[\]{}]")


def matches(glob: str, text: str) -> bool:
    return expression(glob).fullmatch(text) is not None


def is_exactly(glob: str, text: str) -> bool:
    """Whether a glob allows this text and no other."""
    return glob == text or _translated(glob) == re.escape(text)


def escaped(text: str) -> str:
    """The glob of this text alone."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def literal(glob: str) -> str:
    """The text of a glob that `escaped` made."""
    return re.sub(r"\\(.)", r"\1", glob, flags=re.DOTALL)


@lru_cache(maxsize=1024)
def expression(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression; what is not well formed is taken literally."""
    try:
        return re.compile(_translated(glob), re.DOTALL)
    except re.error:  # a reversed range
        return re.compile(re.escape(glob))


def problem_of(glob: str) -> str:
    """What is wrong with a glob that a person wrote; empty: nothing."""
    try:
        re.compile(_translated(glob))
    except re.error as error:
        return f"{glob!r} is no glob: {error}"
    brackets = len(re.findall(r"(?<!\\)\[", glob))
    closed = len(re.findall(r"(?<!\\)\]", glob))
    return f"{glob!r} is no glob: a bracket is not closed" if brackets > closed else ""


def _translated(glob: str) -> str:
    parts: list[str] = []
    position = 0
    while position < len(glob):
        token = _TOKEN.match(glob, position)
        if token is not None:
            parts.append(_token_expression(token))
            position = token.end()
        elif glob[position] == "{" and (choices := _choices(glob, position)) is not None:
            parts.append("(?:" + "|".join(map(_translated, choices.texts)) + ")")
            position = choices.end
        else:
            parts.append(re.escape(glob[position]))
            position += 1
    return "".join(parts)


def _token_expression(token: re.Match[str]) -> str:
    if token["escaped"] is not None:
        return re.escape(token["escaped"])
    if token["set"] is not None:
        # A range is a range; anything else in the set is taken literally.
        inside = re.sub(r"[\\^\[&~|]", r"\\\g<0>", token["set"])
        return f"[{'^' if token['no'] else ''}{inside}]"
    return ".*" if token["stars"] else "."


class _Choices(NamedTuple):
    texts: list[str]
    end: int


def _choices(glob: str, start: int) -> _Choices | None:
    """The alternatives between braces, by commas; None when they do not close, or hold no choice."""
    depth, position, begin = 0, start, start + 1
    texts: list[str] = []
    while position < len(glob):
        character = glob[position]
        if character == "\\":
            position += 1
        elif character == "{":
            depth += 1
        elif character == "," and depth == 1:
            texts.append(glob[begin:position])
            begin = position + 1
        elif character == "}":
            depth -= 1
            if not depth:
                texts.append(glob[begin:position])
                return _Choices(texts, position + 1) if len(texts) > 1 else None
        position += 1
    return None
