"""A stored session as a log: its events with stamps, the same each time it is read.

The ids of runs are derived from the agent, the session and the number of the run, and times are those of the store.
So a session that is read twice, or by two processes, is the same log.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.agents.registry import load
from harness.contracts.history import AgentHistory, RecordStage, StoredSession
from harness.events import Event, Result, SessionStart
from harness.log.ids import derived_run_id
from harness.log.raw import RawEntry, RawOutput, RawStart
from harness.runs.pipeline import Pipeline

if TYPE_CHECKING:
    from harness.log.redact.redactor import Redactor

_EVENTS_IN_A_BATCH = 1_000


class StoredLog:
    """Reads one session. Secrets are masked unless `redact` is false."""

    def __init__(
        self,
        history: AgentHistory,
        session: StoredSession,
        *,
        redact: bool = True,
        on_entry: Callable[[str, RawEntry], object] | None = None,
    ) -> None:
        """`on_entry`: is given each raw entry as it is translated, with the id of its run."""
        self.session = session
        self.log_id = ""
        """That of its first run, once it is read."""
        self.runs = 0
        self.lines = 0
        """How many lines of a stream the records were reworded as."""
        self.rules: Counter[str] = Counter()
        """How many of them each rule of the translator took."""
        self.lost: list[bytes] = []
        """Lines that were neither taken by a rule nor gave an event: always empty, or there is a bug."""
        self._history = history
        self._rewording: RecordStage = history.rewording(session)
        self._stamps = _Stamps(session)
        self._redact = redact
        self._on_entry = on_entry
        self._redactor: Redactor | None = None
        self._secrets: dict[str, str] = {}
        self._pipeline: Pipeline | None = None

    @property
    def records(self) -> Counter[str]:
        """How many records of the store each rule of the rewording took."""
        return self._rewording.counts

    @property
    def title(self) -> str:
        """What the agent or the user calls it, as far as it is read."""
        return self._rewording.title

    @property
    def parent_id(self) -> str:
        """The session that has started it as a sub-agent, as far as it is read."""
        return self._rewording.parent_id

    @property
    def cwd(self) -> str:
        """Where the agent worked, as far as it is read."""
        return self._rewording.cwd

    def entries(self, *, is_over: bool = True, is_prompt: bool = False) -> Iterator[RawEntry]:
        """The raw entries of its runs, one after the other; the last run ends only if the session is over.

        `is_prompt`: a run that has no answer yet, and thus no model, is there too.
        """
        for record in self._history.records(self.session):
            yield from self._rewording.feed(record)
        if is_over:
            yield from self._rewording.finish()
        elif is_prompt:
            yield from self._rewording.release()

    def batches(self, *, is_over: bool = True, is_prompt: bool = False) -> Iterator[Sequence[Event]]:
        """Its events, as `entries` has them. May be called once."""
        batch: list[Event] = []
        for entry in self.entries(is_over=is_over, is_prompt=is_prompt):
            batch += self._stamps.stamped(self._translated(entry), entry.at_ms)
            if len(batch) >= _EVENTS_IN_A_BATCH:
                yield batch
                batch = []
        if self._pipeline is not None:
            self._note(self._pipeline)
        if batch:
            yield batch

    def events(self) -> Iterator[Event]:
        for batch in self.batches():
            yield from batch

    def _translated(self, entry: RawEntry) -> Sequence[Event]:
        if isinstance(entry, RawStart):
            self._begin(entry)
        if self._pipeline is None:
            return ()
        if isinstance(entry, RawOutput):
            self.lines += entry.data.count(b"\n")
        masked = self._masked(entry)
        if self._on_entry is not None:
            self._on_entry(self._stamps.run_id, masked)
        return self._pipeline.feed(masked)

    def _begin(self, start: RawStart) -> None:
        if self._pipeline is not None:
            self._note(self._pipeline)
        agent = load(start.agent)
        self._pipeline = Pipeline(agent.translator())
        self.runs += 1
        self._stamps.begin_run(start.at_ms, self.runs)
        self.log_id = self.log_id or self._stamps.log_id
        if self._redact and self._redactor is None:
            from harness.log.redact.redactor import Redactor, secrets_in

            self._secrets = secrets_in(os.environ)
            self._redactor = Redactor(self._secrets)  # a store has no pieces of texts, which would need more

    def _masked(self, entry: RawEntry) -> RawEntry:
        if self._redactor is None:
            return entry
        if isinstance(entry, RawOutput):
            return replace(entry, data=self._redactor.feed(entry.data))
        if isinstance(entry, RawStart):
            from harness.log.redact.redactor import redact_text

            return replace(entry, prompt=redact_text(entry.prompt, self._secrets))
        return entry

    def _note(self, pipeline: Pipeline) -> None:
        self.rules.update(pipeline.rules)
        self.lost += pipeline.lost


class _Stamps:
    """Positions, times and ids of the events of one log."""

    def __init__(self, session: StoredSession) -> None:
        self.log_id = ""
        self._names = (session.agent, session.session_id)
        self._seq = 0
        self._now_ms = 0
        self._run_ids: dict[str, str] = {}
        self._run = ""

    @property
    def run_id(self) -> str:
        """Of the run that is open."""
        return self._run_ids[""]

    def begin_run(self, at_ms: int, number: int) -> None:
        self._run = str(number)
        self._run_ids = {"": derived_run_id(at_ms, *self._names, self._run)}
        self.log_id = self.log_id or self._run_ids[""]

    def stamped(self, events: Iterable[Event], at_ms: int) -> Iterator[Event]:
        self._now_ms = max(self._now_ms, at_ms)
        for event in events:
            run_id = self._run_ids.get(event.run_id)
            if run_id is None:
                run_id = derived_run_id(self._now_ms, *self._names, self._run, event.run_id)
                self._run_ids[event.run_id] = run_id
            stamps = {"seq": self._seq, "timestamp_ms": self._now_ms, "run_id": run_id}
            if isinstance(event, SessionStart) and not event.session_id:
                stamps["session_id"] = run_id if event.run_id else self._names[1]
            if isinstance(event, Result) and not event.run_id:
                stamps["log_id"] = self.log_id
            self._seq += 1
            yield replace(event, **stamps)
