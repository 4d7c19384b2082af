"""How many tokens a model can read at once, as far as its name shows."""

from __future__ import annotations

import re

USUAL = 128_000
"""The context window assumed for an unknown model."""

_WINDOWS: tuple[tuple[str, int], ...] = (
    (r"claude", 200_000),
    (r"gpt-5", 272_000),  # the input limit; the rest is for the answer
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4-(0613|32k)|gpt-4$", 8_000),
    (r"gpt-3\.5", 16_000),
    (r"\bo[134](-|$)", 200_000),
    (r"gemini", 1_000_000),
    (r"grok-(4|code)", 256_000),
    (r"kimi-k2", 256_000),
    (r"glm-(4\.[6-9]|5)", 200_000),
    (r"qwen3-coder", 256_000),
    (r"minimax-m", 200_000),
)
"""Patterns searched for in the model's name; the first match counts."""


def window_of(model: str) -> int:
    """`model`: `provider/model`, or whatever follows the provider."""
    return known_window(model) or USUAL


def known_window(model: str) -> int | None:
    """The same; None for a model of which nothing is known."""
    name = model.lower()
    return next((window for pattern, window in _WINDOWS if re.search(pattern, name)), None)
