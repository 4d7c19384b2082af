"""Drives one agent process from its start to its `Result`: reads, records, watches the limits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from math import inf

from harness.errors import AgentNotFound, HarnessError
from harness.events import Event, Result, SessionStart, Warning
from harness.log.hub import Hub
from harness.log.raw import Control, Entry, Exit
from harness.sources.process.child import Child
from harness.sources.process.earlier_usage import earlier_usage
from harness.sources.process.launch import Launch, not_found
from harness.sources.process.limits import Watch
from harness.sources.process.own_sessions import find_session
from harness.sources.process.recorder import Recorder
from harness.sources.translation.bill import Bill, prices_of
from harness.sources.translation.pipeline import Pipeline
from harness.sources.worker import OnEnd

_HOLD_MS = 200
"""How long a piece that may be the beginning of a secret waits for the rest."""


class Pump:
    """Contract: `work` runs once, in one thread; `stop` may be called from any, at any time."""

    def __init__(
        self,
        launch: Launch,
        hub: Hub,
        recorder: Recorder,
        on_end: OnEnd,
    ) -> None:
        self.result: Result | None = None
        self._launch = launch
        self._hub = hub
        self._recorder = recorder
        self._on_end = on_end
        self._source = hub.source(launch.run_id or hub.log_id)
        self._pipeline = Pipeline(launch.speaks.translator())
        self._bill = Bill(prices_of(launch.request.cwd), launch.request.model)
        self._session: SessionStart | None = None
        self._child: Child | None = None
        self._stop_requests = 0
        self._stops_done = 0
        self._has_warned = False

    def stop(self) -> None:
        self._stop_requests += 1
        if self._child is not None:
            self._child.wake()

    def work(self) -> None:
        self._take(self._recorder.start_entry(self._hub.clock()))
        try:
            exit = self._run_child()
        except HarnessError as error:
            exit = Exit(
                at_ms=self._hub.clock(),
                failure="agent_not_found" if isinstance(error, AgentNotFound) else "spawn_failed",
                message=error.words,
            )
        self._take(exit)
        self._recorder.close()
        if self.result is not None:
            self._on_end(self.result, self._session)

    def _run_child(self) -> Exit:
        if not self._launch.binary:
            raise not_found(self._launch.agent)
        started_ms = self._hub.clock()
        self._child = child = Child(self._launch.invocation)
        try:
            self._follow(child)
        finally:
            child.close()
        now_ms = self._hub.clock()
        self._take_all(self._recorder.finish(now_ms))
        end = child.exit
        assert end is not None
        session_id = find_session(self._launch, started_ms, child.pid)
        earlier = None
        if self._pipeline.translator.counts_whole_session:
            session = session_id or self._pipeline.course.session_id
            earlier = earlier_usage(self._hub, self._launch.speaks.name, session, self._source.run_id)
        return Exit(
            at_ms=now_ms,
            code=end.code,
            signal=end.signal,
            survivors=end.survivors,
            session_id=session_id,
            earlier_usage=earlier,
        )

    def _follow(self, child: Child) -> None:
        clock, recorder = self._hub.clock, self._recorder
        watch = Watch(self._launch, clock())
        held_until_ms = inf
        while child.exit is None:
            self._obey(child)
            deadline_ms = min(held_until_ms, watch.deadline_ms)
            chunks = child.read(None if deadline_ms == inf else max(0.0, (deadline_ms - clock()) / 1000))
            now_ms = clock()
            if chunks:
                watch.heard(now_ms)
                self._take_all(recorder.entries(chunks, now_ms))
            if now_ms >= held_until_ms:
                self._take_all(recorder.release(now_ms))
            held_until_ms = min(held_until_ms, now_ms + _HOLD_MS) if recorder.holds_back else inf
            reached = watch.reached(now_ms, self._pipeline.course, self._bill)
            if reached is not None:
                self._take(reached)
                child.stop()

    def _obey(self, child: Child) -> None:
        """Carry out what `stop` asked for since the last time."""
        while self._stops_done < self._stop_requests:
            if not self._stops_done:
                self._take(Control(at_ms=self._hub.clock(), action="stop"))
            self._stops_done += 1
            child.stop()

    def _take_all(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        """Disk first, then the log, which shows it."""
        self._recorder.write(entry)
        events = list(self._pipeline.feed(entry))
        self._bill.note(events)
        if events and type(end := events[-1]) is Result and not end.run_id:
            events[-1] = self._bill.priced(end)
        if self._recorder.failure is not None and not self._has_warned:
            self._has_warned = True
            events.insert(0, self._raw_incomplete(self._recorder.failure))
        if events:
            self._note(self._source.append(events, entry.at_ms))

    def _note(self, events: Sequence[Event]) -> None:
        if self._session is None:
            self._session = next((event for event in events if type(event) is SessionStart), None)
        last = events[-1]
        if type(last) is Result and last.run_id == self._source.run_id:
            self.result = last

    def _raw_incomplete(self, error: OSError) -> Warning:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return Warning(
            message=f"what the agent writes is not kept completely: {reason}", code="raw_incomplete"
        )
