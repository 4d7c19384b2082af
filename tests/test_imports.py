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


KNOWN_CYCLES = (
    # Two faces of one class: each has the other as an attribute, and both are public.
    {"harness.session.harness", "harness.session.sync_harness"},
    # A wall builds itself, so that who only names one loads nothing of it.
    {
        "harness.sandbox.ladder",
        "harness.sandbox.rungs",
        "harness.sandbox.wall",
        "harness.sandbox.walled_programs",
    },
)
"""May become fewer, and never more: what is in a cycle can only be understood together."""


def test_modules_import_each_other_in_no_cycle() -> None:
    """Imports inside of functions and those for types alone count too."""
    importers = _imports()
    everything = {name: _reachable(name, importers) for name in importers}
    cycles = {
        frozenset(other for other in reached if name in everything[other])
        for name, reached in everything.items()
        if name in reached
    }
    assert cycles == {frozenset(cycle) for cycle in KNOWN_CYCLES}


def _imports() -> dict[str, set[str]]:
    """Module → the modules of the package that it imports."""
    dotted = {
        ".".join(module.path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(
            ".__init__"
        ): module
        for module in package_modules()
    }
    imports: dict[str, set[str]] = {}
    for name, module in dotted.items():
        from_names = (
            f"{node.module}.{alias.name}"
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        )
        targets = {target if target in dotted else target.rpartition(".")[0] for target in from_names}
        imports[name] = (targets & dotted.keys()) - {name, "harness"}
    imports["harness"] = set()  # what the package exports it imports when that is asked for
    return imports


def _reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(imports[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imports[name]
    return seen
