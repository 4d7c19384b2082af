"""Where a folder is that a log names: logs are UTF-8, names of folders are bytes."""

from __future__ import annotations

import os

from harness.system.plain_text import plain_text

_SIGN = "\ufffd"
"""Stands in a log for what is no text in a name."""


def recorded_folder(path: str) -> str:
    """The folder that is shown so in a log; empty where there is none, or more than one that could be meant."""
    if os.path.isdir(path):
        return path
    if not has_odd_name(path):
        return ""
    places = [os.sep]
    for part in filter(None, path.split(os.sep)):
        places = [os.path.join(above, name) for above in places for name in _names(above, part)]
    return places[0] if len(places) == 1 else ""


def has_odd_name(path: str) -> bool:
    """Whether the real name has bytes that the log could not hold."""
    return os.path.isabs(path) and _SIGN in path


def _names(above: str, part: str) -> list[str]:
    """The folders of this name; only one that is no text in the log is looked for."""
    try:
        names = os.listdir(above) if _SIGN in part else [part]
    except OSError:
        return []
    return [name for name in names if plain_text(name) == part and os.path.isdir(os.path.join(above, name))]
