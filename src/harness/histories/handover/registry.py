"""Which agents can be handed a conversation: the modules of `writers/`. The file's name is the agent's."""

from __future__ import annotations

from functools import cache

from harness.agents.registry import module_of, names_in
from harness.contracts.writer import HandoverWriter
from harness.histories.handover import writers


@cache
def names() -> tuple[str, ...]:
    """Without importing any."""
    return names_in(writers)


def load(name: str) -> HandoverWriter | None:
    """The writer for that agent, if there is one."""
    if name not in names():
        return None
    writer: HandoverWriter = module_of(writers, name).WRITER
    return writer
