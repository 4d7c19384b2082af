"""When a limit of a provider ends, read from the words of an agent's error.

Only errors that the agent itself reports are read, never its text or the output of a tool: those could say anything.
A time is believed only if it lies in the next 32 days.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = r"\d+(?:\.\d+)?\s*(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\b"
_DURATION = re.compile(
    rf"(?:try again|resets?|retry)\s+(?:in|after)\s+((?:{_PART}[\s,]*(?:and\s+)?)+)|retry.after\W+(\d+)\b",
    re.IGNORECASE,
)
_COMPACT = re.compile(r"(?:resets?|try again)\s+(?:in|after)\s+((?:\d+[dhms])+)\b", re.IGNORECASE)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([dhms])", re.IGNORECASE)
_CLOCK = r"(\d{1,2}):(\d{2})\s*([ap]m)?"
_DATE = re.compile(
    rf"(?:resets?|try again)(?:\s+(?:on|at))?\s+([A-Z][a-z]{{2}})[a-z]*\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s*(\d{{4}})?"
    rf"(?:,|\s+at)?\s+{_CLOCK}(?:\s*\(?(UTC|GMT)\)?)?",
    re.IGNORECASE,
)
_TIME = re.compile(rf"(?:resets?|try again)\s+(?:at\s+)?{_CLOCK}(?:\s*\(?(UTC|GMT)\)?)?", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FURTHEST = timedelta(days=32)


def end_of_limit(text: str, now: datetime) -> datetime | None:
    """`now`: with a time zone, in which times without one are read. None: the words name no time, or an odd one."""
    for reader in (_after_duration, _on_date, _at_time):
        try:
            end = reader(text, now)
        except (ValueError, OverflowError):  # the 40th of May
            continue
        if end is not None and now - timedelta(days=1) < end < now + _FURTHEST:
            return max(end, now)
    return None


def _after_duration(text: str, now: datetime) -> datetime | None:
    if match := _COMPACT.search(text):
        words = match[1]
    elif match := _DURATION.search(text):
        words = match[1] or f"{match[2]} s"
    else:
        return None
    seconds = sum(float(amount) * _UNITS_S[unit.lower()] for amount, unit in _AMOUNT.findall(words))
    return now + timedelta(seconds=seconds)


def _on_date(text: str, now: datetime) -> datetime | None:
    match = _DATE.search(text)
    if match is None:
        return None
    month, day, year, hour, minute, half, zone = match.groups()
    number = _MONTHS.index(month.lower()) + 1 if month.lower() in _MONTHS else 0
    clock = now.astimezone(UTC) if zone else now
    at = clock.replace(
        month=number,
        day=int(day),
        year=int(year) if year else clock.year,
        hour=_hour(hour, half),
        minute=int(minute),
        second=0,
        microsecond=0,
    )
    is_next_year = not year and at < clock - timedelta(days=1)
    return at.replace(year=at.year + 1) if is_next_year else at


def _at_time(text: str, now: datetime) -> datetime | None:
    match = _TIME.search(text)
    if match is None:
        return None
    hour, minute, half, zone = match.groups()
    clock = now.astimezone(UTC) if zone else now
    at = clock.replace(hour=_hour(hour, half), minute=int(minute), second=0, microsecond=0)
    return at + timedelta(days=1) if at < clock else at


def _hour(hour: str, half: str | None) -> int:
    if half is None:
        return int(hour)
    return int(hour) % 12 + (12 if half.lower() == "pm" else 0)
