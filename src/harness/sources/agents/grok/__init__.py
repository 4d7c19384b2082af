"""Grok: `agent` is its command line and translator, `tools` what its tools do."""

from __future__ import annotations

from harness.sources.agents.grok.agent import AGENT

__all__ = ["AGENT"]
