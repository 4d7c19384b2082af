"""The sessions that agents store themselves, as the commands for sessions need them: listed, found by id, read.

They are shown beside those of Harness, each session once: one that Harness has recorded is listed as its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from harness.agents.registry import load as load_agent
from harness.clients.sessions.filters import SessionChoice
from harness.clients.sessions.ids import LAST
from harness.clients.sessions.named_logs import find_named
from harness.config import cache_directory
from harness.contracts.history import Activity, AgentHistory, Home, current_home
from harness.errors import UnknownAgent, UnknownSession
from harness.histories.catalogue import Catalogue, CatalogueDamaged, SessionSums
from harness.histories.catalogue_filter import EVERYTHING, SessionFilter
from harness.histories.catalogue_rows import CataloguedSession
from harness.histories.registry import load, load_all
from harness.log.store import KEPT, Metadata, is_copy
from harness.log.stores.files import FileStore

if TYPE_CHECKING:
    from harness.clients.sessions.witnesses import RunTimes
    from harness.histories.catalogue_search import FoundSession, SessionSearch
    from harness.usage.ledger import Amount
    from harness.usage.prices import Prices

_Answer = TypeVar("_Answer")
_CATALOGUE = "histories.sqlite"

_READ_AT_ONCE = 50
_MANY = 200
"""A message is printed before more sessions than this are read."""
_MOST_NAMED = 3
_SLACK_MS = 5_000
"""Logs and stores write at somewhat different times."""
_BEGINNING = 7
"""Ids that differ within so many characters are never shown alike."""
_LIVE_OUTCOMES = {"busy": "running", "waiting": "waiting", "idle": "idle"}
_LIVE_WORDS = frozenset(("running", "waiting"))
"""Outcomes that only a session which some process has open can have."""


class HistoryList(NamedTuple):
    sessions: list[Metadata]
    rest: int
    """How many more there are."""
    ids: list[str]
    """Of the listed ones, and of all with the same beginning."""
    known: int
    """How many there are in all."""
    by_id: dict[str, CataloguedSession]
    """The listed ones."""


class MixedSession(NamedTuple):
    """A session that was used with Harness and without it."""

    session: CataloguedSession
    native: int
    """How many of its runs happened without Harness."""
    is_begun_natively: bool
    times: RunTimes
    """When Harness has run it."""


class HistorySessions:
    """All histories of this machine, looked at once."""

    def __init__(self, *, writes: bool = True, say: Callable[[str], object] | None = None) -> None:
        """`writes`: whether what is found may be stored in the cache folder. `say`: is told what went wrong there."""
        path = os.path.join(cache_directory(), _CATALOGUE) if writes else ""
        self._say = say or (lambda _text: None)
        self._catalogue = Catalogue(path, load_all())
        self.home = current_home()
        self.refresh()

    def refresh(self) -> None:
        """Look for sessions again."""

        def look(catalogue: Catalogue) -> None:
            self.home = current_home(dict.fromkeys([os.getcwd(), *catalogue.projects()]))
            catalogue.refresh(self.home)

        self.ask(look)

    def _rebuild(self, error: CatalogueDamaged) -> None:
        self._say(f"the catalogue of histories cannot be used ({error}): all sessions are read again")
        self._catalogue.rebuild(self.home)

    def problems(self) -> dict[str, str]:
        """The agents whose sessions cannot be listed, and why."""
        by_agent = {
            history.agent: history.problem(self.home) for history in load_all() if history.problem is not None
        }
        return {agent: problem for agent, problem in by_agent.items() if problem}

    def fingerprint(self) -> tuple[int, ...]:
        """Changes when a session was added or has changed."""
        return self.ask(lambda catalogue: catalogue.fingerprint())

    def live(self) -> dict[tuple[str, str], Activity]:
        """The sessions that some process has open, by agent and id."""
        return live_in(self.home)

    def sessions(self, choice: SessionFilter = EVERYTHING, limit: int = -1) -> list[CataloguedSession]:
        return self.ask(lambda catalogue: catalogue.sessions(choice, limit))

    def count(self, choice: SessionFilter = EVERYTHING) -> int:
        return self.ask(lambda catalogue: catalogue.count(choice))

    def sums(self, choice: SessionFilter = EVERYTHING) -> SessionSums:
        return self.ask(lambda catalogue: catalogue.sums(choice))

    def search(self, query: SessionSearch, choice: SessionFilter) -> Iterator[FoundSession]:
        """The sessions that match, the last changed first."""
        seen_ids = set[tuple[str, str]]()
        is_over = False
        while not is_over:
            try:
                for match in self._catalogue.search(query, choice):
                    name = match.session.agent, match.session.session_id
                    if name not in seen_ids:
                        seen_ids.add(name)
                        yield match
                is_over = True
            except CatalogueDamaged as error:
                self._rebuild(error)

    def names(self) -> set[tuple[str, str]]:
        """Agent and id of all sessions."""
        return {*self.ask(lambda catalogue: catalogue.names())}

    def has_original(self, log: Metadata) -> bool:
        """Whether a log is a copy of a session that is known here too."""
        if not is_copy(log):
            return False
        sessions = self.ask(lambda catalogue: catalogue.named(log.agent_session_id, log.agent_name))
        return any(session.session_id == log.agent_session_id for session in sessions)

    def read(self, sessions: Iterable[CataloguedSession]) -> list[CataloguedSession]:
        unread = list(sessions)
        return self.ask(lambda catalogue: catalogue.read(unread))

    def read_all(self, say: Callable[[str], object], choice: SessionFilter = EVERYTHING) -> None:
        """Read all that may match and are not read yet; a message is printed when there are many."""
        unread = choice.before_reading()
        count = self.count(unread)
        if count > _MANY:
            say(f"reading {count} sessions of other programs, once")
        if count:
            self.ask(lambda catalogue: catalogue.read_each(unread))

    def read_used(self, say: Callable[[str], object], since_ms: int) -> None:
        """Read all that may have used something since then, and that tells since when."""
        if since_ms > 0:
            for agent in (history.agent for history in load_all() if history.copies_are_new):
                self.read_all(say, SessionFilter(agent=agent))
        self.read_all(say, SessionFilter(since_ms=since_ms if since_ms > 0 else None))

    def ask(self, question: Callable[[Catalogue], _Answer]) -> _Answer:
        """What the catalogue knows. One whose file is damaged is rebuilt, and asked again."""
        while True:
            try:
                return question(self._catalogue)
            except CatalogueDamaged as error:
                self._rebuild(error)

    def listed(
        self, choice: SessionChoice, store: FileStore, limit: int, say: Callable[[str], object]
    ) -> HistoryList:
        """Those that are asked for, the last changed first."""
        if (session_filter := as_filter(choice)).needs_reading():
            self.read_all(say, session_filter)
        live = self.live()
        sessions, rest = self.matching(choice, RecordedSessions.of(find_named(store)), live, limit)
        return HistoryList(
            [as_metadata(session, live.get((session.agent, session.session_id))) for session in sessions],
            rest,
            self.ask(
                lambda catalogue: catalogue.similar_ids(
                    [session.session_id for session in sessions], _BEGINNING
                )
            ),
            self.count(),
            {session.session_id: session for session in sessions},
        )

    def mixed(self, store: FileStore, log: Metadata) -> MixedSession | None:
        """The stored session that this log is about, if a part of it happened without Harness."""
        from harness.clients.sessions.witnesses import native_runs, times_in

        name = log.agent_name, log.agent_session_id
        if is_copy(log) or not log.agent_session_id:
            return None
        session = self.exactly(*name)
        if session is None or not session.runs:
            return None
        runs = self.ask(lambda catalogue: catalogue.runs([session.number])).get(session.number, [])
        logs = [
            other for other in find_named(store) if name in other.names_of_agents() and not is_copy(other)
        ]
        native = native_runs(runs, times := times_in(store, logs, name))
        if not native:
            return None
        return MixedSession(session, len(native), native[0].run == runs[0].run, times)

    def amounts(self, sessions: Iterable[CataloguedSession], prices: Prices) -> dict[str, Amount]:
        """What these have used, by their ids, as far as it is known."""
        from harness.clients.sessions.costs import stored_amounts

        ids = {session.number: session.session_id for session in sessions}
        stored_sums = self.ask(lambda catalogue: stored_amounts(catalogue, ids.keys(), prices))
        return {ids[number]: amount for number, amount in stored_sums.items()}

    def merged(self, store: FileStore, logs: Sequence[Metadata], prices: Prices) -> list[Metadata]:
        """The same logs, the newest first, each session once: those of one that was also used without Harness are one,
        which has the name of the session, and its cost.
        """
        from harness.clients.sessions.costs import mixed_amounts

        names = self.names()
        merged: list[Metadata] = []
        mixed = set[tuple[str, str]]()
        to_sum: list[tuple[Metadata, MixedSession]] = []
        for log in logs:
            name = log.agent_name, log.agent_session_id
            if name in mixed and log.kind == "run":
                continue
            mixed_session = self.mixed(store, log) if name in names else None
            if mixed_session is not None:
                mixed.add(name)
                if log.kind == "run":
                    to_sum.append((log, mixed_session))
                if mixed_session.is_begun_natively and log.kind == "run":
                    log.name = log.name or mixed_session.session.title or mixed_session.session.prompt
            merged.append(log)
        runs = [session.times.runs for _log, session in to_sum]
        amounts = self.ask(partial(mixed_amounts, runs, prices)) if runs else []
        for (log, _session), amount in zip(to_sum, amounts, strict=True):
            log.total_cost_usd = amount.cost_usd
        return merged

    def matching(
        self,
        choice: SessionChoice,
        ours: RecordedSessions,
        live: Mapping[tuple[str, str], Activity],
        limit: int,
        *,
        with_mixed: bool = False,
    ) -> tuple[list[CataloguedSession], int]:
        """Those that are meant and are none of `ours`, the last changed first, each read; how many more there may be.

        `with_mixed`: with those of ours that were used without Harness, too.
        """
        session_filter, is_live = as_filter(choice), choice.is_live or choice.outcome in _LIVE_WORDS
        if is_live:
            ids = tuple(session_id for _agent, session_id in live)
            outcome = "" if choice.outcome in _LIVE_WORDS else choice.outcome
            session_filter = replace(session_filter, only_ids=ids, outcome=outcome)
        sessions: list[CataloguedSession] = []
        behind = session_filter
        while not limit or len(sessions) < limit:
            part = self.sessions(behind, _READ_AT_ONCE)
            if not part:
                break
            behind = replace(session_filter, behind=(part[-1].changed_ms, part[-1].number))
            theirs = [
                session
                for session in part
                if session not in ours or (with_mixed and ours.is_exceeded(session))
            ]
            readable = [session for session in self.read(theirs) if not session.is_empty]
            sessions += [
                session
                for session in readable
                if (choice.has_all or not session.is_child)
                and (not is_live or _has_outcome(session, choice, live))
            ]
        rest = self.count(behind) if behind is not session_filter else 0
        rest += max(0, len(sessions) - (limit or len(sessions)))
        return sessions[: limit or None], rest

    def exactly(self, agent: str, session_id: str) -> CataloguedSession | None:
        """The session of that agent and id, read."""
        sessions = self.ask(lambda catalogue: catalogue.named(session_id, agent))
        return next(
            iter(self.read(session for session in sessions if session.session_id == session_id)), None
        )

    def find(self, text: str) -> CataloguedSession | None:
        """The session of that id, of a beginning of it, of `AGENT:ID`, or the `last`; None if there is none.

        Raises UnknownSession where there are several.
        """
        agent, colon, wanted_id = text.strip().rpartition(":")
        name = _name_of(agent) if colon else ""
        is_meant = wanted_id and (name or not colon)
        sessions = self.ask(lambda catalogue: catalogue.named(wanted_id, name)) if is_meant else []
        if is_meant and not sessions and wanted_id.lower() == LAST:
            sessions = self.sessions(SessionFilter(agent=name, with_children=False, with_deleted=False), 1)
        if len(sessions) > 1:
            some = ", ".join(f"{session.agent}:{session.session_id}" for session in sessions[:_MOST_NAMED])
            hint = "give more characters of the id, or AGENT:ID"
            raise UnknownSession(f"{len(sessions)} sessions begin with {wanted_id}: {some}", hint=hint)
        return next(iter(self.read(sessions)), None)


def live_in(home: Home) -> dict[tuple[str, str], Activity]:
    """The sessions that some process has open, by agent and id."""
    return {
        (history.agent, session_id): activity
        for history in load_all()
        if history.live is not None
        for session_id, activity in history.live(home).items()
    }


def as_filter(choice: SessionChoice) -> SessionFilter:
    """What the options of a list ask for. These sessions have no tags."""
    return SessionFilter(
        agent=choice.agent,
        project=choice.project,
        model=choice.model,
        outcome=choice.outcome,
        since_ms=choice.since_ms,
        until_ms=choice.until_ms,
        with_children=choice.has_all,
        with_deleted=choice.has_all,
        never=bool(choice.tags),
    )


def mark_of_copy(metadata: Metadata) -> str:
    """The mark of the stored session when it was copied; empty while the copy is not complete."""
    marked = metadata.settings.get(KEPT)
    mark = marked.get("mark") if isinstance(marked, dict) else None
    return mark if isinstance(mark, str) else ""


def history_of(session: CataloguedSession) -> AgentHistory:
    history = load(session.agent)
    assert history is not None, "the catalogue has only sessions of histories"
    return history


def as_metadata(session: CataloguedSession, activity: Activity | None = None) -> Metadata:
    """As a session of Harness has them."""
    started_ms = session.started_ms or session.changed_ms
    outcome = "" if activity is None else live_outcome(session, activity)
    return Metadata(
        session_id=session.session_id,
        agent=history_of(session).title,
        agent_name=session.agent,
        prompt=session.prompt,
        name=session.title,
        model=session.model,
        cwd=session.cwd,
        start_time=str(started_ms // 1000),
        duration_ms=max(0, session.ended_ms - started_ms) if session.ended_ms else None,
        success=session.outcome == "completed",
        outcome=outcome or session.outcome or "unknown",
        agent_session_id=session.session_id,
        version=session.version,
        kind="thread" if session.runs > 1 else "run",
        created_ms=started_ms,
        updated_ms=session.changed_ms,
    )


@dataclass(frozen=True)
class RecordedSessions:
    """The sessions of agents that logs of Harness are about, which lists do not show a second time.

    A copy stands for a session only as it was copied: one that has grown since is listed itself too.
    """

    names: dict[tuple[str, str], frozenset[str]]
    """Agent and its own id of the session → the logs, copies included."""
    recorded: frozenset[tuple[str, str]]
    """Those of which there is more than copies."""
    copies: frozenset[tuple[str, str, str]]
    """And the mark of the session when it was copied."""
    spans: dict[tuple[str, str], tuple[int, int]]
    """Of each that is recorded, when its first log began and its last one was changed; 0: a conversation, which may have
    been handed a session that is older than itself."""

    @classmethod
    def of(cls, logs: Iterable[Metadata]) -> RecordedSessions:
        names: dict[tuple[str, str], set[str]] = {}
        recorded_names, copies = set[tuple[str, str]](), set[tuple[str, str, str]]()
        spans: dict[tuple[str, str], tuple[int, int]] = {}
        for log in logs:
            for name in log.names_of_agents():
                names.setdefault(name, set()).add(log.session_id)
                if is_copy(log):
                    copies.add((*name, mark_of_copy(log)))
                else:
                    recorded_names.add(name)
                    began_ms = log.created_ms if log.kind == "run" else 0
                    first_ms, last_ms = spans.get(name, (began_ms, log.updated_ms))
                    spans[name] = min(first_ms, began_ms), max(last_ms, log.updated_ms)
        by_name = {name: frozenset(ids) for name, ids in names.items()}
        return cls(by_name, frozenset(recorded_names), frozenset(copies), spans)

    def is_exceeded(self, session: CataloguedSession) -> bool:
        """Whether a session that is recorded began before its first log, or was used after its last one."""
        span = self.spans.get((session.agent, session.session_id))
        return span is not None and (
            0 < session.started_ms < span[0] - _SLACK_MS or session.ended_ms > span[1] + _SLACK_MS
        )

    def logs_of(self, session: CataloguedSession) -> frozenset[str]:
        """The logs that are about this session of an agent, or about a part of it."""
        return self.names.get((session.agent, session.session_id), frozenset())

    def __contains__(self, session: CataloguedSession) -> bool:
        name = session.agent, session.session_id
        return name in self.recorded or (*name, session.mark) in self.copies


def _has_outcome(
    session: CataloguedSession, choice: SessionChoice, live: Mapping[tuple[str, str], Activity]
) -> bool:
    activity = live.get((session.agent, session.session_id))
    if activity is None:
        return False
    return choice.outcome not in _LIVE_WORDS or live_outcome(session, activity) == choice.outcome


def live_outcome(session: CataloguedSession, activity: Activity) -> str:
    """`running`, `waiting` or `idle`. Where the agent does not say which, its session does: a run that has no end."""
    is_over = session.outcome not in ("", "unknown")
    return _LIVE_OUTCOMES.get(activity, "idle" if is_over else "running")


def _name_of(agent: str) -> str:
    try:
        return load_agent(agent).name
    except UnknownAgent:
        return ""
