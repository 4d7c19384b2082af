"""Which agents can be handed a conversation: the modules of `writers/`. The file's name is the agent's."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

from harness.sources.handover import writers
from harness.sources.handover.writer import HandoverWriter


@cache
def names() -> tuple[str, ...]:
    """Without importing any."""
    return tuple(
        sorted(
            entry.removesuffix(".py").replace("_", "-")
            for folder in writers.__path__
            for entry in os.listdir(folder)
            if entry.endswith(".py") and not entry.startswith("_")
        )
    )


def load(name: str) -> HandoverWriter | None:
    """The writer for that agent, if there is one."""
    if name not in names():
        return None
    writer: HandoverWriter = import_module(f"{writers.__name__}.{name.replace('-', '_')}").WRITER
    return writer
