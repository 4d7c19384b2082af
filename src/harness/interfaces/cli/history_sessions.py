"""The sessions that agents store themselves, as the commands for sessions need them: listed, found by id, read.

They are shown beside those of Harness, each session once: one that Harness has recorded is listed as its own.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from harness.config import cache_directory
from harness.config.prices import Prices
from harness.errors import UnknownAgent, UnknownSession
from harness.events import Event, SessionStart, UsageDelta
from harness.interfaces.cli.console import Console
from harness.ledger import By, Charge, priced
from harness.log.query import age
from harness.log.store import Metadata, Query
from harness.log.stores.files import FileStore
from harness.sources.imports.catalogue import Catalogue, CataloguedSession
from harness.sources.imports.catalogue_usage import UsageSum
from harness.sources.imports.history import Activity, AgentHistory, current_home
from harness.sources.imports.registry import load, load_all
from harness.sources.registry import load as load_agent

_CATALOGUE = "histories.sqlite"
_READ_AT_ONCE = 50
_MANY = 200
"""From this many sessions to read on, a message says so."""
_MOST_NAMED = 3
_SECOND_MS = 1_000
_LIVE_OUTCOMES = {"busy": "running", "idle": "idle", "open": "open"}


class HistoryList(NamedTuple):
    sessions: list[Metadata]
    rest: int
    """How many more there are."""
    ids: list[str]
    """Of all that there are."""
    by_id: dict[str, CataloguedSession]
    """The listed ones."""


class UsedElsewhere(NamedTuple):
    """What the catalogue says was used."""

    charges: list[Charge]
    """Sums over sessions."""
    sessions: dict[str, int]
    """How many sessions these are, by the key of the grouping."""
    total: int
    """And in all."""
    rest: list[tuple[Metadata, list[Event]]]
    """Sessions that Harness has recorded in part."""


class HistorySessions:
    """All histories of this machine, looked at once."""

    def __init__(self) -> None:
        self._catalogue = Catalogue(os.path.join(cache_directory(), _CATALOGUE), load_all())
        self.home = current_home(dict.fromkeys([os.getcwd(), *self._catalogue.projects()]))
        self._catalogue.refresh(self.home)
        self.sessions = self._catalogue.sessions()

    def live(self) -> dict[tuple[str, str], Activity]:
        """The sessions that some process has open, by agent and id."""
        return {
            (history.agent, session_id): activity
            for history in load_all()
            if history.live is not None
            for session_id, activity in history.live(self.home).items()
        }

    def read(self, sessions: Iterable[CataloguedSession]) -> list[CataloguedSession]:
        return self._catalogue.read(sessions)

    def read_all(self, since_ms: int, console: Console) -> None:
        """All that have changed since then; a message says so when it takes a while."""
        unread = [
            session for session in self.sessions if not session.is_read and session.changed_ms >= since_ms
        ]
        if len(unread) > _MANY:
            console.say(f"reading {len(unread)} sessions of other programs, once")
        self.read(unread)

    def used(self, store: FileStore, by: By, since_ms: int, prices: Prices) -> UsedElsewhere:
        """What was used in all of them, without the runs that Harness has recorded itself."""
        ours = _recorded_times(store)
        numbers = {
            session.number: ours[session.agent, session.session_id]
            for session in self.sessions
            if (session.agent, session.session_id) in ours
        }
        usage = self._catalogue.usage
        charges = [_charge_of(one, by) for one in usage.sums(by, since_ms, numbers)]
        more = usage.sessions(by, since_ms, numbers)
        total = sum(usage.sessions("sub-agent", since_ms, numbers).values())
        return UsedElsewhere([priced(charge, prices) for charge in charges], more, total, self._rest(numbers))

    def _rest(self, numbers: Mapping[int, list[tuple[int, int]]]) -> list[tuple[Metadata, list[Event]]]:
        """What was used in sessions that Harness has recorded in part, as events."""
        by_name = {
            (session.agent, session.session_id): session
            for session in self.sessions
            if session.number in numbers
        }
        found: list[tuple[Metadata, list[Event]]] = []
        rows = self._catalogue.usage.rows(numbers)
        for name, own in groupby(rows, key=lambda row: (row.agent, row.session_id)):
            session = by_name[name]
            deltas: list[Event] = [
                UsageDelta(run_id=row.session_id, timestamp_ms=row.at_ms, usage=row.usage, model=row.model)
                for row in own
                if not any(_is_within(row.at_ms, times) for times in numbers[session.number])
            ]
            metadata = as_metadata(session)
            if deltas:
                start = SessionStart(run_id=name[1], session_id=name[1], timestamp_ms=metadata.created_ms)
                found.append((metadata, [start, *deltas]))
        return found

    def listed(self, arguments: argparse.Namespace, store: FileStore, console: Console) -> HistoryList:
        """Those that are asked for, the last changed first."""
        ids = [session.session_id for session in self.sessions]
        ours = {(one.agent_name, one.agent_session_id) for one in store.find(Query()) if one.agent_session_id}
        live = self.live()
        chosen = [
            session
            for session in self.sessions
            if (session.agent, session.session_id) not in ours and _may_fit(session, arguments, live)
        ]
        most = arguments.limit or len(chosen)
        found: list[CataloguedSession] = []
        rest = len(chosen)
        if _needs_reading(arguments) and sum(not session.is_read for session in chosen) > _MANY:
            console.say(f"reading {len(chosen)} sessions of other programs, once")
        for part in _parts(chosen):
            rest -= len(part)
            found += [session for session in self.read(part) if _fits(session, arguments)]
            if len(found) >= most and not _needs_reading(arguments):
                break
        rest += max(0, len(found) - most)
        by_id = {session.session_id: session for session in found[:most]}
        shown = [
            as_metadata(session, live.get((session.agent, session.session_id))) for session in found[:most]
        ]
        return HistoryList(shown, rest, ids, by_id)

    def find(self, text: str) -> CataloguedSession | None:
        """The session of that id, of a beginning of it, or of `AGENT:ID`; None if there is none.

        Raises UnknownSession where there are several.
        """
        agent, colon, wanted = text.strip().rpartition(":")
        candidates = [session for session in self.sessions if not colon or session.agent == _name_of(agent)]
        exact = [session for session in candidates if session.session_id == wanted]
        found = exact or [
            session for session in candidates if wanted and session.session_id.startswith(wanted)
        ]
        if len(found) > 1:
            some = ", ".join(f"{session.agent}:{session.session_id}" for session in found[:_MOST_NAMED])
            hint = "give more characters of the id, or AGENT:ID"
            raise UnknownSession(f"{len(found)} sessions begin with {wanted}: {some}", hint=hint)
        return next(iter(self.read(found)), None)


def _charge_of(summed: UsageSum, by: By) -> Charge:
    return Charge(
        session_id=summed.key if by == "session" else "",
        started_ms=summed.latest_ms,
        run_id="",
        agent=summed.agent,
        model=summed.model,
        day=summed.key if by == "day" else "",
        sub_agent="",
        usage=summed.usage,
        is_unpriced=False,
        project=summed.key if by == "project" else "",
    )


def _recorded_times(store: FileStore) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """When Harness has recorded runs of a session, by agent and its id of the session."""
    times: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for one in store.find(Query()):
        if one.agent_session_id:
            started_ms, _ = age(one)
            ended_ms = max(one.updated_ms, started_ms + (one.duration_ms or 0))
            known = times.setdefault((one.agent_name, one.agent_session_id), [])
            known.append((started_ms, ended_ms))
    return times


def _is_within(at_ms: int, times: tuple[int, int]) -> bool:
    """Some stores have whole seconds."""
    rounded_ms = 0 if at_ms % _SECOND_MS else _SECOND_MS
    return times[0] - rounded_ms <= at_ms <= times[1]


def history_of(session: CataloguedSession) -> AgentHistory:
    history = load(session.agent)
    assert history is not None, "the catalogue has only sessions of histories"
    return history


def as_metadata(session: CataloguedSession, activity: Activity | None = None) -> Metadata:
    """As a session of Harness has them."""
    started_ms = session.started_ms or session.changed_ms
    outcome = "" if activity is None else _LIVE_OUTCOMES[activity]
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


def _may_fit(
    session: CataloguedSession, arguments: argparse.Namespace, live: dict[tuple[str, str], Activity]
) -> bool:
    """What can be said without reading it."""
    is_live = (session.agent, session.session_id) in live
    return (
        arguments.agent in ("", session.agent)
        and not arguments.tag
        and (arguments.all or not (session.is_child or session.gone_ms))
        and (is_live or not arguments.live)
        and (arguments.since is None or session.changed_ms >= arguments.since)
    )


def _needs_reading(arguments: argparse.Namespace) -> bool:
    times = (arguments.since, arguments.until)
    return bool(arguments.outcome or arguments.model or arguments.project or times != (None, None))


def _fits(session: CataloguedSession, arguments: argparse.Namespace) -> bool:
    started_ms = session.started_ms or session.changed_ms
    return (
        not session.is_empty
        and (arguments.all or not session.is_child)
        and arguments.outcome in ("", session.outcome)
        and has_model(session.model, arguments.model)
        and is_below(session.cwd, arguments.project)
        and (arguments.since is None or started_ms >= arguments.since)
        and (arguments.until is None or started_ms < arguments.until)
    )


def has_model(model: str, wanted: str) -> bool:
    """Whether a model's name contains these words."""
    return wanted.lower() in model.lower()


def is_below(directory: str, project: str) -> bool:
    """Whether a directory is that of the project, or lies in it."""
    if not project:
        return True
    root = os.path.abspath(os.path.expanduser(project))
    return directory == root or directory.startswith(root.rstrip(os.sep) + os.sep)


def _parts(sessions: Sequence[CataloguedSession]) -> Iterator[Sequence[CataloguedSession]]:
    for start in range(0, len(sessions), _READ_AT_ONCE):
        yield sessions[start : start + _READ_AT_ONCE]


def _name_of(agent: str) -> str:
    try:
        return load_agent(agent).name
    except UnknownAgent:
        return ""
