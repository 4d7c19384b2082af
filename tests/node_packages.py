"""Packages of node that a test asks: the official clients of protocols. `web/package.json` pins them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lacking import lacking
from source_tree import ROOT


def folder(*names: str) -> Path:
    """Where these are installed. Skips the test where they are not."""
    if shutil.which("node") is None:
        pytest.skip(lacking("Node.js"))
    if missing := [name for name in names if not (ROOT / "web" / "node_modules" / name).is_dir()]:
        pytest.skip(lacking("npm packages", ", ".join(missing)))
    return ROOT / "web"
