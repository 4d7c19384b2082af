"""Grok Build: `agent` has its command line and translator, `tools` its tools, tokens and cost,
`acp` has its two-way conversation.
"""

from __future__ import annotations

from harness.sources.agents.grok.agent import AGENT

__all__ = ["AGENT"]
