"""Why a model did not answer, in the provider's own words, and whether a retry can help."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from harness.formats.json_lines import DECODE_ERRORS

_PASSING_STATUSES = frozenset((408, 409, 425, 429))
_PASSING_CODES = frozenset(
    (
        "api_error",
        "overloaded",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "server_is_overloaded",
        "timeout_error",
        "DEADLINE_EXCEEDED",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    )
)
_LASTING_CODES = frozenset(("insufficient_quota", "billing_hard_limit_reached", "billing_error"))
"""Errors that look temporary but do not pass by waiting."""
_TOO_LONG_CODES = frozenset(
    ("context_length_exceeded", "context_window_exceeded", "exceed_context_size_error", "request_too_large")
)
_TOO_LONG_WORDS = (
    r"prompt (is )?too long",  # Anthropic, Ollama
    r"exceed(s|ed)? context limit",  # Anthropic, of prompt and answer together
    r"input is too long",  # Bedrock
    r"maximum context length",  # OpenAI, vLLM, DeepSeek, Mistral, OpenRouter
    r"exceed(s|ed)? (the |this )?(model'?s? )?(available |maximum )?context (length|window|size)",
    r"context window exceeds",  # MiniMax
    r"exceeds the maximum number of (input )?tokens",  # Gemini
    r"maximum prompt length",  # xAI
    r"reduce the length of the (messages|prompt|input)",  # Groq
    r"greater than the context length",  # LM Studio
    r"exceeded model token limit",  # Moonshot
)
"""How each provider reports that a conversation exceeds the context window."""
_TOO_LONG = re.compile("|".join(_TOO_LONG_WORDS), re.IGNORECASE)
_STATED_WINDOW = re.compile(
    r"(?:maximum (?:context|prompt) length (?:is|of)|tokens allowed|context (?:size|window)|token limit|>)[ :(]*"
    r"([0-9][0-9,]{2,})",
    re.IGNORECASE,
)
_LONGEST_EXCERPT = 300
_DELAY = re.compile(r"([0-9.]+)s")


class ModelFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a model did not answer, in the provider's words."""

    message: str
    code: str
    is_passing: bool = False
    """The same request may succeed later."""
    wait_s: float | None = None
    """How long the provider asks to wait."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how soon a model is asked again, for one answer."""

    limit: int = 4
    first_wait_s: float = 0.5
    longest_backoff_s: float = 8.0
    longest_wait_s: float = 60.0
    """If a provider asks for a longer wait than this, there is no retry."""

    def wait_s(self, failure: ModelFailure, attempts: int) -> float | None:
        """How long to wait after `tried` attempts; None: do not retry."""
        if not failure.is_passing or attempts > self.limit:
            return None
        if failure.wait_s is not None:
            # A little more, so that clients that got the same wait time do not all retry at once.
            return failure.wait_s + random.uniform(0, 0.1) if failure.wait_s <= self.longest_wait_s else None  # noqa: S311 # only spreads when it tries again
        backoff_s = min(self.first_wait_s * 2.0 ** (attempts - 1), self.longest_backoff_s)
        return backoff_s * random.uniform(0.75, 1.0)  # noqa: S311 # only spreads when it tries again


def refused(status: int, headers: Mapping[str, str], body: bytes) -> ModelFailure:
    """The failure for an HTTP error response."""
    failure = read_error(_decoded(body), status)
    message = failure.message or f"HTTP {status}" + (f": {excerpt}" if (excerpt := _excerpt(body)) else "")
    is_passing = (status in _PASSING_STATUSES or status >= 500) and failure.code not in _LASTING_CODES
    should_retry = headers.get("x-should-retry", "")
    if should_retry in ("true", "false"):
        is_passing = should_retry == "true"
    wait_s = _header_wait_s(headers)
    return ModelFailure(
        message=message,
        code=failure.code or f"http_{status}",
        is_passing=is_passing,
        wait_s=wait_s if wait_s is not None else failure.wait_s,
    )


def read_error(value: Any, status: int = 0) -> ModelFailure:
    """Read an error object of any provider; missing fields stay empty."""
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error", value) if isinstance(value, dict) else value
    if not isinstance(error, dict):
        return ModelFailure(message=error if isinstance(error, str) else "", code="")
    number = error.get("code")
    values = (error.get(key) for key in ("status", "code", "type"))
    code = next((value for value in values if isinstance(value, str) and value not in ("", "error")), "")
    if not code and isinstance(number, int) and number != status:
        code = f"http_{number}"
    message = next((text for key in ("message", "detail") if isinstance(text := error.get(key), str)), "")
    inner = error.get("metadata")
    if isinstance(inner, dict) and isinstance(inner.get("raw"), str) and inner["raw"] not in message:
        message = f"{message}: {inner['raw'][:_LONGEST_EXCERPT]}"  # a reseller quotes the upstream provider
    is_passing = code in _PASSING_CODES or (
        isinstance(number, int) and (number in _PASSING_STATUSES or number >= 500)
    )
    return ModelFailure(message=message, code=code, is_passing=is_passing, wait_s=_detail_wait_s(error))


def is_too_long(code: str, message: str) -> bool:
    """Whether the request exceeds the context window: the same request can never succeed."""
    return code in _TOO_LONG_CODES or _TOO_LONG.search(message) is not None


def stated_window(message: str) -> int | None:
    """The size of the context window in tokens, if the error message states it."""
    match = _STATED_WINDOW.search(message)
    return int(match[1].replace(",", "")) if match else None


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except DECODE_ERRORS:
        return None


def _excerpt(body: bytes) -> str:
    """The beginning of a response page, without its markup."""
    text = re.sub(
        r"<(style|script|head)\b.*?</\1>|<[^>]*>",
        " ",
        body[:20_000].decode("utf-8", "replace"),
        flags=re.DOTALL,
    )
    return " ".join(text.split())[:_LONGEST_EXCERPT]


def _header_wait_s(headers: Mapping[str, str]) -> float | None:
    in_ms = _number(headers.get("retry-after-ms", ""))
    if in_ms is not None:
        return in_ms / 1000
    text = headers.get("retry-after", "")
    seconds = _number(text)
    return seconds if seconds is not None or not text else _until_s(text)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _until_s(text: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _detail_wait_s(error: dict[str, Any]) -> float | None:
    """Gemini sends the wait time in the body."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (match := _DELAY.fullmatch(delay)):
            return _number(match[1])
    return None
