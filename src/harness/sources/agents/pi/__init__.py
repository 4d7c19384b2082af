"""Pi: `agent` is its command line and translator, `answers` and `tools` are parts of it."""

from __future__ import annotations

from harness.sources.agents.pi.agent import AGENT

__all__ = ["AGENT"]
