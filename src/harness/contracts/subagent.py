"""Kinds of sub-agents: what one is told, which tools it has, and which model it asks."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from harness.contracts.model import Model


class SubagentKind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    """For the agent that may start one: when to do so."""
    prompt: str = ""
    """How it is to work."""
    model: str = ""
    """`provider/model`; empty: the usual one of sub-agents."""
    is_small: bool = False
    """The small model of the settings will do, where there is one."""
    tools: tuple[str, ...] | None = None
    """The names of those that it has, of the tools of whoever starts it; None: all."""
    without: tuple[str, ...] = ()
    """Tools that it does not have in any case."""
    most_steps: int | None = None
    origin: str = ""
    """The file that describes it."""

    def has(self, tool: str) -> bool:
        return tool not in self.without and (self.tools is None or tool in self.tools)


class SubagentWish(NamedTuple):
    """How a sub-agent is to be started, where it is not just like the one that starts it."""

    kind: SubagentKind | None = None
    model: Model | None = None
    """None: that of whoever starts it."""
