"""Pi: `agent` has its command line, tools and translator, `answers` the answers of its models."""

from __future__ import annotations

from harness.sources.agents.pi.agent import AGENT

__all__ = ["AGENT"]
