"""Programs in Python that tests write: they start from any path, which the first line of a script alone cannot."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

PYTHON = shlex.quote(sys.executable)
"""The interpreter as a word of a command line."""
_HEAD = """#!/bin/sh
''':'
exec {python} {options} "$0" "$@"
'''
"""


def python_program(path: Path, code: str, options: str = "") -> Path:
    """An executable file. To the shell its head is a command, to Python it is a docstring.

    A `#!` line is cut at the first blank of the interpreter's path, and after so many bytes.
    """
    python = '"' + re.sub(r'[\\"$`]', r"\\\g<0>", sys.executable) + '"'
    path.write_text(_HEAD.format(python=python, options=options) + code, encoding="utf-8")
    path.chmod(0o755)
    return path
