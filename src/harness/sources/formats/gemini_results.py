"""How runs of Gemini CLI end, and what they say that they used."""

from __future__ import annotations

import re

from harness.events import Outcome, Usage
from harness.sources.formats.fields import count_of
from harness.sources.translator import Record

_FAILURES: dict[str, tuple[str, Outcome]] = {
    "FatalTurnLimitedError": ("max_turns", "limit_exceeded"),
    "FatalCancellationError": ("cancelled", "interrupted"),
    "FatalAuthenticationError": ("authentication", "failed"),
    "FatalInputError": ("bad_input", "failed"),
    "FatalToolExecutionError": ("tool_error", "failed"),
}
"""Type of the error that ended a run → its code, and what became of the run."""
STOPS: dict[str, tuple[str, Outcome]] = {
    "Loop detected, stopping execution": ("loop_detected", "failed"),
    "Maximum session turns exceeded": ("max_turns", "limit_exceeded"),
}
"""Remarks with which a run ends by itself, whatever its result says then."""

_STATUS_IN_MESSAGE = re.compile(r'"code": ?(\d{3})\b')
_STATUS_EXITS = range(144, 256)
"""What is left of the statuses from 400 on in an exit code."""


def outcome_of(kind: str) -> Outcome:
    return _FAILURES.get(kind, ("", "failed"))[1]


def error_code(kind: str, message: str, exit_code: int | None) -> str:
    """The status of the model's server, from the message or from what the exit code has left of it."""
    if kind in _FAILURES:
        return _FAILURES[kind][0]
    status = _STATUS_IN_MESSAGE.search(message)
    if status is not None:
        return f"http_{status[1]}"
    if exit_code is not None and exit_code in _STATUS_EXITS:
        return f"http_{exit_code + 256}"
    if message.startswith("[API Error"):
        return "api_error"
    return kind if kind not in ("", "unknown") else "error"


def usage_of(told: Record) -> Usage:
    """`input_tokens` includes what came from the cache. Reasoning is not named, but it is in the total."""
    prompt, output, cached = (count_of(told.get(key)) for key in ("input_tokens", "output_tokens", "cached"))
    fresh, total = count_of(told.get("input")), count_of(told.get("total_tokens"))
    reasoning = None
    if prompt is not None and output is not None and total is not None:
        reasoning = max(0, total - prompt - output)
    return Usage(
        input=fresh if fresh is not None else prompt, output=output, cache_read=cached, reasoning=reasoning
    )


def usage_of_tokens(told: Record) -> Usage:
    """The same, as it is counted where all is told in one object."""
    return Usage(
        input=count_of(told.get("input")),
        output=count_of(told.get("candidates")),
        cache_read=count_of(told.get("cached")),
        reasoning=count_of(told.get("thoughts")),
    )


def is_any(usage: Usage) -> bool:
    return any((usage.input, usage.output, usage.cache_read, usage.reasoning))
