"""What agents last said of the windows of their accounts, in all logs. Nothing is asked of a provider."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from harness.clients.sessions.ids import all_ids
from harness.events import Error, Event, RateLimits, Result
from harness.folds.provider_trouble import trouble_of
from harness.log.private_files import open_private
from harness.log.query import grep_events
from harness.log.stores.files import FileStore

_LONGEST_MS = 32 * 24 * 3600 * 1000
"""No window is longer: an older word, or a time that is further away, says nothing."""
_DAY_MS = 24 * 3600 * 1000


class StatedLimit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    agent: str
    window: str
    """Empty: the agent only said that a limit was reached."""
    status: str
    used_percent: float | None
    resets_at_ms: int | None
    said_ms: int
    is_past: bool
    """The window has opened again since, so that how full it is now is not known."""


def stated_limits(store: FileStore, now_ms: int) -> list[StatedLimit]:
    """The latest word on each window of each agent."""
    latest: dict[tuple[str, str], StatedLimit] = {}
    for log_id in all_ids(store):
        metadata = store.metadata(log_id)
        if metadata.updated_ms and metadata.updated_ms < now_ms - _LONGEST_MS:
            continue
        for event in _events(store, log_id):
            for limit in _limits(metadata.agent_name, event, now_ms):
                before = latest.get((limit.agent, limit.window))
                if before is None or before.said_ms <= limit.said_ms:
                    latest[limit.agent, limit.window] = limit
    return sorted(latest.values(), key=lambda limit: (limit.agent, limit.window))


def _events(store: FileStore, log_id: str) -> Iterator[Event]:
    try:
        with os.fdopen(open_private(store.path(log_id), os.O_RDONLY), "rb", buffering=0) as file:
            yield from grep_events(file, ("RateLimits", "Error"))
    except OSError:
        return


def _limits(agent: str, event: Event, now_ms: int) -> Sequence[StatedLimit]:
    if isinstance(event, RateLimits):
        rows = [
            (window.name, window.status, window.used_percent, window.resets_at_ms) for window in event.windows
        ]
    elif isinstance(event, Error):
        at = datetime.fromtimestamp(event.timestamp_ms / 1000, UTC).astimezone()
        trouble = trouble_of([event], Result(success=False, outcome="failed"), at)
        rows = [("", "reached", None, trouble.until_ms)] if trouble.kind == "window" else []
    else:
        return ()
    return [
        StatedLimit(
            agent=agent,
            window=name,
            status=status,
            used_percent=percent,
            resets_at_ms=resets if _is_likely(resets, event.timestamp_ms) else None,
            said_ms=event.timestamp_ms,
            is_past=resets is not None and resets <= now_ms,
        )
        for name, status, percent, resets in rows
    ]


def _is_likely(at_ms: int | None, said_ms: int) -> bool:
    return at_ms is not None and said_ms - _DAY_MS < at_ms < said_ms + _LONGEST_MS
