"""Which histories there are: the modules of `stores/`. The file's name is the agent's."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

from harness.sources.imports import stores
from harness.sources.imports.history import AgentHistory


@cache
def names() -> tuple[str, ...]:
    """The agents whose sessions can be read, without importing any."""
    return tuple(
        sorted(
            entry.removesuffix(".py").replace("_", "-")
            for folder in stores.__path__
            for entry in os.listdir(folder)
            if entry.endswith(".py") and not entry.startswith("_")
        )
    )


def load(name: str) -> AgentHistory | None:
    """The history of that agent, if its sessions can be read."""
    if name not in names():
        return None
    history: AgentHistory = import_module(f"{stores.__name__}.{name.replace('-', '_')}").HISTORY
    return history


def load_all() -> list[AgentHistory]:
    return [history for name in names() if (history := load(name)) is not None]
