"""What earlier runs of an agent's session have used, from the logs of these runs.

For agents that count whole sessions: what a run has used itself is the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.errors import HarnessError
from harness.events import Event, Result, SessionStart, Usage, Warning
from harness.log.hub import Hub
from harness.log.store import read_all


def earlier_usage(hub: Hub, agent: str, session_id: str, run_id: str) -> Usage | None:
    """Of all runs of that session but this one; None when no other is recorded."""
    if not session_id or session_id == run_id:
        return None
    used: Usage | None = None
    try:
        logs = [
            one.session_id
            for one in hub.store.list()
            if one.agent_session_id == session_id and one.session_id != hub.log_id
        ]
        for log_id in [*sorted(logs), hub.log_id]:
            used = _used_in(read_all(hub.store, log_id), agent, session_id, run_id, used)
    except (HarnessError, OSError):
        return None  # then nobody knows it
    return used


def _used_in(
    events: Iterable[Event], agent: str, session_id: str, run_id: str, before: Usage | None
) -> Usage | None:
    """What a log adds to what was used before: a run that tells its session's total tells all of that again."""
    runs: set[str] = set()
    totals: set[str] = set()
    used = before
    for event in events:
        if isinstance(event, SessionStart):
            if event.agent == agent and event.session_id == session_id and event.run_id != run_id:
                runs.add(event.run_id)
        elif isinstance(event, Warning) and event.code == "usage_cumulative":
            totals.add(event.run_id)
        elif isinstance(event, Result) and event.run_id in runs and event.usage is not None:
            used = event.usage if event.run_id in totals else (used or Usage()).plus(event.usage)
    return used
