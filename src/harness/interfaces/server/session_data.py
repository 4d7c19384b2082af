"""What is told of a session without reading its log."""

from __future__ import annotations

import msgspec

from harness.errors import HarnessError
from harness.interfaces.server.desk import Desk
from harness.log.selection import is_active
from harness.log.store import Metadata, Query, Store
from harness.session.completion import complete

_TITLE_CHARACTERS = 80
_WAITS, _LIVE, _AT_REST = range(3)
"""In which order sessions are listed."""
_UNTOLD = {"run": "interrupted", "thread": ""}
"""What became of a session of which nobody says it: a run has died, a conversation has had none."""


class SessionData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    kind: str
    title: str
    name: str
    prompt: str
    agent: str
    agent_name: str
    runner: str
    model: str
    mode: str
    permission_mode: str
    cwd: str
    started_ms: int
    updated_ms: int
    duration_ms: int | None
    outcome: str
    is_live: bool
    waits: bool
    cost_usd: float | None
    tags: list[str]


def describe(metadata: Metadata, store: Store, desk: Desk) -> SessionData:
    log_id = metadata.session_id
    is_live, waits = _life(log_id, store, desk)
    started_ms = metadata.created_ms or _started_ms(metadata)
    return SessionData(
        id=log_id,
        kind=metadata.kind,
        title=metadata.name or _title(metadata.prompt),
        name=metadata.name,
        prompt=metadata.prompt,
        agent=metadata.agent,
        agent_name=metadata.agent_name,
        runner=str(metadata.settings.get("runner") or ""),
        model=metadata.model,
        mode=str(metadata.settings.get("currentModeId") or ""),
        permission_mode=str(metadata.settings.get("permissionMode") or ""),
        cwd=metadata.cwd,
        started_ms=started_ms,
        updated_ms=metadata.updated_ms or started_ms + (metadata.duration_ms or 0),
        duration_ms=metadata.duration_ms,
        outcome="" if is_live else metadata.outcome or _UNTOLD[metadata.kind],
        is_live=is_live,
        waits=waits,
        cost_usd=metadata.total_cost_usd,
        tags=metadata.tags,
    )


def find(store: Store, desk: Desk, text: str, limit: int, offset: int) -> tuple[list[SessionData], int]:
    """A page of the sessions that fit, and how many there are in all: those that wait for somebody first, then
    those in which something happens, then the last changed. What is merely loaded stands where it would otherwise.
    """
    active: dict[str, int] = {}
    for metadata in store.find(Query(text=text, active=True)):
        active[metadata.session_id] = _rank(metadata, store, desk)
    found = store.find(Query(text=text))
    found.sort(key=lambda metadata: active.get(metadata.session_id, _AT_REST))
    page = found[offset : offset + limit]
    return [describe(metadata, store, desk) for metadata in page], len(found)


def _rank(metadata: Metadata, store: Store, desk: Desk) -> int:
    log_id = metadata.session_id
    is_live, waits = _life(log_id, store, desk)
    if not is_live and not waits and is_active(metadata):
        complete(store, log_id)  # its process died: only the log says whether it waits
        is_live, waits = _life(log_id, store, desk)
    return _WAITS if waits else _LIVE if is_live else _AT_REST


def _life(log_id: str, store: Store, desk: Desk) -> tuple[bool, bool]:
    """Whether something happens in it, and whether it waits for somebody.

    A conversation that this server merely has loaded is not live, though its log is open.
    """
    try:
        standing = desk.standing(log_id)
        is_live = standing.is_running if standing.is_ours else store.is_live(log_id)
    except HarnessError:
        return False, False
    return is_live, standing.is_waiting


def _started_ms(metadata: Metadata) -> int:
    return int(metadata.start_time) * 1000 if metadata.start_time.isdecimal() else 0


def _title(prompt: str) -> str:
    line = next((line.strip() for line in prompt.split("\n") if line.strip()), "")
    return line if len(line) <= _TITLE_CHARACTERS else f"{line[: _TITLE_CHARACTERS - 1]}…"
