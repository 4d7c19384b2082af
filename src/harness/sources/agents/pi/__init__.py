"""Pi: `agent` has its command lines and its two-way conversation, `translator` its records and tools, `answers` the
answers of its models.
"""

from __future__ import annotations

from harness.sources.agents.pi.agent import AGENT

__all__ = ["AGENT"]
