"""The list of sessions that the server gives: those of its store and those of histories, each once; and search."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from harness.clients.conversations.backend import Backend
from harness.clients.sessions.filters import SessionChoice, is_filtered, is_meant
from harness.clients.sessions.histories import RecordedSessions
from harness.clients.sessions.named_logs import name_sessions
from harness.clients.sessions.search import Hit, find_hits, their_hits
from harness.errors import HarnessError, UsageError
from harness.histories.catalogue_search import SessionSearch
from harness.log.store import Metadata, Query, Store
from harness.log.stores.files import FileStore
from harness.server.api.schemas import SessionData, SessionPassage
from harness.server.machine.histories import HISTORY, Histories
from harness.server.machine.machine_store import MachineStore
from harness.session.open_thread import complete

_TITLE_CHARACTERS = 80
_WAITS, _LIVE, _AT_REST = range(3)
"""The order in which sessions are listed."""
_NO_OUTCOME = {"run": "interrupted", "thread": ""}
"""The outcome of a session without one: its run has died, or the conversation had no run."""


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    asked: SessionSearch = SessionSearch()
    choice: SessionChoice = SessionChoice()
    has_passages: bool = False
    """Also of sessions of the store, whose logs must be read for it."""
    limit: int = 50
    offset: int = 0

    @property
    def most(self) -> int:
        return self.offset + self.limit

    @property
    def text(self) -> str:
        return " ".join(self.asked.parts)


def describe(metadata: Metadata, store: Store, backend: Backend) -> SessionData:
    if HISTORY in metadata.settings:
        return _of_history(metadata)
    return _described(metadata, *_life(metadata.session_id, store, backend))


class Listing:
    """Sessions in pages: waiting ones first, then running ones, then the last changed. Being loaded makes no
    difference.

    Contract: costs what is shown and what runs, however many sessions there are; with a filter, what is in the index.
    Thread-safe.
    """

    def __init__(self, store: Store, backend: Backend) -> None:
        self._store = store
        self._backend = backend
        self.histories: Histories | None = store.histories if isinstance(store, MachineStore) else None
        self._completed: set[str] = set()
        """Logs whose process died, and that were completed as far as they can be."""
        self._recorded_sessions_at: tuple[int | None, RecordedSessions] = None, RecordedSessions.of(())

    def page(self, query: ListQuery) -> tuple[list[SessionData], int]:
        """And how many there are in all, which is an estimate for words that very many of them say.

        Raises UsageError, StoreError.
        """
        is_more = query.asked != SessionSearch(parts=query.asked.parts)
        is_asked = query.asked != SessionSearch() and query.has_passages
        if isinstance(self._store, FileStore) and (is_more or is_asked):
            return self._found(self._store, query)
        if is_more:
            raise UsageError(
                "files, commands and commits are found only where sessions are files",
                hint="search for words, with `query`",
            )
        ours, total = self._own(query)
        if self.histories is None:
            return ours[query.offset :], total
        theirs, more = self._theirs(self.histories, query, {session.id for session in ours})
        return sorted((*ours, *theirs), key=_order)[query.offset : query.most], total + more

    def _theirs(
        self, histories: Histories, query: ListQuery, logs: set[str]
    ) -> tuple[list[SessionData], int]:
        """`logs`: what was found of ours."""
        ours = self._recorded_sessions()
        if not query.asked.parts:
            sessions_found, total = histories.listed(query.choice, ours, query.most)
            return [_of_history(session) for session in sessions_found], total
        hits = histories.ask(
            lambda session: their_hits(query.asked, query.choice, ours, logs, session, query.most + 1)
        )
        return list(self._described_hits(hits[: query.most])), len(hits)

    def _found(self, store: FileStore, query: ListQuery) -> tuple[list[SessionData], int]:
        """The sessions that match, with their passages: waiting and running ones first, then the latest."""
        search, choice, most = query.asked, query.choice, query.most + 1
        if self.histories is None:
            hits = find_hits(search, choice, store, None, most)
        else:
            hits = self.histories.ask(lambda sessions: find_hits(search, choice, store, sessions, most))
        hits_sorted = sorted(self._described_hits(hits), key=lambda hit: (_order(hit)[0], -_passage_ms(hit)))
        page_shown = hits_sorted[query.offset : query.most]
        total = store.total(Query(text=query.text)) if search == SessionSearch(parts=search.parts) else 0
        return page_shown, max(total, len(hits)) if page_shown else 0

    def _described_hits(self, hits: list[Hit]) -> Iterator[SessionData]:
        for hit in hits:
            name = hit.session_id if hit.is_ours else f"{hit.agent}:{hit.session_id}"
            try:
                data = describe(self._store.metadata(name), self._store, self._backend)
            except HarnessError:
                continue  # it was deleted meanwhile
            passage = SessionPassage(
                at_ms=hit.passage.at_ms,
                text=hit.passage.text,
                how=hit.passage.how,
                certainty=hit.certainty,
                resume=hit.resume if hit.is_ours else f"harness resume {name}",
            )
            yield replace(data, passage=passage)

    def _own(self, query: ListQuery) -> tuple[list[SessionData], int]:
        """The first of the store, up to the end of the page, and how many there are."""
        text = query.text
        front = self._front(text)
        if is_filtered(query.choice):
            ids = tuple(data.id for data in front)
            rest = map(self._at_rest, self._store.find(Query(text=text, excluding=ids)))
            sessions_meant = [session for session in (*front, *rest) if self._is_meant(session, query.choice)]
            return sessions_meant[: query.most], len(sessions_meant)
        page_shown = front[: query.most]
        rest_query = Query(
            text=text, excluding=tuple(data.id for data in front), limit=query.most - len(page_shown)
        )
        page_shown += map(self._at_rest, self._store.find(rest_query) if rest_query.limit else ())
        # After a full page there may be another one: an estimate must not hide it.
        least = len(page_shown) + (len(page_shown) == query.most and bool(text))
        is_beyond = len(page_shown) <= query.offset
        return page_shown, max(self._store.total(Query(text=text)), 0 if is_beyond else least)

    def _front(self, text: str) -> list[SessionData]:
        ranked: list[tuple[int, SessionData]] = []
        for metadata in self._store.find(Query(text=text, active=True)):
            rank, is_live, waits = self._rank(metadata)
            if rank != _AT_REST:
                ranked.append((rank, _described(metadata, is_live, waits)))
        ranked.sort(key=lambda pair: pair[0])
        return [data for _rank, data in ranked]

    def _is_meant(self, data: SessionData, choice: SessionChoice) -> bool:
        outcome = "waiting" if data.waits else "running" if data.is_live else data.outcome or "unknown"
        metadata = Metadata(
            session_id=data.id,
            agent_name=data.agent_name,
            model=data.model,
            cwd=data.cwd,
            outcome=outcome,
            tags=data.tags,
            created_ms=data.started_ms,
        )
        return is_meant(metadata, choice)

    def _recorded_sessions(self) -> RecordedSessions:
        """Sessions of agents that are in the store, which are not listed a second time."""
        version = self._store.version()
        if version is None or version != self._recorded_sessions_at[0]:
            logs = self._store.find(Query())
            if isinstance(self._store, FileStore):
                name_sessions(self._store, logs)
            self._recorded_sessions_at = version, RecordedSessions.of(logs)
        return self._recorded_sessions_at[1]

    def _rank(self, metadata: Metadata) -> tuple[int, bool, bool]:
        log_id = metadata.session_id
        is_live, waits = _life(log_id, self._store, self._backend)
        if not is_live and not waits and log_id not in self._completed:
            self._completed.add(log_id)
            complete(self._store, log_id)  # its process died: only the log shows whether it waits
            is_live, waits = _life(log_id, self._store, self._backend)
        return (_WAITS if waits else _LIVE if is_live else _AT_REST), is_live, waits

    def _at_rest(self, metadata: Metadata) -> SessionData:
        """Idle, by its metadata; for a session that is loaded here, by its status."""
        if self._backend.hub(metadata.session_id) is not None:
            return describe(metadata, self._store, self._backend)
        return _described(metadata, is_live=False, waits=False)


def _of_history(metadata: Metadata) -> SessionData:
    """`idle`: its agent has it open, and waits for the next message."""
    waits = metadata.outcome == "waiting"
    return _described(metadata, is_live=metadata.outcome in ("running", "waiting", "idle"), waits=waits)


def _order(data: SessionData) -> tuple[int, int]:
    is_at_work = data.is_live and not (data.history and data.activity == "idle")
    return (_WAITS if data.waits else _LIVE if is_at_work else _AT_REST), -data.updated_ms


def _passage_ms(data: SessionData) -> int:
    return data.updated_ms if data.passage is None else data.passage.at_ms


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
        outcome="" if is_live else metadata.outcome or _NO_OUTCOME[metadata.kind],
        is_live=is_live,
        waits=waits,
        cost_usd=metadata.total_cost_usd,
        tags=metadata.tags,
        history=str(metadata.settings.get(HISTORY) or ""),
        activity=metadata.outcome if is_live and HISTORY in metadata.settings else "",
    )


def _life(log_id: str, store: Store, backend: Backend) -> tuple[bool, bool]:
    """Whether it runs, and whether it waits for an answer.

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
