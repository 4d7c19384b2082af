"""Asking a model for one text, with retries after transient errors; and the failure that ends a run."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal

import msgspec

from harness.contracts.model import Ask, Model
from harness.events import Error, Message
from harness.events.memory import Noting

_PASSING_STATUSES = frozenset((408, 425, 429, *range(500, 600)))
_STATUS = re.compile(r"http_(\d{3})")
_PASSING_CODES = frozenset(
    (
        "api_error",
        "connection",
        "connection_lost",
        "empty_answer",
        "overloaded",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "server_is_overloaded",
        "timeout",
        "timeout_error",
        "DEADLINE_EXCEEDED",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    )
)
_PASSING_WORDS = re.compile(
    r"terminated|fetch failed|econnreset|econnrefused|enotfound|eai_again|socket hang up|network error"
    r"|timed out|timeout|connection (reset|closed|lost|aborted)|broke off",
    re.IGNORECASE,
)
_CAUSES = ("__cause__", "__context__", "cause", "error")


class ModelFailed(Exception):
    """The model did not answer; the text is the reason that it gave."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how soon a request to a model is retried."""

    retries: int = 8
    first_wait_s: float = 1.0
    longest_wait_s: float = 120.0
    jitter: float = 0.2
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    """Returns a random number between 0 and 1."""

    def wait_s(self, tries: int) -> float:
        """The wait before retry number `tries`, counted from 0."""
        wait_s = min(self.first_wait_s * 2.0**tries, self.longest_wait_s)
        return float(wait_s * (1 + self.jitter * (2 * self.chance() - 1)))


async def answer_text(model: Model, ask: Ask, retry: RetryPolicy) -> str:
    """The model's answer. Raises ModelFailed when there is none, or none in time."""
    tries = 0
    while True:
        try:
            return await _answer(model, ask)
        except Exception as error:
            if tries >= retry.retries or not is_transient(error):
                message = str(error) or type(error).__name__
                raise ModelFailed(message, getattr(error, "code", "")) from error
        await retry.sleep(retry.wait_s(tries))
        tries += 1


async def _answer(model: Model, ask: Ask) -> str:
    message: Message | None = None
    failure: Error | None = None
    stream = model.answer(ask)
    try:
        async for event in stream:
            if isinstance(event, Message):
                message = event
            elif isinstance(event, Error):
                failure = event
    finally:
        if (close := getattr(stream, "aclose", None)) is not None:
            await close()
    if failure is not None:
        raise ModelFailed(failure.message or "the model failed without a message", failure.code)
    if message is None:
        raise ModelFailed("the model gave no answer", "no_answer")
    return message.text


def is_transient(error: BaseException) -> bool:
    """Whether a retry may succeed; never true for a deliberate cancellation."""
    chain = list(_chain(error))
    if any(isinstance(error_found, asyncio.CancelledError | KeyboardInterrupt) for error_found in chain):
        return False
    return any(_is_passing(error_found) for error_found in chain)


def _is_passing(error: BaseException) -> bool:
    if getattr(error, "is_retryable", False) is True:
        return True
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    numbers = (getattr(error, name, None) for name in ("status_code", "status", "code"))
    if any(isinstance(number, int) and number in _PASSING_STATUSES for number in numbers):
        return True
    code = getattr(error, "code", "")
    if isinstance(code, str):
        match = _STATUS.fullmatch(code)
        if code in _PASSING_CODES or (match and int(match[1]) in _PASSING_STATUSES):
            return True
        if match:
            return False  # the status is more reliable than the text of the message
    return _PASSING_WORDS.search(str(error)) is not None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    waiting, seen_ids = [error], set()
    while waiting:
        link = waiting.pop()
        if id(link) in seen_ids:
            continue
        seen_ids.add(id(link))
        yield link
        causes = (getattr(link, name, None) for name in _CAUSES)
        waiting += [cause for cause in causes if isinstance(cause, BaseException)]


class MemoryFailure(Exception):
    """The text is shown to the user. The event that reports the failure is already in the log."""

    def __init__(self, operation: Noting, stage: Literal["run", "buffering"], reason: str) -> None:
        super().__init__(f"Observational memory {operation} {stage} failed: {reason}")
        self.operation = operation
        self.stage = stage
        self.reason = reason
