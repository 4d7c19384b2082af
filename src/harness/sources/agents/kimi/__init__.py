"""Kimi Code: `agent` has its command line and translator, `tools` its tools, `acp` its two-way conversation."""

from __future__ import annotations

from harness.sources.agents.kimi.agent import AGENT

__all__ = ["AGENT"]
