"""Rules that name arguments: `params` maps an argument to a glob.

Rules
1. A glob is compared with the whole argument, except where the call runs a command: there texts are command lines, a
   glob allows single commands, and a line is allowed when each of its commands is, by one rule or another. A line that
   cannot be parsed with certainty is only allowed by the exact text. A call of which nothing is known may or may not
   take command lines: for it, a glob of several words (`git *`) allows no text that could be several commands.
2. A glob never allows a path that climbs with `..` (`src/../../etc/passwd` is not below `src/`).
3. A denial matches broadly: one part of a line is enough, or the path that is meant, or the path to which symbolic
   links lead from there at this moment.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from harness.approvals.call import ProposedCall
from harness.approvals.command_fragments import fragments_of
from harness.approvals.command_lines import commands_of
from harness.approvals.globs import expression, is_exactly
from harness.system import exact_json

SHELL_ACTIVE = re.compile(r"[;&|<>`\r\n\x00]|\$[({\['\"]")
"""What makes more than one command of a line, or hides one in it."""
_ANYTHING = re.compile(r"\*+")
_BLANK = re.compile(r"\s")


class ArgumentRule(NamedTuple):
    """Arguments that a rule demands."""

    params: Mapping[str, str] | None
    closed: bool = False
    """The call has no other arguments."""


class CallArguments:
    """The arguments of one call, as rules see them."""

    def __init__(self, call: ProposedCall) -> None:
        arguments = call.input if isinstance(call.input, dict) else {"input": call.input}
        self._texts = {name: spelled(value) for name, value in arguments.items()}
        self._is_unknown = call.category in ("unknown", "mcp")
        self._lines = {
            name: text
            for name, text in arguments.items()
            if call.category == "execute" and isinstance(text, str)
        }
        """Texts that are, or may become, part of a command line: only the tool knows how it combines them."""
        self._paths = call.paths if call.category in ("read", "edit") else ()

    def fitting(self, rules: Sequence[ArgumentRule]) -> set[int] | None:
        """The places of the rules that allow it together; None when it is not allowed."""
        for place, rule in enumerate(rules):
            if self._fits(rule, {}):
                return {place}
        names = {_folded(name) for rule in rules for name in rule.params or ()}
        lines = {name: text for name, text in self._lines.items() if _folded(name) in names}
        if not lines:
            return None
        taken_places: set[int] = set()
        for commands in product(*(commands_of(line) or () for line in lines.values())):
            single = dict(zip(lines, commands, strict=True))
            place = next((place for place, rule in enumerate(rules) if self._fits(rule, single)), -1)
            if place < 0:
                return None
            taken_places.add(place)
        return taken_places or None

    def touches(self, params: Mapping[str, str]) -> bool:
        """Whether every listed argument, or something in it, fits its glob."""
        return all(self._touches(name, glob) for name, glob in params.items())

    def _touches(self, name: str, glob: str) -> bool:
        pattern = expression(glob)
        return any(
            pattern.fullmatch(variant) is not None
            for spelling in self._spellings(name)
            for variant in self._variants(spelling)
        )

    def _fits(self, rule: ArgumentRule, single: Mapping[str, str]) -> bool:
        """`single`: the one command of each line that is looked at; without it lines count as they are."""
        if rule.closed:
            names = {_folded(name) for name in rule.params or ()}
            if any(_folded(name) not in names for name in self._texts):
                return False
        return all(
            (spellings := self._spellings(name))
            and all(self._covers(glob, spelling, single) for spelling in spellings)
            for name, glob in (rule.params or {}).items()
        )

    def _covers(self, glob: str, name: str, single: Mapping[str, str]) -> bool:
        text = self._texts[name]
        is_whole_line = name in self._lines and name not in single
        if is_whole_line or (self._paths and _climbs(text)):
            return is_exactly(glob, text)
        if self._is_unknown and _could_be_commands(text, glob):
            return is_exactly(glob, text)
        return expression(glob).fullmatch(single.get(name, text)) is not None

    def _spellings(self, name: str) -> list[str]:
        """The arguments that a tool may take for this one: tools are lenient about `file_path` and `filePath`."""
        folded = _folded(name)
        return [each for each in self._texts if each == name or _folded(each) == folded]

    def _variants(self, name: str) -> Iterator[str]:
        text = self._texts[name]
        yield text
        if name in self._lines:
            yield from fragments_of(text)
        if self._paths and text and "\n" not in text:
            normal_path = posixpath.normpath(text)
            yield normal_path
            same_names = [path for path in self._paths if path.endswith(posixpath.basename(normal_path))]
            yield from same_names
            yield from _from_any_folder(normal_path)
            for real in dict.fromkeys(
                real for path in same_names for real in _real_paths(text, normal_path, path)
            ):
                yield real
                yield from _from_any_folder(real)


def spelled(value: Any) -> str:
    """An argument as text, as rules compare it."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return exact_json.encode(value).decode()
    return str(value)


def _real_paths(text: str, normal_path: str, path: str) -> Iterator[str]:
    """Where symbolic links lead; also from the middle of a text, since `link/..` is not where the link is."""
    folder = path.removesuffix(normal_path) if not normal_path.startswith("/") else "/"
    for place in (path, os.path.join(folder, os.path.expanduser(text))):
        try:
            real = os.path.realpath(place)
        except (OSError, ValueError):  # no usable path: no tool will touch it
            continue
        if real != path:
            yield real


def _from_any_folder(path: str) -> Iterator[str]:
    """A glob may be meant from any folder."""
    if path.startswith("/"):
        steps = path.split("/")
        yield from ("/".join(steps[start:]) for start in range(1, len(steps)))


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _climbs(text: str) -> bool:
    return ".." in text and ".." in text.split("/") and posixpath.normpath(text) != text


def _could_be_commands(text: str, glob: str) -> bool:
    """Whether the text could contain a command that the glob does not cover."""
    has_words = _BLANK.search(text) is not None or _BLANK.search(glob) is not None
    return has_words and SHELL_ACTIVE.search(text) is not None and not _ANYTHING.fullmatch(glob)
