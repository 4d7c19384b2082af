"""Settings that an agent obeys more than the user's own: those that are there already, with ours over them.

The program reads them from one file, and a machine may have one. Ours is used as it is where it has none; else both
are written into one file of the cache, which is named by its content.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from harness.config import cache_directory
from harness.contracts.agent import HeldSettings
from harness.errors import UsageError
from harness.log.private_files import open_private

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""Or a text, in which nothing is a comment."""


def settings_folder() -> str:
    return os.path.join(cache_directory(), "settings")


def variables_of(settings: HeldSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which the program finds them. Raises UsageError where what is there cannot be kept."""
    place = environ.get(settings.variable) or settings.place
    beside = {
        variable: environ.get(variable) or os.path.join(os.path.dirname(place), name)
        for variable, name in settings.beside.items()
    }
    return {settings.variable: _file_of(settings, place), **beside}


def _file_of(settings: HeldSettings, place: str) -> str:
    try:
        with open(place, encoding="utf-8-sig") as file:
            theirs = json.loads(_COMMENT.sub(lambda match: match[1] or " ", file.read()))
    except FileNotFoundError:
        return settings.file
    except (OSError, ValueError) as error:
        raise _cannot_keep(place, str(error)) from error
    if not isinstance(theirs, dict):
        raise _cannot_keep(place, "they are no object")
    with open(settings.file, encoding="utf-8") as file:
        ours = json.load(file)
    ours.pop("$version", None)  # of what form theirs are, they say themselves
    return _written(json.dumps(_merged(theirs, ours), indent=1).encode())


def _merged(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    merged = dict(theirs)
    for name, value in ours.items():
        there = merged.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            merged[name] = _merged(there, value)
        elif isinstance(value, list) and isinstance(there, list):
            merged[name] = [*there, *(item for item in value if item not in there)]
        else:
            merged[name] = value
    return merged


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
