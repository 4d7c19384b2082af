"""Where the files of an agent are, by the environment that it is given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from string import Template


def place_of(name: str, environ: Mapping[str, str], cwd: str = "") -> str:
    """Empty where a variable is not set, or a relative path has no folder that counts."""
    if name.startswith("~"):
        name = f"{environ.get('HOME') or os.path.expanduser('~')}{name[1:]}"
    path = Template(name).safe_substitute(environ)
    if "$" in path:
        return ""
    return path if os.path.isabs(path) else os.path.join(cwd, path) if cwd else ""


def places_of(name: str, environ: Mapping[str, str], cwd: str) -> Iterator[str]:
    """The same; a relative path is looked for in the folder and in all above it."""
    is_relative = not name.startswith(("~", "$")) and not os.path.isabs(name)
    while True:
        if place := place_of(name, environ, cwd):
            yield place
        if not is_relative or cwd == os.path.dirname(cwd):
            return
        cwd = os.path.dirname(cwd)
