"""Numbers of tokens as model APIs tell them: whole, as a float, or not at all."""

from __future__ import annotations

from typing import Any


def count_in(values: Any, name: str) -> int | None:
    """None where there is no such number, or nothing that could have one."""
    value = values.get(name) if isinstance(values, dict) else None
    return int(value) if isinstance(value, int | float) else None
