"""What the provider of a model refused in a run: too many requests, a window that is full, an outage, a key.

Only what the agent itself reports as an error is read, never its text or the output of a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from harness.events import Error, Event, Message, ReasoningDelta, Result, TextDelta, ToolStart, Warning
from harness.formats.limit_words import end_of_limit

Trouble: TypeAlias = Literal["", "window", "throttle", "outage"]
"""What the provider did: a limit of hours or days is reached, there were too many requests at once, or it failed."""

_OF_THE_PROCESS = frozenset(("process_error", "missing_end", "stderr"))
"""Errors that quote what a program wrote before it ended; only words that mean nothing else count there."""
_ANSWERED = (Message, TextDelta, ReasoningDelta, ToolStart)
"""What a model's answer is seen by."""
_KILLED = re.compile(r"ended by SIG|\(signal \d+\)")
_CODES: dict[Trouble, re.Pattern[str]] = {
    "window": re.compile(
        r"limit_reached|rate_limit_rejected|usage_?limit|quota|resource_?exhausted", re.IGNORECASE
    ),
    "throttle": re.compile(
        r"^rate_?limit(?!_allowed)|^http_429$|^429$|overloaded|^http_529$|^529$", re.IGNORECASE
    ),
    "outage": re.compile(
        r"^(http_)?(401|402|403|5\d\d)$|^auth|server_error|network_error|billing|limit_exhausted|connection",
        re.IGNORECASE,
    ),
}
_WINDOW_WORDS = (
    r"hit your .{0,30}limit|usage limit (?:has been )?reached|reached your .{0,30}limit"
    r"|(?:quota|capacity)\b.{0,60}\b(?:reached|resets?|exceeded|exhausted)|exhausted your .{0,40}(?:quota|capacity)"
    r"|exceeded your current quota|insufficient_quota|resource.?exhausted"
)
_THROTTLE_WORDS = (
    r"too many requests|rate.?limit(?:ed| reached| exceeded|_error|_exceeded)|overloaded_error|\boverloaded\b"
)
_OUTAGE_WORDS = (
    r"\b5\d\d (?:internal server error|bad gateway|service unavailable|gateway timeout)|internal server error"
    r"|service unavailable|experiencing high demand|connection (?:failed|refused|reset|error)|error sending request"
    r"|stream disconnected before completion: (?:transport error|error sending)|socket connection was closed"
    r"|credit balance is too low|(?:incorrect|invalid) api key|api key not valid|\b401 unauthorized\b"
    r"|authentication (?:failed|required)|no authentication information"
)
_STATUS = re.compile(
    r"\b(429|529)\b|\b(?:status|error)[:\s]+(?:code\s+)?\(?(5\d\d|401|402|403)\b", re.IGNORECASE
)
_WORDS: dict[Trouble, re.Pattern[str]] = {
    "window": re.compile(_WINDOW_WORDS, re.IGNORECASE),
    "throttle": re.compile(_THROTTLE_WORDS, re.IGNORECASE),
    "outage": re.compile(_OUTAGE_WORDS, re.IGNORECASE),
}


class ProviderTrouble(NamedTuple):
    kind: Trouble = ""
    until_ms: int | None = None
    """When the limit ends; None: that is not known, or there is none."""

    @property
    def is_limit(self) -> bool:
        return self.kind in {"window", "throttle"}


def trouble_of(events: Iterable[Event], result: Result, now: datetime) -> ProviderTrouble:
    """What the provider refused in this run, the worst of it. `now`: with the time zone of the agent."""
    errors = [event for event in events if isinstance(event, Error)]
    warnings = [
        event for event in events if isinstance(event, Warning) and _CODES["window"].search(event.code)
    ]
    kinds = {_kind(event.code, event.message) for event in errors}
    kinds |= {_kind(event.code, event.message) for event in warnings}
    if not result.success and not errors:
        kinds.add(_kind("process_error", result.text))
    kind: Trouble = next((word for word in _WORDS if word in kinds), "")
    until = _until(errors, now) if kind in {"window", "throttle"} else None
    return ProviderTrouble(kind, None if until is None else int(until.timestamp() * 1000))


def refused_at_end(events: Iterable[Event]) -> Trouble:
    """Why the run was still asking its model again when it ended; empty: it was not, or it is not known why.

    An agent that waits and tries again reports no error: it is ended at its time limit, or killed.
    """
    refusal: Trouble = ""
    for event in events:
        if isinstance(event, Warning) and event.code == "retry":
            refusal = _kind("retry", event.message) or refusal
        elif isinstance(event, _ANSWERED) and getattr(event, "role", "assistant") == "assistant":
            refusal = ""
    return refusal


def _kind(code: str, message: str) -> Trouble:
    words = message.replace("\u2019", "'")
    is_quoted = code in _OF_THE_PROCESS
    if is_quoted and _KILLED.search(words):
        return ""
    for kind, pattern in _WORDS.items():
        if pattern.search(words) or (not is_quoted and _CODES[kind].search(code)):
            return kind
    if not is_quoted and (status := _STATUS.search(words)):
        return "throttle" if status[1] else "outage"
    return ""


def _until(errors: Sequence[Error], now: datetime) -> datetime | None:
    return next(
        (at for error in reversed(errors) if (at := end_of_limit(error.message, now)) is not None), None
    )
