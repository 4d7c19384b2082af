"""The log of one run of an agent program: raw entries go to disk, are translated, and become events of the log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from harness.events import Event, Result, SessionStart, Warning
from harness.log import codec
from harness.log.hub import Hub
from harness.log.raw import RawEntry, RawEvent
from harness.sources.process.launch import Launch
from harness.sources.process.recorder import Recorder
from harness.sources.translation.pipeline import Pipeline
from harness.sources.translation.run_cost import CostMeter, prices_of


class TranslatedRun:
    """Contract: used by the thread of the run alone. `take` gets every entry of the run, in order."""

    def __init__(self, launch: Launch, hub: Hub, recorder: Recorder) -> None:
        self.result: Result | None = None
        self.session: SessionStart | None = None
        self.pipeline = Pipeline(launch.new_translator())
        self.cost = CostMeter(prices_of(launch.request.cwd), launch.request.model)
        self.source = hub.source(launch.run_id or hub.log_id)
        self._recorder = recorder
        self._has_warned = False

    def take_all(self, entries: Iterable[RawEntry]) -> None:
        for entry in entries:
            self.take(entry)

    def take(self, entry: RawEntry) -> None:
        """Disk first, then the log, which shows it."""
        self._recorder.write(entry)
        events = list(self.pipeline.feed(entry))
        self.cost.note(events)
        if events and type(end := events[-1]) is Result and not end.run_id:
            events[-1] = self.cost.priced(end)
        if self._recorder.failure is not None and not self._has_warned:
            self._has_warned = True
            events.insert(0, _raw_incomplete(self._recorder.failure))
        if events:
            self._note(self.source.append(events, entry.at_ms))

    def give(self, event: Event, at_ms: int) -> Any:
        """Log what the program did not write, with secrets masked, so that the raw record gives it too."""
        masked, data = self.masked(event)
        self.take(RawEvent(at_ms=at_ms, event=msgspec.Raw(data)))
        return masked

    def masked(self, event: Event) -> tuple[Any, bytes]:
        """The event as the log may have it, and its JSON."""
        data = msgspec.json.encode(self._recorder.masked_all(codec.storable(codec.to_builtins(event))))
        return codec.decode(data), data

    def note(self, event: Event) -> None:
        """Log something that is said of the run, not by it: no raw record gives it."""
        self.source.append([event])

    def _note(self, events: Sequence[Event]) -> None:
        if self.session is None:
            self.session = next((event for event in events if type(event) is SessionStart), None)
        last = events[-1]
        if type(last) is Result and last.run_id == self.source.run_id:
            self.result = last


def _raw_incomplete(error: OSError) -> Warning:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return Warning(message=f"what the agent writes is not kept completely: {reason}", code="raw_incomplete")
