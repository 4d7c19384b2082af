"""From the records of a stored session to the raw entries of its runs, as if Harness had recorded them.

A prompt begins a run and ends the one before. Inherit, fill `rules`, and write one short method per kind of record
that calls `begin` for a prompt and `put` for the record that the agent's stream would have had.

    (no run) ── begin ─▶ held, if `waits_for_model` ── know_model, or 200 entries ─▶ open ── end, or begin ─▶ (no run)

Rules
1. A rewording has state, but no I/O, no clock, and it never raises on what a store holds.
2. `rules` is a table as in a translator: kind of record → method, `""`: consumed. A record that no rule knows goes to
   the translator as it is.
3. A run's outcome is `unknown` unless the store says how it ended; a failure that the translator finds counts more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from harness.contracts.history import StoredRecord, StoredSession
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.events import Outcome
from harness.log.codec import storable
from harness.log.raw import RawControl, RawEntry, RawExit, RawOutput, RawStart
from harness.version import __version__

_MOST_HELD = 200
"""Entries that wait until the model of their run is known."""
_MOST_EARLY = 1_000
"""Records before the first prompt that are passed on when it comes."""
_END_OF_TIME_MS = 2**47
"""No clock shows more: such a time is damaged."""

_encode = msgspec.json.Encoder().encode


class Rewording:
    """A stage: records of one session in, raw entries out. See the rules above."""

    rules: ClassVar[dict[str, str]] = {}
    arguments: tuple[str, ...] = ()
    """Those of the command line that its translator would know the session from."""
    waits_for_model: ClassVar[bool] = False
    """Whether a run's first entries wait for `know_model`, because the stream names the model first."""
    time_key: ClassVar[str] = ""
    """The field that has the time of a record, where records of all kinds have it."""

    def __init__(self, session: StoredSession) -> None:
        self.session = session
        self.cwd: str = session.cwd
        self.version = ""
        self.model: str = ""
        self.title: str = session.title
        """What the agent or the user calls the session."""
        self.parent_id: str = session.parent_id
        """The session that has started this one as a sub-agent."""
        self.counts: Counter[str] = Counter()
        """How many records each rule took."""
        self.outcome: Outcome = "unknown"
        """Of the run that is open, as far as the store has said."""
        self.now_ms: int = session.started_ms
        self.is_open: bool = False
        self._last_ms = 0
        """When the last entry of the run that is open was put."""
        self._is_held = False
        self._out: list[RawEntry] = []
        self._early: list[StoredRecord] = []
        self._methods: dict[str, Callable[[Record], None]] = {
            kind: getattr(self, name) if name else _consume for kind, name in self.rules.items()
        }

    def kind(self, record: Record) -> str:
        """The name under which `rules` knows a record."""
        kind = record.get("type")
        return kind if isinstance(kind, str) else ""

    def feed(self, record: StoredRecord) -> Sequence[RawEntry]:
        if isinstance(record, str):
            self.counts["unreadable"] += 1
            self.put(record)
        else:
            if self.time_key:
                self.at(milliseconds(record.get(self.time_key)))
            kind = self.kind(record)
            method = self._methods.get(kind)
            self.counts["passed on" if method is None else kind] += 1
            if method is None:
                self.put(record)
            else:
                method(record)
        return self._released()

    def finish(self) -> Sequence[RawEntry]:
        self.end()
        return self._released()

    def release(self) -> Sequence[RawEntry]:
        """What waits for the model, without it."""
        self._is_held = False
        return self._released()

    def opening(self) -> None:
        """Put what the agent's stream begins with. Called after `begin`."""

    def closing(self) -> None:
        """Put what the agent's stream ends with, and say how the run ended. Called before the end of a run."""

    def at(self, time_ms: int | None) -> None:
        """From here on it is that late; time never falls."""
        if time_ms is not None and 0 < time_ms < _END_OF_TIME_MS:
            self.now_ms = max(self.now_ms, time_ms)

    def begin(self, prompt: str, *, model: str = "") -> None:
        """A prompt: the run before has ended, and another one begins."""
        self.end()
        self.is_open, self.outcome = True, "unknown"
        self._last_ms = self.now_ms
        self._is_held = self.waits_for_model and not model
        self._out.append(
            RawStart(
                at_ms=self.now_ms,
                agent=self.session.agent,
                version=self.version,
                argv=list(self.arguments),
                cwd=self.cwd,
                model=model,
                prompt=storable(prompt),
                session_id=self.session.session_id,
                recorder=__version__,
            )
        )
        self.opening()
        early, self._early = self._early, []
        for record in early:
            self.put(record)

    def know_model(self, model: str) -> None:
        """The run's model: what waited for it is released."""
        self.model = model
        if self._is_held and model:
            self._is_held = False
            starts = [number for number, entry in enumerate(self._out) if isinstance(entry, RawStart)]
            start = self._out[starts[-1]]
            if isinstance(start, RawStart):
                self._out[starts[-1]] = replace(start, model=model)

    def put(self, record: StoredRecord) -> None:
        """A record as the agent's stream would have it."""
        if not self.is_open:
            if len(self._early) < _MOST_EARLY:
                self._early.append(record)
            return
        self._last_ms = self.now_ms
        data = record.encode("utf-8", "backslashreplace") if isinstance(record, str) else _encoded(record)
        self._out.append(RawOutput(at_ms=self.now_ms, stream="stdout", data=data + b"\n"))

    def stop(self) -> None:
        """The user has interrupted the run."""
        if self.is_open:
            self._last_ms = self.now_ms
            self._out.append(RawControl(at_ms=self.now_ms, action="stop"))

    def end(self) -> None:
        """The run that is open, if there is one, has ended."""
        if not self.is_open:
            return
        # The time of the next prompt, and that of the last entry before it.
        now_ms, self.now_ms = self.now_ms, self._last_ms
        self.closing()
        self._is_held = False
        self._out.append(RawExit(at_ms=self.now_ms, outcome=self.outcome))
        self.is_open, self.now_ms = False, now_ms

    def _released(self) -> Sequence[RawEntry]:
        if self._is_held and len(self._out) < _MOST_HELD:
            return ()
        self._is_held = False
        out, self._out = self._out, []
        return out


def _encoded(record: Any) -> bytes:
    try:
        return _encode(record)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        return _encode(storable(record))


def _consume(_record: Record) -> None:
    return None
