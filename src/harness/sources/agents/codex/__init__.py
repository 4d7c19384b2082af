"""Codex: `agent` is its command line and translator, `items` the parts of a turn."""

from __future__ import annotations

from harness.sources.agents.codex.agent import AGENT

__all__ = ["AGENT"]
