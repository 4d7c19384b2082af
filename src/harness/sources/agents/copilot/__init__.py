"""GitHub Copilot CLI: `agent` is its command line and translator, `calls` its tool calls."""

from __future__ import annotations

from harness.sources.agents.copilot.agent import AGENT

__all__ = ["AGENT"]
