r"""The regular expressions of `grep`: one dialect, whichever engine searches.

It is the common subset of Python and ripgrep. A pattern is parsed here and rewritten for each engine, so that
both interpret it the same way; what only one of them supports is refused with an explanation.

    .            any character but a line end              \d \s \w       digit, blank, letter or digit or _
    [a-z] [^a]   one of these, none of these               \D \S \W       anything else
    a|b (…)      either, a group                           \b \B          at the edge of a word, or not
    * + ? {2,3}  how often; a further ? takes as few       ^ $            begin and end of the line (CRLF, too)
    (?i) (?i:…)  whatever the case                         \t \x41 \u00e9  characters

A brace that is not a repetition is a plain brace: `interface{}`. Bytes that are not UTF-8 match nothing.
"""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple, TypeAlias

MOST_REPETITIONS = 1000
LONGEST_PATTERN = 5000
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_CHARACTERS = ((0, 9), (11, _SURROGATES[0] - 1), (_SURROGATES[1] + 1, _LAST_CHARACTER))
"""All characters that a line can contain."""
_NEVER = "\\n\\udc80-\\udcff"
"""Never matched: the end of a line, and bytes that are not UTF-8, as Python's engine sees them."""
_SPACE = r"\t\x0b\x0c\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

_Range: TypeAlias = tuple[int, int]


class Expression(NamedTuple):
    """One pattern for each engine. `^` and `$` refer to lines (`re.MULTILINE`); no match spans lines."""

    python: str
    ripgrep: str


class NotUnderstood(ValueError):
    """The message names the part of the pattern, and what to write instead."""


class _Kind(NamedTuple):
    r"""The members of a class for `\d` and similar escapes."""

    python: str
    ripgrep: str


_KINDS = {
    "d": _Kind("0-9", "0-9"),
    "s": _Kind(_SPACE, _SPACE),
    "w": _Kind("\\w", "\\p{L}\\p{N}_"),
}
_SINGLE = {"t": 9, "v": 11, "f": 12, "r": 13, "a": 7, "e": 27, "0": 0}
_CODE = re.compile(
    r"x\{([0-9a-fA-F]{1,6})\}|u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
)
_COUNT = re.compile(r"\{(?:(\d+)(,(\d*))?|,(\d+))\}")
_NAMED = re.compile(r"\[:\^?\w+:\]")
_GROUP = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)")
_FLAGS = re.compile(r"\?([ims]*)(?:-([ims]+))?([:)])")
_BY_LINE = (
    "a search goes line by line, so a line feed is never found; search for one of the lines, with context"
)
_REFUSED = (
    (re.compile(r"\?<?[=!]"), "look-ahead and look-behind are not understood"),
    (re.compile(r"\?P="), "references to a group are not understood"),
    (re.compile(r"\?>"), "atomic groups are not understood"),
    (re.compile(r"\?\("), "conditions are not understood"),
)


def translated(pattern: str, *, ignore_case: bool = False) -> Expression:
    """Raises NotUnderstood."""
    if len(pattern) > LONGEST_PATTERN:
        raise NotUnderstood(f"there are more than {LONGEST_PATTERN} characters")
    reader = _Reader(pattern)
    reader.read()
    begin = "(?i)" if ignore_case or reader.ignores_case else ""
    expression = Expression(begin + "".join(reader.python), begin + "".join(reader.ripgrep))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(expression.python)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotUnderstood(getattr(error, "msg", "") or str(error)) from None
    return expression


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.python: list[str] = []
        self.ripgrep: list[str] = []
        self.ignores_case = False
        self._pattern = pattern
        self._place = 0

    def read(self) -> None:
        if match := re.match(r"\(\?([ims]+)\)", self._pattern):
            self.ignores_case = "i" in match[1]
            self._place = match.end()
        while self._place < len(self._pattern):
            self._one()

    def _one(self) -> None:
        character = self._pattern[self._place]
        self._place += 1
        if character in _PLAIN_SYNTAX:
            self._write(*_PLAIN_SYNTAX[character])
        elif character == "\\":
            self._escaped()
        elif character == "[":
            self._class()
        elif character == "(":
            self._group()
        elif character in "*+?{":
            self._repetition(character)
        else:
            self._character(ord(character))

    def _write(self, python: str, ripgrep: str) -> None:
        self.python.append(python)
        self.ripgrep.append(ripgrep)

    def _character(self, code: int) -> None:
        character_written = _written(_checked(code))
        self._write(character_written, character_written)

    def _escaped(self) -> None:
        kind = self._pattern[self._place : self._place + 1]
        if kind and kind in "bB":
            self._place += 1
            self._write(f"\\{kind}", f"\\{kind}")
        elif kind and kind.lower() in _KINDS:
            self._place += 1
            kind_found = _KINDS[kind.lower()]
            if kind.islower():
                self._write(f"[{kind_found.python}]", f"[{kind_found.ripgrep}]")
            else:
                self._write(f"[^{kind_found.python}{_NEVER}]", f"[^{kind_found.ripgrep}]")
        else:
            self._character(self._code())

    def _code(self) -> int:
        """The character that an escape names."""
        if match := _CODE.match(self._pattern, self._place):
            self._place = match.end()
            return int(next(digits for digits in match.groups() if digits), 16)
        name = self._pattern[self._place : self._place + 1]
        self._place += 1
        if not name:
            raise NotUnderstood("it ends with a backslash")
        if name == "n":
            raise NotUnderstood(_BY_LINE)
        if name in _SINGLE:
            return _SINGLE[name]
        if name in "AZzG":
            raise NotUnderstood(f"\\{name} is not understood: write ^ or $")
        if name in "pP":
            raise NotUnderstood(f"\\{name} is not understood: write the characters, such as [a-zäöü]")
        if name.isdigit():
            raise NotUnderstood(f"\\{name}: references to a group are not understood")
        if name.isascii() and name.isalpha():
            raise NotUnderstood(f"\\{name} is not understood")
        return ord(name)

    def _group(self) -> None:
        if match := _GROUP.match(self._pattern, self._place):
            self._place = match.end()
            self._write("(?:", "(?:")
            return
        if match := _FLAGS.match(self._pattern, self._place):
            if match[3] == ")":
                raise NotUnderstood(f"({match[0]} belongs at the beginning")
            self._place = match.end()
            sign = "i" if "i" in match[1] else "-i" if "i" in (match[2] or "") else ""
            self._write(f"(?{sign}:", f"(?{sign}:")
            return
        for refused, why in _REFUSED:
            if refused.match(self._pattern, self._place):
                raise NotUnderstood(why)
        if self._pattern.startswith("?", self._place):
            raise NotUnderstood(
                f"({self._pattern[self._place : self._place + 3]} begins nothing that is understood"
            )
        self._write("(?:", "(?:")

    def _repetition(self, character: str) -> None:
        expression = character
        if character == "{":
            match = _COUNT.match(self._pattern, self._place - 1)
            if match is None:
                self._character(ord("{"))
                return
            self._place = match.end()
            expression = _count(match)
        following = self._pattern[self._place : self._place + 1]
        if following == "+":
            raise NotUnderstood(f"{expression}+: repetitions that give nothing back are not understood")
        if following == "?":
            self._place += 1
            expression += "?"
        self._write(expression, expression)

    def _class(self) -> None:
        start = self._place - 1
        is_negated = self._pattern.startswith("^", self._place)
        self._place += is_negated
        ranges: list[_Range] = []
        kinds: list[str] = []
        is_first = True
        while is_first or not self._pattern.startswith("]", self._place):
            if self._place >= len(self._pattern):
                raise NotUnderstood(f"the [ at {start + 1} is not closed: write \\[ for the character")
            is_first = False
            self._member(ranges, kinds)
        self._place += 1
        self._write(*_written_class(ranges, kinds, is_negated=is_negated))

    def _member(self, ranges: list[_Range], kinds: list[str]) -> None:
        low = self._class_character(kinds)
        is_range = self._pattern.startswith("-", self._place) and self._pattern[
            self._place + 1 : self._place + 2
        ] not in ("", "]")
        if not is_range:
            if low is not None:
                ranges.append((low, low))
            return
        self._place += 1
        count = len(kinds)
        high = self._class_character(kinds)
        if low is None or high is None or len(kinds) > count:
            raise NotUnderstood("a range of characters has a class at one end: write - last in the brackets")
        if high < low:
            raise NotUnderstood(f"the range {chr(low)}-{chr(high)} is the wrong way round")
        ranges.append((low, high))

    def _class_character(self, kinds: list[str]) -> int | None:
        """None when it was one of `_KINDS`, which is then in the list."""
        if match := _NAMED.match(self._pattern, self._place):
            raise NotUnderstood(f"{match[0]} is not understood: write the characters, such as [a-zA-Z]")
        character = self._pattern[self._place]
        self._place += 1
        if character != "\\":
            return 0 if character == "\0" else ord(character)
        name = self._pattern[self._place : self._place + 1]
        if name and name.lower() in _KINDS:
            self._place += 1
            kinds.append(name)
            return None
        if name in ("b", "n"):
            self._place += 1
            return {"b": 8, "n": 10}[name]
        return self._code()


def _checked(code: int) -> int:
    if code == ord("\n"):
        raise NotUnderstood(_BY_LINE)
    if code > _LAST_CHARACTER or _SURROGATES[0] <= code <= _SURROGATES[1]:
        raise NotUnderstood(f"{code:x} is the number of no character")
    return code


def _count(match: re.Match[str]) -> str:
    least = int(match[1] or 0)
    most = match[4] or (match[3] if match[2] else match[1])
    for number in (least, int(most or 0)):
        if number > MOST_REPETITIONS:
            raise NotUnderstood(f"{match[0]}: at most {MOST_REPETITIONS} repetitions can be counted")
    return f"{{{least},{int(most) if most else ''}}}"


def _written_class(ranges: list[_Range], kinds: list[str], *, is_negated: bool) -> tuple[str, str]:
    valid = [part for written_range in ranges for part in _valid(written_range)]
    python = ripgrep = "".join(f"{_written(low)}-{_written(high)}" for low, high in valid)
    for name in kinds:
        if name.islower():
            python += _KINDS[name].python
            ripgrep += _KINDS[name].ripgrep
    others = [_KINDS[name.lower()] for name in kinds if name.isupper()]
    ripgrep += "".join(f"[^{kind.ripgrep}]" for kind in others)
    if not ripgrep:  # only code points that are not characters
        return (f"[^{_NEVER}]", "[^\\n]") if is_negated else ("(?!)", "[^\\x{0}-\\x{10FFFF}]")
    if not others:
        return (f"[^{python}{_NEVER}]", f"[^{ripgrep}]") if is_negated else (f"[{python}]", f"[{ripgrep}]")
    # Python's engine has no nested classes.
    either = "|".join(
        [*(f"[^{kind.python}{_NEVER}]" for kind in others), *([f"[{python}]"] if python else [])]
    )
    if is_negated:
        return f"(?:(?!{either})[^{_NEVER}])", f"[^{ripgrep}]"
    return f"(?:{either})", f"[{ripgrep}]"


def _valid(written_range: _Range) -> list[_Range]:
    """The range without line ends and without code points that are not characters."""
    low, high = written_range
    if high > _LAST_CHARACTER:
        raise NotUnderstood(f"{high:x} is the number of no character")
    parts = [(max(low, first), min(high, last)) for first, last in _CHARACTERS]
    return [(first, last) for first, last in parts if first <= last]


def _written(code: int) -> str:
    """A character as both engines read it, inside or outside brackets."""
    character = chr(code)
    if character.isalnum() or character in "_/ \"'":
        return character
    return f"\\U{code:08x}"


_PLAIN_SYNTAX = {
    ".": (f"[^\\r{_NEVER}]", "[^\\r\\n]"),
    "^": ("^", "^"),
    "$": ("(?:\\r?$)", "(?:\\r?$)"),
    "|": ("|", "|"),
    ")": (")", ")"),
}
