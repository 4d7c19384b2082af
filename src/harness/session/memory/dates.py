"""Dates and times as text: how long ago, how much later, and whether a planned date has passed."""

from __future__ import annotations

import re
from datetime import date, datetime, tzinfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HEADER = re.compile(r"^(Date:\s*)([A-Z][a-z]+ \d{1,2},? \d{4})[ \t]*$", re.MULTILINE)
_DAY = re.compile(r"([A-Z][a-z]+)\s+(\d{1,2})(?:-\d{1,2})?,?\s+(\d{4})")
_ABOUT = re.compile(r"(early|mid|late)[- ]?([A-Z][a-z]+)\s+(\d{4})", re.IGNORECASE)
_ABOUT_DAYS = {"early": 7, "mid": 15, "late": 23}
_REFERRED = re.compile(r"\((estimated|meaning)\s+([^()\n]*\d{4})\)")
_PLANNED = re.compile(
    r"\b(will|plans? to|planning to|going to|looking forward to|intends? to|wants? to|needs? to|about to|scheduled)\b",
    re.IGNORECASE,
)
_SPANS = ((365, 365, "year"), (30, 30, "month"), (7, 7, "week"), (2, 1, "day"))
_SHORTEST_GAP_MS = 10 * 60_000
_GAP_UNITS = (("week", 10_080), ("day", 1_440), ("hour", 60), ("minute", 1))


def zone(name: str) -> tzinfo | None:
    """The time zone of that name; None is the machine's own."""
    if not name:
        return None
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def local(ms: int, in_zone: tzinfo | None) -> datetime:
    moment = datetime.fromtimestamp(ms / 1000, in_zone)
    return moment if in_zone is not None else moment.astimezone()


def day_text(moment: date) -> str:
    return f"{moment:%b} {moment.day}, {moment.year}"


def read_day(text: str) -> date | None:
    """`May 30, 2025`, `May 27-28, 2025`, `late April 2025`."""
    if match := _DAY.search(text):
        return _day(match[1], int(match[2]), int(match[3]))
    if match := _ABOUT.search(text):
        return _day(match[2], _ABOUT_DAYS[match[1].lower()], int(match[3]))
    return None


def _day(month: str, day: int, year: int) -> date | None:
    try:
        return date(year, _MONTHS.index(month[:3].lower()) + 1, day)
    except ValueError:
        return None


def relative(day: date, today: date) -> str:
    """`today`, `yesterday`, `3 weeks ago`, `in 2 days`."""
    days = (today - day).days
    if abs(days) <= 1:
        return {0: "today", 1: "yesterday", -1: "tomorrow"}[days]
    span = _span(abs(days))
    return f"{span} ago" if days > 0 else f"in {span}"


def _span(days: int) -> str:
    for least, size, unit in _SPANS:
        if days >= least:
            number = days // size
            return f"{number} {unit}" + ("s" if number > 1 else "")
    return "1 day"


def with_relative_days(observations: str, today: date) -> str:
    """Add to headers how long ago they are; mark gaps between them, and planned dates that have passed."""
    annotated = _REFERRED.sub(lambda match: _referred(match, today), observations)
    previous: date | None = None

    def header(match: re.Match[str]) -> str:
        nonlocal previous
        day = read_day(match[2])
        if day is None:
            return match[0]
        gap = (day - previous).days if previous is not None else 0
        previous = day
        note = f"[{_span(gap)} later]\n\n" if gap > 1 else ""
        return f"{note}{match[1]}{match[2]} ({relative(day, today)})"

    return _HEADER.sub(header, annotated)


def _referred(match: re.Match[str], today: date) -> str:
    day = read_day(match[2])
    if day is None:
        return match[0]
    before = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    is_over = day < today and _PLANNED.search(before) is not None
    note = ", likely already happened" if is_over else ""
    return f"({match[1]} {match[2]} - {relative(day, today)}{note})"


def gap_text(gap_ms: int) -> str:
    """`2 hours 5 minutes later`; empty for less than ten minutes."""
    if gap_ms < _SHORTEST_GAP_MS:
        return ""
    minutes_left = gap_ms // 60_000
    parts: list[str] = []
    for unit, minutes in _GAP_UNITS:
        number, minutes_left = divmod(minutes_left, minutes)
        if number:
            parts.append(f"{number} {unit}" + ("s" if number > 1 else ""))
    return f"{' '.join(parts[:2])} later"
