"""What Claude Code says of the windows of its account, in `rate_limit_event`."""

from __future__ import annotations

from typing import Literal

from harness.contracts.translator import Record
from harness.events import LimitWindow
from harness.formats.fields import amount_of, count_of, record_of, text_of

_STATUS: dict[str, Literal["ok", "near", "reached", "exhausted"]] = {
    "allowed": "ok",
    "allowed_warning": "near",
    "rejected": "reached",
}


def limit_windows(data: Record) -> list[LimitWindow]:
    """Of a `rate_limit_info`: the window that it is about, and all of them where it names them."""
    windows = {
        name: record_of(window)
        for name, window in record_of(data.get("unifiedWindows")).items()
        if record_of(window)
    }
    if name := text_of(data.get("rateLimitType")):
        windows[name] = {**windows.get(name, {}), **data}
    return [
        window for name, window_data in windows.items() if (window := _window(name, window_data)) is not None
    ]


def _window(name: str, data: Record) -> LimitWindow | None:
    share_of_limit, resets_s = amount_of(data.get("utilization")), count_of(data.get("resetsAt"))
    status = _STATUS.get(text_of(data.get("status")) or ("allowed" if share_of_limit is not None else ""))
    if status == "reached" and data.get("isUsingOverage") is True:
        status = "ok"  # what is above the window is paid for
    elif status == "reached" and name == "overage" and not resets_s:
        status = "exhausted"
    if status is None:
        return None
    return LimitWindow(
        name=name,
        status=status,
        used_percent=None if share_of_limit is None else round(share_of_limit * 100, 1),
        resets_at_ms=resets_s * 1000 if resets_s else None,
    )
