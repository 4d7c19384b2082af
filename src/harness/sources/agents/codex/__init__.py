"""Codex: `agent` has its command line and translator, `items` the items of a thread that are tool calls."""

from __future__ import annotations

from harness.sources.agents.codex.agent import AGENT

__all__ = ["AGENT"]
