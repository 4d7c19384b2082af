"""Grok takes its models from a file of its home: it needs a home of its own."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="chat",
    provider="xai",
    not_beside="its models are in a file of its home",
)
