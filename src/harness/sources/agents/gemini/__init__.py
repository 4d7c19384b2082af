"""Gemini CLI: `agent` has its command line and translator, `acp` its two-way conversation."""

from __future__ import annotations

from harness.sources.agents.gemini.agent import AGENT

__all__ = ["AGENT"]
