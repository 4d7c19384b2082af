"""Every public name has a type that all type checkers agree on: none is guessed from what is assigned to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import harness
import node_packages
from source_tree import ROOT, expect_none


def test_every_public_name_is_typed(tmp_path: Path) -> None:
    """A name is complete only if all is that its type names, so this reaches far below `import harness`."""
    checker = node_packages.folder("pyright") / "node_modules" / "pyright" / "index.js"
    # Pyright looks for the package as a program finds it, and does not follow our installation, which is a path.
    shutil.copytree(
        ROOT / "src/harness", tmp_path / "harness", ignore=shutil.ignore_patterns("page", "*.pyc")
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["node", str(checker), "--ignoreexternal", "--outputjson", "--verifytypes", "harness"]
    environ = {**os.environ, "PATH": path, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    symbols = {
        symbol["name"]: symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]
        for symbol in json.loads(done.stdout)["typeCompleteness"]["symbols"]
    }
    public = [name for name in map(_full_name, harness.__all__) if name in symbols]
    assert len(public) >= len(harness.__all__) - 1  # all but `__version__`
    incomplete = [
        name
        for name, is_complete in symbols.items()
        if not is_complete and any(name == one or name.startswith(f"{one}.") for one in public)
    ]
    expect_none([name for name in incomplete if not _is_internal(name)])


def _full_name(name: str) -> str:
    """Where it is defined."""
    value = getattr(harness, name)
    own = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{own}" if own else f"harness.{name}"


def _is_internal(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return last.startswith("_") and not last.startswith("__")
