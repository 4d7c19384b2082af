"""Imports inside of functions that save nothing: what they name is loaded with their module anyway."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from source_tree import Module

Import: TypeAlias = ast.Import | ast.ImportFrom

RUN_ALONE = {"process/watchdog.py"}
"""Started by its path: the package is not loaded there."""


def idle_imports(modules: Iterable[Module]) -> Iterator[tuple[Module, Import]]:
    """Each import inside of a function that names only what the import of its module loads."""
    by_name = {_name_of(module): module for module in modules}
    loads = {
        name: {target for node in _at_once(module.tree.body) for target in _targets(node, by_name)}
        for name, module in by_name.items()
    }
    reached = {name: _reachable(name, loads) for name in by_name}
    for name, module in by_name.items():
        if module.is_init or module.inside_package in RUN_ALONE:
            continue  # what a package imports at once is among its names
        for node in _inside_functions(module.tree.body):
            targets = set(_targets(node, by_name))
            # In a circle one of the imports has to wait until both modules are there.
            is_circle = any(name in (target, *reached.get(target, ())) for target in targets)
            if targets <= reached[name] and not is_circle:
                yield module, node


def _name_of(module: Module) -> str:
    path = module.inside_package.removesuffix(".py").removesuffix("/__init__").removesuffix("__init__")
    return ".".join(filter(None, ("harness", *path.split("/"))))


def _at_once(body: Iterable[ast.stmt]) -> Iterator[Import]:
    """What certainly runs when the module is imported: nothing below a condition."""
    for node in body:
        if isinstance(node, Import):
            yield node
        elif isinstance(node, ast.ClassDef | ast.With):
            yield from _at_once(node.body)


def _inside_functions(body: Iterable[ast.AST], *, is_inside: bool = False) -> Iterator[Import]:
    for node in body:
        if isinstance(node, Import):
            if is_inside:
                yield node
        elif not isinstance(node, ast.Try):  # which says that it may fail
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _inside_functions(ast.iter_child_nodes(node), is_inside=is_inside or is_function)


def _targets(node: Import, modules: Mapping[str, object]) -> Iterator[str]:
    """The modules that an import loads; `from a import b` means `a.b` where that is one of ours."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    for alias in node.names:
        name = f"{node.module}.{alias.name}"
        yield name if name in modules else node.module or ""


def _reachable(start: str, loads: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        name = ahead.pop()
        if name and name not in reached:
            reached.add(name)
            ahead += [*loads.get(name, ()), name.rpartition(".")[0]]
    return reached - {start}
