"""Windows of limits: what headers and rollouts say, and when that is news."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.agents.codex.limits import limit_code, limit_windows
from harness.events import LimitWindow
from harness.formats.limit_windows import StatedWindows, header_windows, window_name

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
SOON_S = int(NOW.timestamp()) + 3600


def test_headers_of_a_subscription_are_read() -> None:
    headers = {
        "anthropic-ratelimit-unified-5h-utilization": "0.93",
        "anthropic-ratelimit-unified-5h-status": "allowed_warning",
        "anthropic-ratelimit-unified-5h-reset": str(SOON_S),
        "anthropic-ratelimit-unified-7d-utilization": "0.41",
        "anthropic-ratelimit-requests-remaining": "12",
    }

    assert header_windows(headers, NOW) == [
        LimitWindow(name="five_hour", status="near", used_percent=93.0, resets_at_ms=SOON_S * 1000),
        LimitWindow(name="seven_day", status="ok", used_percent=41.0),
    ]


def test_a_slot_is_named_after_its_length() -> None:
    headers = {
        "x-codex-primary-used-percent": "100",
        "x-codex-primary-window-minutes": "10080",
        "x-codex-primary-reset-at": str(SOON_S),
    }

    assert header_windows(headers, NOW) == [
        LimitWindow(name="week", status="reached", used_percent=100.0, resets_at_ms=SOON_S * 1000)
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-codex-primary-used-percent", "many"),
        ("x-codex-primary-used-percent", "-5"),
        ("x-codex-primary-used-percent", "nan"),
        ("anthropic-ratelimit-unified-5h-utilization", ""),
    ],
)
def test_headers_of_another_shape_say_nothing(name: str, value: str) -> None:
    assert header_windows({name: value}, NOW) == []


@pytest.mark.parametrize("reset", ["0", "1e30", "99999999999", "tomorrow", str(SOON_S + 40 * 86_400)])
def test_a_time_that_no_window_could_end_at_is_not_believed(reset: str) -> None:
    headers = {"x-codex-primary-used-percent": "10", "x-codex-primary-reset-at": reset}

    assert header_windows(headers, NOW)[0].resets_at_ms is None


@pytest.mark.parametrize(
    ("minutes", "name"),
    [(300, "5 h"), (10_080, "week"), (1_440, "day"), (43_200, "month"), (90, "90 min"), (None, "window")],
)
def test_names_of_windows(minutes: int | None, name: str) -> None:
    assert window_name(minutes) == name


def test_only_news_is_written() -> None:
    stated = StatedWindows()
    window = LimitWindow(name="5 h", status="ok", used_percent=12.1, resets_at_ms=60_000_000)

    assert len(stated.take([window])) == 1
    assert (
        stated.take([LimitWindow(name="5 h", status="ok", used_percent=12.9, resets_at_ms=60_000_900)]) == []
    )
    assert len(stated.take([LimitWindow(name="5 h", status="ok", used_percent=13.0)])) == 1
    assert stated.take([]) == []


def test_codex_names_no_window_where_money_is_used_up() -> None:
    snapshot = {
        "primary": {"usedPercent": 100, "windowDurationMins": 300, "resetsAt": SOON_S},
        "secondary": None,
        "rateLimitReachedType": "workspace_member_credits_depleted",
    }

    assert [window.status for window in limit_windows(snapshot)] == ["exhausted"]
    assert limit_windows({"primary": None, "secondary": None}) == []
    assert limit_code({"codexErrorInfo": "usageLimitExceeded"}) == "limit_reached"
    assert limit_code({"codexErrorInfo": {"httpConnectionFailed": {}}}) == ""
