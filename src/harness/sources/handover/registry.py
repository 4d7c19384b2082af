"""Which agents can be handed a conversation: the modules of `writers/`. The file's name is the agent's."""

from __future__ import annotations

from functools import cache

from harness.sources.handover import writers
from harness.sources.handover.writer import HandoverWriter
from harness.sources.registry import module_of, names_in


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
