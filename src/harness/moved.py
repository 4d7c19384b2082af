"""Modules that documents named under another name: they can still be imported under it.

    from harness.sources.tool import Tool     # is harness.contracts.tool

`harness` imports this file, which appends a finder that Python asks last, and costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING: bool = False  # as in `harness` itself: `typing` would cost more than all of this
if TYPE_CHECKING:
    from types import ModuleType

MOVED = {
    "harness.interfaces.client": "harness.clients.client",
    "harness.sources.agent": "harness.contracts.agent",
    "harness.sources.driver": "harness.contracts.driver",
    "harness.sources.formats.command_line": "harness.contracts.command_line",
    "harness.sources.formats.fields": "harness.formats.fields",
    "harness.sources.formats.toolset": "harness.contracts.toolset",
    "harness.sources.loop.loop_context": "harness.native.loop.loop_context",
    "harness.sources.loop.orchestrator": "harness.native.loop.orchestrator",
    "harness.sources.loop.permissions": "harness.questions.permissions",
    "harness.sources.model": "harness.contracts.model",
    "harness.sources.models.registry": "harness.models.registry",
    "harness.sources.models.scripted": "harness.models.scripted",
    "harness.sources.request": "harness.contracts.request",
    "harness.sources.run": "harness.runs.run",
    "harness.sources.tool": "harness.contracts.tool",
    "harness.sources.tools.function_tool": "harness.native.tools.function_tool",
    "harness.sources.tools.registry": "harness.native.tools.registry",
    "harness.sources.translator": "harness.contracts.translator",
    "harness.views.page_state.object_stream": "harness.folds.page_state.object_stream",
    "harness.views.session.events": "harness.folds.session.events",
    "harness.views.session.translation": "harness.folds.session.translation",
}
_FOLDERS = {name.rpartition(".")[0] for name in MOVED} | {"harness.sources", "harness.interfaces"}


class _OldNames:
    """Asked by Python for a module that nothing else finds."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        if name in MOVED:
            return ModuleSpec(name, _OldName(MOVED[name]))  # type: ignore[arg-type]  # it has what is called
        return ModuleSpec(name, None, is_package=True) if name in _FOLDERS else None


class _OldName:
    """Gives the module itself, and not a copy of it: its classes are the same under both names."""

    def __init__(self, name: str) -> None:
        self._module = import_module(name)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which Python has just replaced by that of the old name


sys.meta_path.append(_OldNames)
