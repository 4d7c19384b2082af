"""Changes the user's own settings file: single values, and nothing else in it, comments included."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from harness.config.files import read_file, user_file
from harness.config.settings import key_to_toml, to_toml
from harness.errors import BadConfig
from harness.system.plain_text import plain_text


class OwnChange(NamedTuple):
    path: tuple[str, ...]
    """The tables, and the key."""
    value: Any
    """None: it is not set any more."""


def changed(text: str, changes: Sequence[OwnChange]) -> str:
    """The user's file with these values. Raises BadConfig where it is written in a way that cannot be changed safely."""
    expected = _parsed(text)
    for change in changes:
        text = _with_value(text, change)
        _expect(expected, change)
    try:
        is_as_wanted = _without_empty(tomllib.loads(text)) == _without_empty(expected)
    except tomllib.TOMLDecodeError:
        is_as_wanted = False
    if not is_as_wanted:
        keys = ", ".join(".".join(change.path) for change in changes)
        raise BadConfig(
            f"{user_file()} is written in a way that cannot be changed safely",
            hint=f"set {keys} there by hand",
        )
    return text


def change_own_file(changes: Sequence[OwnChange]) -> str:
    """Write these values into the user's file; returns its path. Raises BadConfig."""
    return write_own_file(changed(_own_text(), changes))


def write_own_file(text: str) -> str:
    """Replace the user's file; returns its path. Raises BadConfig, and then it is as it was."""
    path = user_file()
    # A link is followed: people have their settings elsewhere, and link them.
    target = os.path.realpath(path)
    temporary = f"{target}.{os.getpid()}"
    try:
        data = text.encode()
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o600
        with open(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb"
        ) as file:
            file.write(data)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except UnicodeEncodeError as error:
        what = plain_text(next(line for line in text.split("\n") if plain_text(line) != line))
        raise BadConfig(f"settings are UTF-8 text, and this would not be: {what}") from error
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)  # a full disk needs the space
        raise BadConfig(f"{path} cannot be written: {error.strerror}", hint="check its rights") from error
    return path


def _own_text() -> str:
    """The user's file; empty when there is none. Raises BadConfig when it cannot be read."""
    path = user_file()
    if not os.path.exists(path):
        return ""
    layer = read_file(path, is_personal=True)
    for problem in layer.problems:
        if not problem.key:
            raise BadConfig(str(problem), hint="repair it first")
    return layer.text


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadConfig(f"{user_file()} is not valid TOML: {error}", hint="repair it first") from error


def _expect(tables: dict[str, Any], change: OwnChange) -> None:
    *above, key = change.path
    table = tables
    for name in above:
        table = table.setdefault(name, {})
    table.pop(key, None)
    if change.value is not None:
        table[key] = change.value


def _without_empty(tables: dict[str, Any]) -> dict[str, Any]:
    """Tables that say nothing do not count."""
    non_empty = {
        key: _without_empty(value) if isinstance(value, dict) else value for key, value in tables.items()
    }
    return {key: value for key, value in non_empty.items() if value != {}}


def _with_value(text: str, change: OwnChange) -> str:
    *above, key = change.path
    table = ".".join(map(key_to_toml, above))
    lines = text.split("\n")
    headers = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
    # What belongs to no table stands before the first one.
    start = -1 if not above else next((at for at in headers if _header(lines[at]) == table), None)
    new_lines = [] if change.value is None else [f"{key_to_toml(key)} = {to_toml(change.value)}"]
    if start is None:
        if new_lines:
            lines = [*_trimmed(lines), *([""] if text.strip() else []), f"[{table}]", *new_lines, ""]
        return "\n".join(lines)
    end = next((number for number in headers if number > start), len(lines))
    positions = [
        number
        for number in range(start + 1, end)
        if lines[number].partition("=")[0].strip().strip("\"'") == key
    ]
    if positions:
        lines[positions[0] : positions[0] + 1] = new_lines
    else:
        lines[start + 1 : start + 1] = new_lines
    return "\n".join(lines)


def _header(line: str) -> str:
    return line.partition("#")[0].strip().removeprefix("[").removesuffix("]").strip()


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
