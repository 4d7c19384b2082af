"""Programs in Python that tests write: they start from any path, which the first line of a script alone cannot."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

PYTHON = shlex.quote(sys.executable)
"""The interpreter as a word of a command line."""
SYSTEM_PYTHON = os.path.realpath(sys.executable)
"""The one that .venv was made of. Behind a wall the folder of the clone may be hidden."""
_HEAD = """#!/bin/sh
''':'
exec {python} {options} "$0" "$@"
'''
"""


def python_program(path: Path, code: str, options: str = "", python: str = sys.executable) -> Path:
    """An executable file. To the shell its head is a command, to Python it is a docstring.

    A `#!` line is cut at the first blank of the interpreter's path, and after so many bytes.
    """
    word = '"' + re.sub(r'[\\"$`]', r"\\\g<0>", python) + '"'
    path.write_text(_HEAD.format(python=word, options=options) + code, encoding="utf-8")
    path.chmod(0o755)
    return path
