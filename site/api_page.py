"""The page of the Python interface, from the docstrings of what `harness` exports."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import harness

OPENING = """\
# The Python interface

What `import harness` gives; everything else may change between versions. Events are in [events.md](events.md), those of
a session in [harness.md](harness.md).
"""


def api_page() -> str:
    return "\n".join(
        [OPENING, *(part for name in harness.__all__ for part in _entry(name, getattr(harness, name)))]
    )


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield f"## {name}\n"
    if signature := _signature(thing):
        yield f"```python\n{name}{signature}\n```\n"
    if text := inspect.getdoc(thing):
        yield f"{_plain(text)}\n"
    if inspect.isclass(thing):
        yield from _methods(name, thing)


def _methods(owner: str, thing: type) -> Iterator[str]:
    for name, method in inspect.getmembers(
        thing, lambda member: inspect.isfunction(member) or isinstance(member, property)
    ):
        text = inspect.getdoc(method)
        if name.startswith("_") or not text:
            continue
        shown = "" if isinstance(method, property) else _signature(method)
        yield f"### {owner}.{name}\n\n```python\n{name}{shown}\n```\n\n{_plain(text)}\n"


def _signature(thing: Any) -> str:
    try:
        return str(inspect.signature(thing)) if callable(thing) else ""
    except (TypeError, ValueError):
        return ""


def _plain(text: str) -> str:
    """Docstrings are written for the eye; a tag in one is text."""
    return text.replace("<", "&lt;")
