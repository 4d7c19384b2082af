"""What Codex says of the windows of its account: live (`account/rateLimits/updated`), and in its rollouts."""

from __future__ import annotations

from harness.contracts.translator import Record
from harness.events import LimitWindow
from harness.formats.fields import amount_of, count_of, record_of, text_of
from harness.formats.limit_windows import status_of, window_name

LIMITS = "account/rateLimits/updated"

_CODES = {
    "usageLimitExceeded": "limit_reached",
    "usage_limit_exceeded": "limit_reached",
    "rateLimitExceeded": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "sessionBudgetExceeded": "limit_exhausted",
    "session_budget_exceeded": "limit_exhausted",
}
_EXHAUSTED = ("credits_depleted", "spend_control")
"""In `rateLimitReachedType`: no window that ends."""


def limit_code(error: Record) -> str:
    """The code of an `Error`, where Codex says that the error is a limit."""
    return _CODES.get(text_of(error.get("codexErrorInfo") or error.get("codex_error_info")), "")


def limit_windows(snapshot: Record) -> list[LimitWindow]:
    """A slot says nothing of which window it has: a plan without one of five hours has the week in the first."""
    limit_type = text_of(snapshot.get("rateLimitReachedType") or snapshot.get("rate_limit_reached_type"))
    is_exhausted = any(word in limit_type for word in _EXHAUSTED)
    windows = [record_of(snapshot.get(slot)) for slot in ("primary", "secondary")]
    return [_window(window, is_exhausted=is_exhausted) for window in windows if window]


def _window(data: Record, *, is_exhausted: bool) -> LimitWindow:
    percent = amount_of(data.get("usedPercent", data.get("used_percent")))
    resets_s = count_of(data.get("resetsAt", data.get("resets_at")))
    status = status_of(percent)
    return LimitWindow(
        name=window_name(count_of(data.get("windowDurationMins", data.get("window_minutes")))),
        status="exhausted" if is_exhausted and status == "reached" else status,
        used_percent=percent,
        resets_at_ms=resets_s * 1000 if resets_s else None,
    )


def stated_limits(record: Record) -> list[LimitWindow]:
    return limit_windows(record_of(record_of(record.get("params")).get("rateLimits")))
