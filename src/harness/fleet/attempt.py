"""One attempt at a case: what came of it, and whose fault it was when nothing did."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from harness.events import Error, Event, Result, Usage, Warning

Fault: TypeAlias = Literal[
    "",
    "lost",
    "interrupted",
    "setup_failed",
    "not_started",
    "rate_limited",
    "agent_failed",
    "check_failed",
]
"""Why an attempt has no result. None of these is a wrong answer: a wrong answer, and one that took too long, is a
result."""

_NOT_STARTED = frozenset(("agent_not_found", "spawn_failed"))
_LIMITED = re.compile(
    r"\b429\b|rate.?limit|too many requests|overloaded|resource.?exhausted|\b529\b", re.IGNORECASE
)
_LIMITED_CODES = re.compile(r"rate_limit_(?!allowed)|RESOURCE_EXHAUSTED|overloaded|^429$|^529$")


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored of one attempt. With an empty `fault` it is the result of its case."""

    case: str
    number: int
    fault: Fault = ""
    detail: str = ""
    log_id: str = ""
    outcome: str = ""
    passed: bool | None = None
    score: dict[str, float] = {}
    check_exit: int | None = None
    check_output: str = ""
    cost_usd: float | None = None
    usage: Usage = Usage()
    is_unpriced: bool = False
    """Tokens were used whose price is not known."""
    was_limited: bool = False
    """The provider refused a request because there were too many."""
    started_ms: int = 0
    duration_s: float = 0.0
    """From the start of the worker to the result."""
    run_s: float = 0.0
    """Of the agent alone."""
    host: str = ""

    @property
    def is_result(self) -> bool:
        return not self.fault


class CaseProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of an attempt while it runs."""

    case: str
    number: int
    pid: int = 0
    host: str = ""
    started_ms: int = 0
    log_id: str = ""


def was_limited(events: Iterable[Event], result: Result) -> bool:
    """Whether the provider refused requests of this run because there were too many."""
    for event in events:
        if isinstance(event, Error | Warning) and _LIMITED_CODES.search(event.code):
            return True
        if isinstance(event, Error) and _LIMITED.search(event.message):
            return True
    return not result.success and bool(_LIMITED.search(result.text))


def fault_of(result: Result, *, limited: bool) -> Fault:
    """Why a run says nothing about the agent; empty when it does, however it ended."""
    if result.outcome in _NOT_STARTED:
        return "not_started"
    if result.outcome == "interrupted":
        return "interrupted"
    if result.outcome == "failed":
        return "rate_limited" if limited else "agent_failed"
    return ""


def counts(attempt: Attempt) -> bool:
    """Whether the attempt uses up one of the retries; one that was stopped on request does not."""
    return attempt.fault != "interrupted"
