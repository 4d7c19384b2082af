"""Which limit of its provider ended the last run of a conversation, and when that opens again."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from harness.events import Error, Event, LimitWindow, Parked, RateLimits, Result, SessionStart, Unparked
from harness.folds.provider_trouble import trouble_of
from harness.log.run_tree import RunNode

_MOST_ERRORS = 8
TAKEN = frozenset((Error, Parked, RateLimits, Result, SessionStart, Unparked))


class LimitFacts(msgspec.Struct, omit_defaults=True):
    errors: list[Error] = []
    """Of the current run itself, the latest of them."""
    windows: dict[str, LimitWindow] = {}
    """As the agent stated them last, by name."""
    limit: LimitWindow | None = None
    """What ended the last run; None: it ended otherwise, or one runs."""
    ended_ms: int = 0
    began_ms: int = 0
    """When the last run began."""
    parked: Parked | None = None
    """Until when the conversation waits, to continue by itself."""
    last_parked: Parked | None = None
    """The same, also after that; None since a person has sent a message."""
    is_resumed: bool = False
    """It was to continue, and nothing has followed: whether the agent was asked is not known."""


def take(facts: LimitFacts, event: Event, run: RunNode) -> None:
    """`run`: that of the event, by the run tree. Runs of sub-agents end at limits of their own accord."""
    match event:
        case Parked():
            facts.parked = facts.last_parked = event
        case Unparked():
            facts.parked = None
            facts.is_resumed = event.reason == "resumed"
        case RateLimits():
            facts.windows.update((window.name, window) for window in event.windows)
        case SessionStart() if not run.depth:
            facts.errors, facts.limit, facts.began_ms = [], None, event.timestamp_ms
            if not facts.is_resumed:  # a person has sent something
                facts.last_parked = None
            facts.is_resumed = False
        case Error() if not run.depth:
            facts.errors = [*facts.errors[1 - _MOST_ERRORS :], event]
        case Result() if not run.depth:
            facts.limit = _reached(facts, event)
            facts.ended_ms = event.timestamp_ms
            facts.errors = []
        case _:
            return


def _reached(facts: LimitFacts, result: Result) -> LimitWindow | None:
    if result.success:
        return None
    at = datetime.fromtimestamp(result.timestamp_ms / 1000, UTC).astimezone()
    trouble = trouble_of(facts.errors, result, at)
    if trouble.kind != "window":
        return None
    full = [window for window in facts.windows.values() if window.status in ("reached", "exhausted")]
    current = [
        window for window in full if window.resets_at_ms is None or window.resets_at_ms > result.timestamp_ms
    ]
    if current:  # all of them must be open again
        return max(current, key=lambda window: (window.status == "exhausted", window.resets_at_ms or 0))
    return LimitWindow(name="", status="reached", resets_at_ms=trouble.until_ms)
