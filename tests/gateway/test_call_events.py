"""What a provider says of the windows of a subscription is in the log of a run through a gateway."""

from __future__ import annotations

import json
import zlib

from harness.events import ModelCall, RateLimits, Usage, UsageDelta
from harness.gateway.call_events import CallEvents
from harness.gateway.call_records import shown_headers
from harness.log.raw import RawRequest, RawResponse

NOW_MS = 1_795_000_000_000
HEADERS = {
    "anthropic-ratelimit-unified-5h-utilization": "0.93",
    "anthropic-ratelimit-unified-5h-reset": "1795003600",
    "anthropic-ratelimit-unified-5h-status": "allowed_warning",
    "x-codex-primary-used-percent": "41",
    "x-codex-primary-window-minutes": "10080",
    "set-cookie": "secret=1",
}


def _events(calls: CallEvents, number: int, headers: dict[str, str], **fields: object) -> list[object]:
    calls.feed(
        RawRequest(
            at_ms=NOW_MS, id=number, method="POST", path="/v1/messages", wire="anthropic", purpose="answer"
        )
    )
    shown = {name.lower(): value for name, value in shown_headers(headers).items()}
    answer = {
        "at_ms": NOW_MS,
        "id": number,
        "status": 200,
        "headers": shown,
        "data": zlib.compress(b""),
        **fields,
    }
    return list(calls.feed(RawResponse(**answer)))  # type: ignore[arg-type]


def test_windows_in_the_headers_of_an_answer_are_events_where_they_change() -> None:
    calls = CallEvents()
    call, limits = _events(calls, 1, HEADERS)
    assert isinstance(call, ModelCall)
    assert isinstance(limits, RateLimits)
    told = [(one.name, one.status, one.used_percent, one.resets_at_ms) for one in limits.windows]
    assert told == [("five_hour", "near", 93.0, 1_795_003_600_000), ("week", "ok", 41.0, None)]
    assert len(_events(calls, 2, HEADERS)) == 1
    assert len(_events(calls, 3, HEADERS | {"x-codex-primary-used-percent": "100"})) == 2


def test_what_changes_the_price_of_a_call_is_said() -> None:
    usage: dict[str, object] = {"input_tokens": 5, "cache_creation_input_tokens": 9, "speed": "fast"}
    usage["cache_creation"] = {"ephemeral_1h_input_tokens": 7}
    message = {"type": "message", "model": "claude-opus-5-5", "usage": usage, "content": []}
    call, used = _events(CallEvents(), 1, {}, data=zlib.compress(json.dumps(message).encode()))
    assert isinstance(call, ModelCall)
    assert isinstance(used, UsageDelta)
    assert (used.speed, used.usage) == ("fast", Usage(input=5, cache_write=9, cache_write_1h=7))


def test_an_answer_of_a_recording_says_nothing_of_today() -> None:
    assert len(_events(CallEvents(), 1, HEADERS, origin="recording")) == 1


def test_odd_times_and_figures_are_no_exception() -> None:
    assert len(_events(CallEvents(), 1, HEADERS, at_ms=10**18)) == 1
    odd = dict.fromkeys(HEADERS, "much")
    assert len(_events(CallEvents(), 1, odd)) == 1
