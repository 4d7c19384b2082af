"""Packages of node that a test asks: the official clients of protocols. They are not part of this repository."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

VERSIONS = {
    "@ag-ui/client": "1.0.0",
    "@agentclientprotocol/sdk": "2.4.0",
    "@modelcontextprotocol/client": "2.4.0",
    "rxjs": "",
    "ws": "",
}


def folder(*names: str) -> Path:
    """Where these are installed. Skips the test, and says how to get them."""
    wanted = " ".join(f"{name}@{VERSIONS[name]}".rstrip("@") for name in names)
    where = os.environ.get("TEST_NODE_PACKAGES", "")
    if shutil.which("node") is None:
        pytest.skip("needs node on the PATH, and TEST_NODE_PACKAGES (see CONTRIBUTING.md)")
    missing = [name for name in names if not (Path(where) / "node_modules" / name).is_dir()]
    if not where or missing:
        pytest.skip(f"needs `npm install {wanted}` in a folder that TEST_NODE_PACKAGES names")
    return Path(where)
