"""Cline: `agent` has its command lines and translators, `tools` its tool calls, `speakers` finds the agent of a record."""

from __future__ import annotations

from harness.sources.agents.cline.agent import AGENT

__all__ = ["AGENT"]
