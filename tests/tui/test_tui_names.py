"""Nothing of ours hides a name of Textual by accident: that would break it without a word."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil

from textual.message_pump import MessagePump

import harness.tui

MEANT = {
    "__init__",
    "_fatal_error",
    "_on_key",
    "_on_paste",
    "animation_level",
    "compose",
    "render_line",
    "text",
    "theme",
}
"""What is meant to replace theirs."""


@functools.cache
def _set_by(cls: type) -> set[str]:
    """Names that a class defines, or sets on itself."""
    [definition] = ast.parse(inspect.cleandoc(f"\n{inspect.getsource(cls)}")).body
    assert isinstance(definition, ast.ClassDef)
    found = {one.name for one in definition.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(definition):
        is_set = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if is_set and isinstance(node.value, ast.Name) and node.value.id == "self":
            found.add(node.attr)
    return found


def test_no_name_of_textual_is_hidden() -> None:
    hidden = []
    for module in pkgutil.iter_modules(harness.tui.__path__, "harness.tui."):
        for cls in vars(importlib.import_module(module.name)).values():
            if not (inspect.isclass(cls) and cls.__module__ == module.name and issubclass(cls, MessagePump)):
                continue
            theirs = [base for base in cls.__mro__ if base.__module__.startswith("textual.")]
            known = set().union(*(_set_by(base) for base in theirs))
            hidden += [f"{cls.__name__}.{name}" for name in (_set_by(cls) & known) - MEANT]
    assert hidden == []
