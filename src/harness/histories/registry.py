"""Which histories there are: the modules of `stores/`. The file's name is the agent's."""

from __future__ import annotations

from functools import cache

from harness.agents.registry import module_of, names_in
from harness.contracts.history import AgentHistory
from harness.histories import stores


@cache
def names() -> tuple[str, ...]:
    """The agents whose sessions can be read, without importing any."""
    return names_in(stores)


def load(name: str) -> AgentHistory | None:
    """The history of that agent, if its sessions can be read."""
    if name not in names():
        return None
    history: AgentHistory = module_of(stores, name).HISTORY
    return history


def load_all() -> list[AgentHistory]:
    return [history for name in names() if (history := load(name)) is not None]
