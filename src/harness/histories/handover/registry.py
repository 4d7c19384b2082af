"""Which agents can be handed a conversation: those that have a `writer`."""

from __future__ import annotations

from harness.agents import registry
from harness.contracts.writer import HandoverWriter


def names() -> tuple[str, ...]:
    """Without importing any."""
    return registry.names_with("writer")


def load(name: str) -> HandoverWriter | None:
    """The writer for that agent, if there is one."""
    writer: HandoverWriter | None = registry.load_part(name, "writer")
    return writer
