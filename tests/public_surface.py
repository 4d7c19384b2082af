"""The classes that a program reaches from `import harness`, found by following types from one to the next."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, get_args, get_type_hints

import harness

PLACES = (
    "harness.errors",
    "harness.events",
    "harness.log.store",
    "harness.log.stores",
    "harness.session",
    "harness.contracts.model",
    "harness.models.scripted",
    "harness.contracts.request",
    "harness.runs.run",
    "harness.contracts.tool",
    "harness.native.tools.function_tool",
    "harness.folds.session",
)
"""What belongs to the public surface. Types elsewhere are internals, even where a signature names one."""


@functools.cache
def public_classes() -> tuple[type, ...]:
    """The exported ones, the events, the parts of a session, and all that their fields and methods name."""
    names = _every_class()
    found: dict[type, None] = {}
    waiting = [one for name in harness.__all__ for one in _classes(getattr(harness, name))]
    waiting += _parts_of_a_session()
    while waiting:
        cls = waiting.pop()
        if cls in found or cls.__name__.startswith("_") or not _is_public_place(cls.__module__):
            continue
        found[cls] = None
        described: list[Callable[..., Any] | type] = [cls, *(method for _, method in public_methods(cls))]
        for one in described:
            hints = _hints(one, names)
            waiting += [
                seen for name, hint in hints.items() if not name.startswith("_") for seen in _classes(hint)
            ]
    return tuple(sorted(found, key=lambda cls: (cls.__module__, cls.__name__)))


def public_methods(cls: type) -> Iterator[tuple[str, FunctionType]]:
    """Methods, class methods and properties that a class defines itself."""
    for name, value in vars(cls).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if not name.startswith("_") and isinstance(function, FunctionType):
            yield name, function


def parameters(function: FunctionType) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def _parts_of_a_session() -> list[type]:
    """The types of `session.thread`, `session.permissions` and so on."""
    opened = harness.Harness(id="surface", modes=[harness.Mode(id="build")])
    return [
        type(getattr(owner, name))
        for owner in (opened, opened.session)
        for name in dir(owner)
        if not name.startswith("_") and name != "internals" and not inspect.ismethod(getattr(owner, name))
    ]


def _classes(hint: Any) -> Iterator[type]:
    """Every class that a type is made of."""
    if inspect.isclass(hint) and not get_args(hint):
        yield hint
    for inner in hint if isinstance(hint, list | tuple) else get_args(hint):
        yield from _classes(inner)


def _is_public_place(module: str) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in PLACES)


def _hints(described: Any, names: dict[str, type]) -> dict[str, Any]:
    """Annotations that name what a module imports for type checkers only are looked up by name."""
    modules = {one.__module__ for one in getattr(described, "__mro__", [described])} - {"builtins"}
    known = set.intersection(*(set(vars(importlib.import_module(module))) for module in modules))
    return get_type_hints(described, localns={name: cls for name, cls in names.items() if name not in known})


def _every_class() -> dict[str, type]:
    found: dict[str, type] = {}
    for module in pkgutil.walk_packages(harness.__path__, "harness."):
        if module.name.startswith(
            (
                "harness.events",
                "harness.log",
                "harness.session",
                "harness.contracts",
                "harness.models",
                "harness.native",
                "harness.runs",
            )
        ):
            found |= {  # without modules: one that is called `list` is not meant by `list[str]`
                n: v
                for n, v in vars(importlib.import_module(module.name)).items()
                if not n.startswith("_") and not inspect.ismodule(v)
            }
    return found
