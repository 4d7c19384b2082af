"""One session, two witnesses: what Harness has recorded of it, and what its agent has stored.

They are joined by runs, and not by sessions: people continue a session with and without Harness in turn. A stored run
whose prompt came during a run of ours is that run; every other one happened without Harness. Of the two accounts of the
same run, the one that knows of more tokens counts, and the other one does not: a stream may lack usage that the store
has (sub-agents, the last call before a kill), and a store may lack what the stream says. A run of ours that states the
total of its whole session says nothing about itself: then the store's account counts, if there is one.

The session of a sub-agent belongs to the run during which it began. A fork begins with copies of earlier runs: one that is a
copy of a run of ours is that run, too, whichever of the sessions the catalogue has counted its model calls in.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from harness.events.usage import CLASSES
from harness.log.ids import time_of
from harness.log.private_files import open_private
from harness.log.query import grep_events
from harness.usage.ledger import WORDS, Account, AccountedDelta, AccountedRun

if TYPE_CHECKING:
    from harness.events import Usage
    from harness.histories.catalogue import Catalogue
    from harness.histories.catalogue_rows import CataloguedRun, CataloguedSession
    from harness.histories.catalogue_usage import CataloguedUsage
    from harness.log.store import Metadata
    from harness.log.stores.files import FileStore

_SECOND_MS = 1_000
_LONGEST_START_MS = 600_000
"""An id of a run that is older than this when the run begins is not its own."""

Part = tuple[int, int]
"""A run of a stored session: the number of the session in the catalogue, and that of the run."""


class JoinedUsage(NamedTuple):
    invocations: list[AccountedRun]
    """What counts, of ours and of the sessions that they are about."""
    sessions: frozenset[int]
    """The stored sessions that are in it, and are to be counted nowhere else."""


class RunTimes:
    """When Harness has run one session of an agent."""

    def __init__(self, invocations: Iterable[AccountedRun]) -> None:
        self.runs = sorted(invocations, key=_start_of)
        self._starts = [_start_of(run) for run in self.runs]

    def at(self, at_ms: int) -> AccountedRun | None:
        """The run that was under way then. Some stores have whole seconds."""
        latest_ms = at_ms if at_ms % _SECOND_MS else at_ms + _SECOND_MS - 1
        position = bisect_right(self._starts, latest_ms) - 1
        while position >= 0:
            if at_ms <= max(self.runs[position].ended_ms, self.runs[position].started_ms):
                return self.runs[position]
            position -= 1
        return None


def _start_of(invocation: AccountedRun) -> int:
    """Before its agent has said anything."""
    made_ms = time_of(invocation.run_id)
    is_own = made_ms is not None and 0 <= invocation.started_ms - made_ms <= _LONGEST_START_MS
    return made_ms if is_own and made_ms is not None else invocation.started_ms


@dataclass
class _Group:
    """Runs of ours, and the stored ones that they are."""

    ours: list[AccountedRun]
    theirs: dict[Part, AccountedRun] = field(default_factory=dict)
    """Each with the run of ours that was under way."""


class _JoinedSession:
    """The runs of one session that both have, and those that only its agent has."""

    def __init__(self, number: int, runs: Sequence[CataloguedRun], times: RunTimes) -> None:
        self.number = number
        self.times = times
        self.starts = {run.run: run.started_ms for run in runs}
        """Of all stored runs."""
        self.native: list[CataloguedRun] = []
        self._groups: dict[int, _Group] = {}
        """By the run of ours, as `id` names it; several may be in the same."""
        owned = [(run, None if not run.started_ms else times.at(run.started_ms)) for run in runs]
        self.native = [run for run, owner in owned if owner is None]
        for run, owner in owned:
            if owner is not None:
                self.group_of(owner).theirs[number, run.run] = owner
        self._join_continued(owned)

    @property
    def groups(self) -> list[_Group]:
        """In their order."""
        each = {id(group): group for group in self._groups.values()}
        return sorted(each.values(), key=lambda group: _start_of(group.ours[0]))

    def group_of(self, invocation: AccountedRun) -> _Group:
        return self._groups.setdefault(id(invocation), _Group([invocation]))

    def _join_continued(self, owned: Sequence[tuple[CataloguedRun, AccountedRun | None]]) -> None:
        """A run of ours without a prompt of its own continues the stored run before it."""
        for invocation in self.times.runs:
            if id(invocation) in self._groups:
                continue
            before = [owner for run, owner in owned if run.started_ms <= _start_of(invocation)]
            if before and before[-1] is not None:
                group = self.group_of(before[-1])
                group.ours.append(invocation)
                self._groups[id(invocation)] = group
            else:
                self.group_of(invocation)


def times_in(store: FileStore, logs: Iterable[Metadata], name: tuple[str, str]) -> RunTimes:
    """When these logs say that a session was run. One that cannot be read says nothing."""
    invocations: list[AccountedRun] = []
    for metadata in logs:
        account = Account(runs=None)
        with suppress(OSError):
            path = store.path(metadata.session_id)
            with os.fdopen(open_private(path, os.O_RDONLY), "rb", buffering=0) as file:
                account.feed(metadata, grep_events(file, WORDS))
        invocations += (invocation for invocation in account.invocations if invocation.session == name)
    return RunTimes(invocations)


def native_runs(runs: Sequence[CataloguedRun], times: RunTimes) -> list[CataloguedRun]:
    """The stored runs of a session that happened without Harness."""
    return _JoinedSession(0, runs, times).native


def join_usage(invocations: Sequence[AccountedRun], catalogue: Catalogue) -> JoinedUsage:
    """What was used in all runs of these, and in the sessions that they continue: each token once."""
    names = catalogue.names()
    by_session: dict[tuple[str, str], list[AccountedRun]] = {}
    for invocation in invocations:
        by_session.setdefault(invocation.session, []).append(invocation)
    both = {names[name]: RunTimes(those) for name, those in by_session.items() if name in names}
    runs = catalogue.runs(both)
    sessions = {number: _JoinedSession(number, runs.get(number, []), both[number]) for number in both}
    known = {number: name for name, number in names.items()}
    children = _children(by_session, known, sessions, catalogue)
    rows = _rows({*sessions, *children}, children, catalogue)
    copied = _join_copies(sessions, catalogue)
    forks = {number for number, _run in copied} - sessions.keys()
    rows.update(of_forks := _rows(forks, (), catalogue))
    counted = [invocation for invocation in invocations if invocation.session not in names]
    counted += [_native(those, 0) for part, those in of_forks.items() if part not in copied]
    shared, common = _shared_logs(invocations), _common_tokens(sessions.keys(), catalogue)
    for session in sessions.values():
        settled = _settled(session, rows, copied, common)
        counted += _as_one(session, settled, shared) if session.native else settled
    return JoinedUsage(counted, frozenset({*sessions, *children, *forks}))


def _rows(
    numbers: Collection[int], children: Collection[int], catalogue: Catalogue
) -> dict[Part, list[CataloguedUsage]]:
    """What these sessions have used, by run; that of sub-agents' as one."""
    found: dict[Part, list[CataloguedUsage]] = {}
    for row in catalogue.usage.rows(numbers) if numbers else ():
        found.setdefault((row.session, 0 if row.session in children else row.run), []).append(row)
    return found


def _children(
    by_session: Mapping[tuple[str, str], list[AccountedRun]],
    names: Mapping[int, tuple[str, str]],
    sessions: Mapping[int, _JoinedSession],
    catalogue: Catalogue,
) -> set[int]:
    """The numbers of sub-agents' sessions that began during a run of ours, which they are then a part of."""
    by_name = {names[number]: session for number, session in sessions.items()}
    those = catalogue.children({agent for agent, _session_id in by_session}) if sessions else []
    parents = {(child.agent, child.session_id): child.parent_id for child in those}
    found = set[int]()
    for child in those:
        if child.number in sessions:
            continue
        for session in _candidates(child, parents, by_name):
            owner = session.times.at(child.started_ms)
            if owner is not None:
                session.group_of(owner).theirs[child.number, 0] = owner
                found.add(child.number)
                break
    return found


def _candidates(
    child: CataloguedSession,
    parents: Mapping[tuple[str, str], str],
    by_name: Mapping[tuple[str, str], _JoinedSession],
) -> Iterator[_JoinedSession]:
    """The sessions that may have begun it: where its agent does not say which, all that worked in its folder."""
    seen, parent_id = set[str](), child.parent_id
    while (child.agent, parent_id) in parents and parent_id not in seen:
        seen.add(parent_id)
        parent_id = parents[child.agent, parent_id]
    if parent_id:
        if (found := by_name.get((child.agent, parent_id))) is not None:
            yield found
        return
    for (agent, _session_id), session in by_name.items():
        folders = {run.cwd for run in session.times.runs}
        if agent == child.agent and (not child.cwd or "" in folders or child.cwd in folders):
            yield session


def _join_copies(sessions: Mapping[int, _JoinedSession], catalogue: Catalogue) -> set[Part]:
    """The runs of forks that are copies of runs of ours, and then are them."""
    owners = {
        part: (session, owner)
        for session in sessions.values()
        for group in session.groups
        for part, owner in group.theirs.items()
    }
    same: dict[Part, list[Part]] = {}
    for first, other in catalogue.copies():
        same.setdefault(first, []).append(other)
        same.setdefault(other, []).append(first)
    copied = set[Part]()
    waiting = [part for part in owners if part in same]
    while waiting:  # a fork may have been forked
        session, owner = owners[part := waiting.pop()]
        for copy in same[part]:
            if copy in owners:  # some stores write copies with the time of the fork, which may be one of ours
                fork, its_owner = owners[copy]
                if _start_of(its_owner) <= _start_of(owner):
                    continue
                fork.group_of(its_owner).theirs.pop(copy, None)
            owners[copy] = session, owner
            session.group_of(owner).theirs[copy] = owner
            copied.add(copy)
            waiting.append(copy)
    for number, session in sessions.items():
        session.native = [run for run in session.native if (number, run.run) not in copied]
    return copied


def _common_tokens(numbers: Collection[int], catalogue: Catalogue) -> dict[Part, int]:
    """What the runs of these sessions have used that others have copies of: each model call is counted in one of them."""
    same: dict[Part, set[Part]] = {}
    for first, other in catalogue.copies():
        together = same.get(first, {first}) | same.get(other, {other})
        same.update(dict.fromkeys(together, together))
    groups = {part: same[part] for part in same if part[0] in numbers}
    tokens: dict[Part, int] = {}
    for row in catalogue.usage.rows({number for parts in groups.values() for number, _run in parts}):
        tokens[row.session, row.run] = tokens.get((row.session, row.run), 0) + _tokens(row.usage)
    return {part: sum(tokens.get(part_name, 0) for part_name in parts) for part, parts in groups.items()}


def _settled(
    session: _JoinedSession,
    rows: Mapping[Part, Sequence[CataloguedUsage]],
    copied: Collection[Part],
    common: Mapping[Part, int],
) -> Iterator[AccountedRun]:
    taken = {*copied, *(part for group in session.groups for part in group.theirs)}
    starts = {run.run: run.started_ms for run in session.native}
    native = [
        _native(those, starts.get(run, 0))
        for (number, run), those in rows.items()
        if number == session.number and (number, run) not in taken
    ]
    yield from native
    ours = {part for group in session.groups for part in group.theirs}
    others = [
        (at_ms, common.get(part, sum(_tokens(row.usage) for row in rows.get(part, ()))))
        for run, at_ms in session.starts.items()
        if (part := (session.number, run)) not in ours
    ]
    before_ms = unclaimed = 0
    for group in session.groups:
        start_ms = _start_of(group.ours[0])
        unclaimed += sum(count for at_ms, count in others if before_ms <= at_ms < start_ms)
        is_total, fuller = _fuller(group, rows, unclaimed)
        unclaimed = 0 if is_total else unclaimed
        yield from fuller
        before_ms = start_ms


def _shared_logs(invocations: Iterable[AccountedRun]) -> set[str]:
    """The logs of conversations in which several sessions of agents take part."""
    sessions: dict[str, set[tuple[str, str]]] = {}
    for invocation in invocations:
        sessions.setdefault(invocation.log_id, set()).add(invocation.session)
    return {log_id for log_id, those in sessions.items() if len(those) > 1}


def _as_one(
    session: _JoinedSession, runs: Iterable[AccountedRun], shared: Collection[str]
) -> Iterator[AccountedRun]:
    """A session that was used with Harness and without it is one session: that of the newest log, as it is listed."""
    log_id = session.times.runs[-1].log_id
    for run in runs:
        yield run if run.log_id in shared else replace(run, log_id=log_id)


def _fuller(
    group: _Group, rows: Mapping[Part, Sequence[CataloguedUsage]], unclaimed: int
) -> tuple[bool, list[AccountedRun]]:
    """The account that knows of more, but not of more than this run, and whether that of ours does.

    `unclaimed`: the tokens of runs without Harness before this one that no run of ours has in its account; they are in
    this one's where an agent states totals.
    """
    theirs = [(row, owner) for part, owner in group.theirs.items() for row in rows.get(part, ())]
    ours_count = sum(_tokens(invocation.usage) for invocation in group.ours)
    their_count = sum(_tokens(row.usage) for row, _owner in theirs)
    deltas = [delta for invocation in group.ours for delta in invocation.deltas]
    is_of_session = any(invocation.states_session for invocation in group.ours) or (
        0 < unclaimed == ours_count - their_count and not any(delta.call_id for delta in deltas)
    )
    if not their_count or (their_count <= ours_count and not is_of_session):
        return is_of_session, group.ours
    return is_of_session, [
        replace(
            invocation,
            deltas=[_delta(row, invocation.run_id) for row, owner in theirs if owner is invocation],
            is_cumulative=False,
        )
        for invocation in group.ours
    ]


def _native(rows: Sequence[CataloguedUsage], started_ms: int) -> AccountedRun:
    first = rows[0]
    return AccountedRun(
        log_id=first.session_id,
        run_id=first.session_id,
        agent=first.agent,
        session_id=first.session_id,
        started_ms=started_ms or first.at_ms,
        models={},
        names={},
        deltas=[_delta(row, first.session_id) for row in rows],
        is_over=True,
        cwd=first.cwd,
    )


def _delta(row: CataloguedUsage, run_id: str) -> AccountedDelta:
    return AccountedDelta(row.at_ms, run_id, row.model, "", row.usage, row.rate, is_stored=True)


def _tokens(usage: Usage) -> int:
    return sum(getattr(usage, name) or 0 for name in CLASSES)
