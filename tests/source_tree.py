"""The Python files of this repository, parsed once, and what each of them uses."""

from __future__ import annotations

import ast
import functools
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "harness"
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks")


@dataclass(frozen=True)
class Module:
    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path from the root of the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def inside_package(self) -> str:
        """The path from the root of the package."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def is_init(self) -> bool:
        return self.path.name == "__init__.py"


@functools.cache
def modules(*folders: str) -> tuple[Module, ...]:
    """All modules below these folders; below all of them when none is named."""
    paths = [path for folder in folders or FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    with _without_collection():
        return tuple(_parse(path) for path in paths if not _is_recorded(path))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Millions of nodes stay: looking through them again and again for garbage takes longer than parsing."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def _parse(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(path, text, ast.parse(text, str(path)))


def _is_recorded(path: Path) -> bool:
    """A Python file inside a recording belongs to the agent that wrote it."""
    parts = path.relative_to(ROOT).parts
    return parts[:2] == ("tests", "agents") and len(parts) > 4


def package_modules() -> tuple[Module, ...]:
    return modules("src")


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Everything a module imports or reaches, with its line, under its full dotted name.

    Aliases are followed (`import os as system; system.fork` is `os.fork`). An attribute of
    something that was not imported is `?.attribute`; a call of a plain name is `builtins.name`.
    """
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for local, full in _imports(node):
                imported[local] = full
                yield node.lineno, full
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, _dotted(node, imported)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in imported:
            yield node.lineno, f"builtins.{node.func.id}"


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, alias.name
            else:
                # `import os.path` binds `os`, and reaches `os.path` all the same.
                yield alias.name, alias.name
                yield alias.name.partition(".")[0], alias.name.partition(".")[0]
    else:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.Attribute, imported: dict[str, str]) -> str:
    parts = [node.attr]
    value = node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    root = imported.get(value.id) if isinstance(value, ast.Name) else None
    return ".".join([root, *reversed(parts)]) if root else f"?.{node.attr}"


@functools.cache
def uses_in(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple(uses(_parse(path).tree))


@functools.cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    whole = "|".join(translate(pattern) for pattern in patterns)
    inside = "|".join(re.escape(f"{pattern}.") for pattern in patterns)
    return re.compile(f"{whole}|{inside}")


def uses_of(module: Module, patterns: tuple[str, ...]) -> list[str]:
    """Where a module uses one of these names (`os.exec*`) or anything inside one (`time`)."""
    wanted = _any_of(patterns)
    found = {f"{module.name}:{line}: {name}" for line, name in uses_in(module.path) if wanted.match(name)}
    return sorted(found)


def expect_none(offenders: list[str]) -> None:
    """Fail with the whole list, and nothing else to read through."""
    if offenders:
        pytest.fail("\n".join(offenders), pytrace=False)
