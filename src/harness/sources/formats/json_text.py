"""JSON within JSON: arguments and results that agents put into their records as text."""

from __future__ import annotations

from typing import Any

from harness.sources.translation.json_lines import DECODE_ERRORS, decode


def decoded(text: str) -> Any:
    """What JSON text holds; None when it is none."""
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except (*DECODE_ERRORS, ValueError):
        return None


def arguments_of(told: Any) -> Any:
    """What a call is given: data, JSON text that holds it, or a text that is none."""
    value = decoded(told) if isinstance(told, str) else None
    return told if value is None else value
