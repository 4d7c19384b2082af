"""Fields of a native record, whatever an agent put into them: of the wanted kind, or none at all."""

from __future__ import annotations

from typing import Any

_LARGEST_COUNT = 2**63 - 1
_LARGEST_EXIT_CODE = 2**31


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def first_text(record: dict[str, Any], *names: str) -> str:
    """The first of these fields that holds any text."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def record_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def count_of(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT
    return value if is_count else None


def exit_code_of(value: Any) -> int | None:
    """A whole number, which may be below zero."""
    is_code = type(value) is int and abs(value) < _LARGEST_EXIT_CODE
    return value if is_code else None


def amount_of(value: Any) -> float | None:
    """A finite number, not below zero."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= _LARGEST_COUNT else None


def besides(total: int | None, *parts: int | None) -> int | None:
    """What is left of a count without others that were counted into it; None where it was not told."""
    return None if total is None else max(0, total - sum(part or 0 for part in parts))
