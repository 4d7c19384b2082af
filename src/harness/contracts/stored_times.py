"""Times of stores: ISO texts, seconds and milliseconds → milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

_FIRST_MS = 10**11
"""A smaller number counts seconds: as milliseconds it would lie in 1973 or before."""


def milliseconds(value: Any) -> int | None:
    """None where it is no time. A text without a zone is in UTC."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return int(moment.timestamp() * 1000 + 0.5)
        except (ValueError, OverflowError, OSError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 < value < 10**15:
        return None
    return int(value if value >= _FIRST_MS else value * 1000)
