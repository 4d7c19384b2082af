"""Gemini CLI takes the way of signing in from a file of its home: it needs a home of its own."""

from __future__ import annotations

from harness.contracts.pointing import Pointing

POINTING = Pointing(
    wire="gemini",
    provider="gemini",
    not_beside="the way of signing in is in the settings of its home",
    result_noise=(r"Process Group PGID: \d+", r"Background PIDs: [\d, ]+"),
)
