"""GitHub Copilot CLI: `agent` has its command line and translator, `calls` its tool calls and sub-agents,
`acp` its two-way conversation.
"""

from __future__ import annotations

from harness.sources.agents.copilot.agent import AGENT

__all__ = ["AGENT"]
