"""Harness: one immutable event log, many sources, many views.

sources ──▶ log ──▶ views ──▶ interfaces
(who writes)        (who reads)

import harness

for event in harness.start(harness.Request(agent="claude", prompt="fix the bug")):
    print(event)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from harness.errors import HarnessError
    from harness.log.stores.files import FileStore
    from harness.log.stores.memory import MemoryStore
    from harness.sources.request import Limits, Request
    from harness.sources.run import Run, run, start

__version__ = "0.1.0"

__all__ = ["FileStore", "HarnessError", "Limits", "MemoryStore", "Request", "Run", "run", "start"]

_HOMES = {
    "FileStore": "harness.log.stores.files",
    "HarnessError": "harness.errors",
    "Limits": "harness.sources.request",
    "MemoryStore": "harness.log.stores.memory",
    "Request": "harness.sources.request",
    "Run": "harness.sources.run",
    "run": "harness.sources.run",
    "start": "harness.sources.run",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import harness` itself costs next to nothing."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
