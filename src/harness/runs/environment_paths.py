"""Where the files of an agent are, by the environment that it is given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from string import Template


def place_of(name: str, environ: Mapping[str, str], cwd: str = "") -> str:
    """Empty where a variable is not set, or a relative path has no folder that counts."""
    if name.startswith("~"):
        name = f"{environ.get('HOME') or os.path.expanduser('~')}{name[1:]}"
    path = Template(name).safe_substitute(environ)
    if "$" in path:
        return ""
    return path if os.path.isabs(path) else os.path.join(cwd, path) if cwd else ""
