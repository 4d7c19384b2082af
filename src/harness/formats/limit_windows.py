"""Windows of a provider's limits, as several agents and providers state them: by their length, and in HTTP headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from harness.events import LimitWindow, RateLimits

WindowStatus: TypeAlias = Literal["ok", "near", "reached", "exhausted"]

_NEAR_PERCENT, _FULL_PERCENT = 80.0, 100.0
_NAMES = {10_080: "week", 1_440: "day"}
_MONTH_MINUTES = range(28 * 1_440, 31 * 1_440 + 1)
_UNIFIED = "anthropic-ratelimit-unified-"
_UNIFIED_NAMES = {
    "5h": "five_hour",
    "7d": "seven_day",
    "7d_opus": "seven_day_opus",
    "7d_sonnet": "seven_day_sonnet",
}
"""The headers' words, and those of Claude Code for the same window."""
_UNIFIED_STATUS: dict[str, WindowStatus] = {"allowed": "ok", "allowed_warning": "near", "rejected": "reached"}
_FURTHEST = timedelta(days=32)


def window_name(minutes: int | None) -> str:
    """Of a window that its provider has no word for."""
    if not minutes:
        return "window"
    if minutes in _MONTH_MINUTES:
        return "month"
    if minutes in _NAMES:
        return _NAMES[minutes]
    hours, rest = divmod(minutes, 60)
    return f"{minutes} min" if rest else f"{hours} h"


def status_of(used_percent: float | None) -> WindowStatus:
    if used_percent is None or used_percent < _NEAR_PERCENT:
        return "ok"
    return "near" if used_percent < _FULL_PERCENT else "reached"


class StatedWindows:
    """The windows as they were stated last: they come with every call of a model, and seldom say something new."""

    def __init__(self) -> None:
        self._last: dict[str, LimitWindow] = {}

    def take(self, windows: Sequence[LimitWindow]) -> list[RateLimits]:
        """An event with all of them, where one has changed by a word, a percent or a minute."""
        is_new = any(_differs(self._last.get(window.name), window) for window in windows)
        if not is_new:
            return []
        self._last = {window.name: window for window in windows}
        return [RateLimits(windows=list(windows))]


def _differs(before: LimitWindow | None, now: LimitWindow) -> bool:
    return before is None or _rough(before) != _rough(now)


def _rough(window: LimitWindow) -> tuple[str, int | None, int | None]:
    share, resets_ms = window.used_percent, window.resets_at_ms
    return (
        window.status,
        None if share is None else int(share),
        None if resets_ms is None else resets_ms // 60_000,
    )


def header_windows(headers: Mapping[str, str], now: datetime) -> list[LimitWindow]:
    """What the headers of an answer say of the windows of a subscription. `headers`: with names in lower case.

    Limits of a minute, which API keys have, are not among them: a client waits for these by itself.
    """
    return [*_unified(headers, now), *_slots(headers, now)]


def _unified(headers: Mapping[str, str], now: datetime) -> Iterator[LimitWindow]:
    for name in headers:
        if not name.startswith(_UNIFIED) or not name.endswith("-utilization"):
            continue
        word = name.removeprefix(_UNIFIED).removesuffix("-utilization")
        share = _number(headers[name])
        used_percent = None if share is None else round(share * 100, 1)
        status = _UNIFIED_STATUS.get(headers.get(f"{_UNIFIED}{word}-status", ""))
        if used_percent is None and status is None:
            continue
        yield LimitWindow(
            name=_UNIFIED_NAMES.get(word, word),
            status=status or status_of(used_percent),
            used_percent=used_percent,
            resets_at_ms=likely_ms(_number(headers.get(f"{_UNIFIED}{word}-reset", "")), now),
        )


def _slots(headers: Mapping[str, str], now: datetime) -> Iterator[LimitWindow]:
    """Of ChatGPT plans. Which window a slot is, only its length says: a plan may have the week in the first."""
    for slot in ("primary", "secondary"):
        used_percent = _number(headers.get(f"x-codex-{slot}-used-percent", ""))
        if used_percent is None:
            continue
        minutes = _number(headers.get(f"x-codex-{slot}-window-minutes", ""))
        yield LimitWindow(
            name=window_name(None if minutes is None else int(minutes)),
            status=status_of(used_percent),
            used_percent=used_percent,
            resets_at_ms=likely_ms(_number(headers.get(f"x-codex-{slot}-reset-at", "")), now),
        )


def likely_ms(at_s: float | None, now: datetime) -> int | None:
    """A time in seconds since 1970, in milliseconds; None where it is none that a window could end at."""
    if at_s is None:
        return None
    try:
        at = datetime.fromtimestamp(at_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    is_likely = now - timedelta(days=1) < at < now + _FURTHEST
    return int(at_s * 1000) if is_likely else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e12 else None
