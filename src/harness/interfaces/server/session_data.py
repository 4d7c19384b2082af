"""What is told of a session without reading its log."""

from __future__ import annotations

import msgspec

from harness.errors import HarnessError
from harness.interfaces.server.backend import Backend
from harness.log.store import Metadata, Query, Store
from harness.session.open_thread import complete

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


def describe(metadata: Metadata, store: Store, backend: Backend) -> SessionData:
    return _described(metadata, *_life(metadata.session_id, store, backend))


class Listing:
    """Sessions in pages: those that wait for somebody first, then those in which something happens, then the last
    changed. What is merely loaded stands where it would otherwise.

    Contract: costs what is shown and what goes on, however many sessions there are. May be asked by several threads.
    """

    def __init__(self, store: Store, backend: Backend) -> None:
        self._store = store
        self._backend = backend
        self._completed: set[str] = set()
        """Logs whose process died, and that were completed as far as they can be."""

    def page(self, text: str, limit: int, offset: int) -> tuple[list[SessionData], int]:
        """And how many there are in all, which is an estimate for words that very many of them say."""
        ranked: list[tuple[int, SessionData]] = []
        for metadata in self._store.find(Query(text=text, active=True)):
            rank, is_live, waits = self._rank(metadata)
            if rank != _AT_REST:
                ranked.append((rank, _described(metadata, is_live, waits)))
        ranked.sort(key=lambda one: one[0])
        front = [data for _rank, data in ranked]
        shown = front[offset : offset + limit]
        rest = Query(
            text=text,
            excluding=tuple(data.id for data in front),
            limit=limit - len(shown),
            offset=max(0, offset - len(front)),
        )
        shown += map(self._at_rest, self._store.find(rest) if rest.limit else ())
        # Who has a whole page may ask for another one: an estimate must not keep him from it.
        least = offset + len(shown) + (len(shown) == limit and bool(text))
        return shown, max(self._store.total(Query(text=text)), least if shown else 0)

    def _rank(self, metadata: Metadata) -> tuple[int, bool, bool]:
        log_id = metadata.session_id
        is_live, waits = _life(log_id, self._store, self._backend)
        if not is_live and not waits and log_id not in self._completed:
            self._completed.add(log_id)
            complete(self._store, log_id)  # its process died: only the log says whether it waits
            is_live, waits = _life(log_id, self._store, self._backend)
        return (_WAITS if waits else _LIVE if is_live else _AT_REST), is_live, waits

    def _at_rest(self, metadata: Metadata) -> SessionData:
        """Nothing goes on in it, as far as its writer has said; what is loaded here is known better."""
        if self._backend.hub(metadata.session_id) is not None:
            return describe(metadata, self._store, self._backend)
        return _described(metadata, is_live=False, waits=False)


def _described(metadata: Metadata, is_live: bool, waits: bool) -> SessionData:
    started_ms = metadata.created_ms or _started_ms(metadata)
    return SessionData(
        id=metadata.session_id,
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


def _life(log_id: str, store: Store, backend: Backend) -> tuple[bool, bool]:
    """Whether something happens in it, and whether it waits for somebody.

    A conversation that this server merely has loaded is not live, though its log is open.
    """
    try:
        status = backend.status(log_id)
        is_live = status.is_running if status.is_ours else store.is_live(log_id)
    except HarnessError:
        return False, False
    return is_live, status.is_waiting


def _started_ms(metadata: Metadata) -> int:
    return int(metadata.start_time) * 1000 if metadata.start_time.isdecimal() else 0


def _title(prompt: str) -> str:
    line = next((line.strip() for line in prompt.split("\n") if line.strip()), "")
    return line if len(line) <= _TITLE_CHARACTERS else f"{line[: _TITLE_CHARACTERS - 1]}…"
