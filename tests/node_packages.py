"""Packages of node that a test asks: the official clients of protocols. `web/package.json` pins them."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from lacking import lacking
from source_tree import ROOT
from surroundings import TOOLS


def folder(*names: str) -> Path:
    """Where these are installed. Skips the test where they are not."""
    if shutil.which("node") is None:
        pytest.skip(lacking("Node.js"))
    if missing := [name for name in names if not (ROOT / "web" / "node_modules" / name).is_dir()]:
        pytest.skip(lacking("npm packages", ", ".join(missing)))
    return ROOT / "web"


@cache
def node(oldest: int) -> str:
    """A Node.js of this version or a later one: the system's, or that of `make tools`. Skips the test where there is none."""
    for program in filter(None, (shutil.which("node"), shutil.which("node", path=TOOLS))):
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        if int(told.strip().lstrip("v").partition(".")[0] or 0) >= oldest:
            return os.path.abspath(program)
    pytest.skip(lacking("Node.js", f"{oldest} or newer"))
