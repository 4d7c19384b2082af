"""Cline: `agent` has its command line and translator, `tools` its tool calls, `speakers` finds the agent of a record,
`legacy` reads the stream of versions before 3.0, `acp` has its two-way conversation.
"""

from __future__ import annotations

from harness.sources.agents.cline.agent import AGENT

__all__ = ["AGENT"]
