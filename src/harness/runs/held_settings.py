"""Settings of ours that a program has to obey, whatever its user, or the machine, has set already.

Ours is used as it is where there is nothing else. Where there is, both become one file of the cache, which is named by its
content; how, the agent says (`HeldSettings.over`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from harness.config import cache_directory
from harness.contracts.agent import CommandLine, HeldSettings
from harness.errors import UsageError
from harness.log.private_files import open_private
from harness.runs.environment_paths import places_of

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""Or a text, in which nothing is a comment."""


def settings_folder() -> str:
    return os.path.join(cache_directory(), "settings")


def hold(command: CommandLine, environ: Mapping[str, str], cwd: str) -> tuple[CommandLine, dict[str, str]]:
    """The command with the file that it is held by, and variables that nothing may change.

    Raises UsageError where what is there cannot be read.
    """
    settings = command.held_by
    if settings is None:
        return command, {}
    named = environ.get(settings.variable, "") if settings.variable else ""
    names = (named,) if named else settings.theirs
    theirs = [found for name in names for found in _read(name, environ, cwd)]
    path = _joined(settings, theirs) if theirs else settings.file
    if not settings.variable:
        return replace(command, args=tuple(path if arg == settings.file else arg for arg in command.args)), {}
    folder = os.path.dirname(named or settings.theirs[0])
    beside = {
        variable: environ.get(variable) or os.path.join(folder, name)
        for variable, name in settings.beside.items()
    }
    return command, {settings.variable: path, **beside}


def _read(name: str, environ: Mapping[str, str], cwd: str) -> Iterator[dict[str, Any]]:
    for path in places_of(name, environ, cwd):
        try:
            with open(path, encoding="utf-8-sig") as file:
                found = json.loads(_COMMENT.sub(lambda match: match[1] or " ", file.read()) or "{}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            raise _cannot_keep(path, str(error)) from error
        if not isinstance(found, dict):
            raise _cannot_keep(path, "they are no object")
        yield found


def _joined(settings: HeldSettings, theirs: list[dict[str, Any]]) -> str:
    with open(settings.file, encoding="utf-8") as file:
        ours = json.load(file)
    joined = settings.over(ours, theirs)
    return settings.file if joined == ours else _written(json.dumps(joined, indent=1).encode())


def _written(data: bytes) -> str:
    """They may have keys in them: nobody else may read the file."""
    folder = settings_folder()
    path = os.path.join(folder, f"{hashlib.sha256(data).hexdigest()[:32]}.json")
    unfinished = f"{path}.{os.getpid()}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(open_private(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(data)
        os.replace(unfinished, path)
    except OSError as error:
        raise _cannot_keep(folder, str(error)) from error
    return path


def _cannot_keep(path: str, reason: str) -> UsageError:
    return UsageError(
        f"settings that this run has to be held by cannot be put over {path}: {reason}",
        hint="mend that file, or use --permissions agent-default",
    )
