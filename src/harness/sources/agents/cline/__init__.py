"""Cline: `agent` is its command line and translator, `calls`, `tools` and `speech` are parts of it."""

from __future__ import annotations

from harness.sources.agents.cline.agent import AGENT

__all__ = ["AGENT"]
