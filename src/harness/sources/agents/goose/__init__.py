"""Goose: `agent` is its command line and translator, `calls` and `tools` are parts of it."""

from __future__ import annotations

from harness.sources.agents.goose.agent import AGENT

__all__ = ["AGENT"]
