"""A command line with the variables written out that it sets itself, for rules about paths.

`for f in *.py; do wc -l "$f"; done` says which files it opens, though not as paths. A variable counts as known only if nothing
but the line can have set it by the time it is used: it is set to plain words at the beginning (`A=x; B=y; …`), or by the
only loop of the line and used inside it, and its name stands nowhere else. All else stays as it is, and is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PLAIN = r"[A-Za-z0-9_./,:@%+*?-]*"
_SET = re.compile(rf"\s*({_NAME})=(?:({_PLAIN})|'({_PLAIN})'|\"({_PLAIN})\")\s*(?:;|\n|&&)")
_LOOP = re.compile(rf"(?<![^\s;&|])for\s+({_NAME})\s+in\s+((?:{_PLAIN}[ \t]+)*{_PLAIN})\s*[;\n]\s*do(?=\s)")
_LOOPS = re.compile(r"(?<![^\s;&|({])(?:for|while|until|select)(?!\S)")
_DONE = re.compile(r"(?<![^\s;&|])done(?![^\s;&|<>)])")
_NUMBER = re.compile(r"\$\(\([\w\s+*/%-]*\)\)")
_SPLITS = re.compile(r"\bIFS\b|\bset\b|\bsetopt\b|\bshopt\b|\bemulate\b")
"""What makes other words of the same text."""
_MOST_LINES = 64
_OF_THE_SHELL = {"HOME": "~", "PWD": "."}


def settled(line: str) -> tuple[str, ...]:
    """The line with each value of the variables that are known; the line itself where none is, or there are too many."""
    line = _NUMBER.sub("0", line)
    if _SPLITS.search(line):
        return (line,)
    values_by_name = {name: values for name, values in _known(line) if _is_used_plainly(name, line)}
    number = 1
    for values in values_by_name.values():
        number *= len(values)
    if not values_by_name or number > _MOST_LINES:
        return (line,)
    return tuple(
        dict.fromkeys(
            _with(line, dict(zip(values_by_name, values, strict=True)))
            for values in product(*values_by_name.values())
        )
    )


def _known(line: str) -> Iterator[tuple[str, list[str]]]:
    values: dict[str, list[str]] = {}
    position = 0
    while match := _SET.match(line, position):
        values.setdefault(match[1], []).append(match[2] or match[3] or match[4] or "")
        position = match.end()
    yield from values.items()
    loop = _LOOP.search(line, position)
    if loop and len(_LOOPS.findall(line)) == 1 and loop[1] not in values and loop[2].split():
        ends = list(_DONE.finditer(line, loop.end()))
        before, after = line[: loop.start()], line[ends[0].start() :] if len(ends) == 1 else line
        if not _mentions(loop[1], before) and not _mentions(loop[1], after):
            yield loop[1], loop[2].split()
    for name, value in _OF_THE_SHELL.items():
        if name not in values and not (name == "PWD" and re.search(r"\b(?:cd|pushd|popd|chdir)\b", line)):
            yield name, [value]


def _mentions(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){name}(?!\w)", text) is not None


def _is_used_plainly(name: str, line: str) -> bool:
    """Used as `$name` and `${name}` alone: zsh reads `$name:r` and `$name[1]` as something else."""
    rest = _SET.sub(lambda match: match[0].replace(f"{name}=", "", 1) if match[1] == name else match[0], line)
    rest = _LOOP.sub(lambda match: "do" if match[1] == name else match[0], rest)
    return not _mentions(name, _use_of(name).sub(" ", rest))


def _use_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"\$(?:{name}(?![\w:\[(])|\{{{name}\}})")


def _with(line: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        line = value.join(_use_of(name).split(line))
    return line
