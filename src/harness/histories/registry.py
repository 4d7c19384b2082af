"""Which histories there are: those of the agents that have a `store`."""

from __future__ import annotations

from harness.agents import registry
from harness.contracts.history import AgentHistory


def names() -> tuple[str, ...]:
    """The agents whose sessions can be read, without importing any."""
    return registry.names_with("store")


def load(name: str) -> AgentHistory | None:
    """The history of that agent, if its sessions can be read."""
    history: AgentHistory | None = registry.load_part(name, "store")
    return history


def load_all() -> list[AgentHistory]:
    return [history for name in names() if (history := load(name)) is not None]
