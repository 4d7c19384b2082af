"""When conversations of this machine continue by themselves, as the settings say, and which wait for that now."""

from __future__ import annotations

import re

from harness.config import Settings
from harness.errors import UsageError
from harness.session.parking import ParkingRules

_QUIET = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")


def parking_of(settings: Settings, at_limit: str = "", max_windows: int | None = None) -> ParkingRules:
    """`at_limit`, `max_windows`: of one conversation, over the settings. Raises UsageError for an odd quiet time."""
    most = settings.value("limits.max_windows") if max_windows is None else max_windows
    return ParkingRules(
        is_on=(at_limit or settings.value("limits.at_limit")) == "resume" and most > 0,
        most_windows=most,
        longest_s=settings.value("limits.longest_secs"),
        quiet=_quiet(settings.value("limits.quiet") or ""),
    )


def _quiet(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    times = _QUIET.fullmatch(text.strip())
    if times is None:
        raise UsageError(
            f"limits.quiet is no time of the day: {text!r}", hint='from and to, as in "23:00-07:00"'
        )
    start_hour, start, end_hour, end = map(int, times.groups())
    return start_hour * 60 + start, end_hour * 60 + end
