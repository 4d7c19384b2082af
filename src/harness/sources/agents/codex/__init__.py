"""Codex: `agent` has its command lines and the translator of `codex exec`, `threads` that of a two-way conversation, and
`items` what is a call in both.
"""

from __future__ import annotations

from harness.sources.agents.codex.agent import AGENT

__all__ = ["AGENT"]
