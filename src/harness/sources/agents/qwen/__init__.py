"""Qwen Code: `agent` has its command lines and translators, `tools` its tools."""

from __future__ import annotations

from harness.sources.agents.qwen.agent import AGENT

__all__ = ["AGENT"]
