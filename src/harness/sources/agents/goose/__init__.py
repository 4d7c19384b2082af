"""Goose: `agent` has its command line and translator, `tools` its tool calls, `notices` its own sentences,
`acp` its two-way conversation.
"""

from __future__ import annotations

from harness.sources.agents.goose.agent import AGENT

__all__ = ["AGENT"]
