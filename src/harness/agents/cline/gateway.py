"""Cline takes its provider from a file of its home: it needs a home of its own."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="chat",
    provider="openai-chat",
    not_beside="its provider is in a file of its home",
)
