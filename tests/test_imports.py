"""Importing the package is fast and has no visible effect."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from lazy_imports import idle_imports
from source_tree import ROOT, expect_none, package_modules

# Each costs more than the interpreter's own start, or drags in something that does.
HEAVY = {
    "argparse",
    "asyncio",
    "concurrent",
    "dataclasses",
    "datetime",
    "email",
    "hashlib",
    "http",
    "httpx",
    "importlib.metadata",
    "inspect",
    "json",
    "logging",
    "msgspec",
    "multiprocessing",
    "random",
    "shutil",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "tomllib",
    "unittest",
    "urllib",
    "uuid",
}

LIST_NEW_MODULES = """
import sys
before = set(sys.modules)
import harness
print(*(set(sys.modules) - before), sep="\\n")
"""

IMPORT_EVERYTHING = """
import importlib, pkgutil, threading, harness
for module in pkgutil.walk_packages(harness.__path__, "harness."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert threading.active_count() == 1, threading.enumerate()
"""


def _python(program: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a home of its own, with warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        cwd=home,
        env={"HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )


def test_importing_harness_loads_no_heavy_module(tmp_path: Path) -> None:
    done = _python(LIST_NEW_MODULES, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    loaded = set(done.stdout.split())
    assert "harness" in loaded
    assert {name for name in loaded if name in HEAVY or name.partition(".")[0] in HEAVY} == set()


def test_importing_every_module_prints_nothing_creates_nothing_and_starts_nothing(tmp_path: Path) -> None:
    done = _python(IMPORT_EVERYTHING, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_an_import_inside_of_a_function_saves_something() -> None:
    """Else it belongs to the top of its module, where a reader sees what that stands on."""
    expect_none(
        [
            f"{module.name}:{node.lineno}: move to the top, it is loaded anyway: {ast.unparse(node)}"
            for module, node in idle_imports(package_modules())
        ]
    )
