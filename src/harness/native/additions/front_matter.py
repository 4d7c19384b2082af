"""The fields at the head of a Markdown file, between two `---` lines: the part of YAML that such files use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from harness.workspace.files import lines_of

Value: TypeAlias = str | list[str] | dict[str, str]
Fields: TypeAlias = Mapping[str, Value]

_FIELD = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+(.*))?")
_INNER = re.compile(r"(\"[^\"]+\"|'[^']+'|[^\s:#-][^:]*):(?:[ \t]+(.*))?")
_BLOCKS = ("|", ">", "|-", ">-", "|+", ">+")


def front_matter(text: str) -> tuple[Fields, str]:
    """The fields, and the text after them; without both `---` lines, no fields and the whole text."""
    first, *lines = lines_of(text) or [""]
    end = next((number for number, line in enumerate(lines) if line.rstrip() == "---"), None)
    if first.rstrip() != "---" or end is None:
        return {}, text
    return _fields(lines[:end]), "\n".join(lines[end + 1 :]).strip()


def text_of(fields: Fields, *names: str) -> str:
    """The first of these fields that is a text; empty without one."""
    return next((value for name in names if isinstance(value := fields.get(name), str)), "")


def words_of(value: Value | None) -> list[str]:
    """A list, also one that is written in one line with commas."""
    if isinstance(value, str):
        return [unquoted(word.strip()) for word in value.strip("[]").split(",") if word.strip()]
    return list(value) if isinstance(value, list) else []


def unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _fields(lines: Sequence[str]) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    key, below, is_block = "", [""], False
    for line in [*lines, "end:"]:
        field = _FIELD.fullmatch(line.rstrip())
        if field is None:
            if key and (line[:1] in (" ", "\t") or line.lstrip().startswith("- ") or not line.strip()):
                below.append(line.strip())
            continue
        if key:
            fields[key] = _value(below, is_text=is_block)
        key, value = field[1], (field[2] or "").strip()
        is_block = value in _BLOCKS
        below = ["" if is_block else value]
    return fields


def _value(lines: Sequence[str], *, is_text: bool) -> Value:
    first, *rest = lines
    rest = [line for line in rest if line and not line.startswith("#")]
    if not first and rest and not is_text:
        if all(line.startswith("- ") for line in rest):
            return [unquoted(line[2:].strip()) for line in rest]
        pairs = [_INNER.fullmatch(line) for line in rest]
        if all(pairs):
            return {unquoted(pair[1]): unquoted((pair[2] or "").strip()) for pair in pairs if pair}
    return unquoted(" ".join([first, *rest]).strip())
