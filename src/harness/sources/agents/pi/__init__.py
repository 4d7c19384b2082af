"""Pi: `agent` has its command lines and translators, `answers` the answers of its models."""

from __future__ import annotations

from harness.sources.agents.pi.agent import AGENT

__all__ = ["AGENT"]
