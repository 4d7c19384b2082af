"""The agent's side of the log: native records in, events out.

Rules
1. A translator knows one run of one agent; it has state, but no I/O, no clock, no ids of its own.
2. It never raises on what an agent wrote, however odd. A record (or part of one) that no rule
   knows becomes `Unknown`; a record that is understood and says nothing new is consumed, and
   `rule` names the rule that took it.
3. Events of a child run carry the child's key in `run_id` (any string that the agent uses for
   it, usually the id of the call that spawned it). Its first event is a `SessionStart` with
   `parent_id` = the id of the spawning call; its last a `Result`.
4. A `Result` of the run itself may be yielded more than once: the last one counts, and the
   pipeline emits it when the process has ended. What is missing there (text, duration, usage)
   the pipeline fills in.
5. The prompt is not repeated: the pipeline puts it into the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import msgspec

from harness.events import Event, Outcome, Unknown, Usage, UsageDelta, Warning
from harness.log.raw import RawStart

Record: TypeAlias = dict[str, Any]

NO_LINE = b"\n\n"
"""A prefix that no line has."""


class Ending(msgspec.Struct, frozen=True):
    """How the process ended, as far as we know."""

    exit_code: int | None = None
    signal: int | None = None
    outcome: Outcome | None = None
    """Set when the harness ended it: interrupted, timed_out, …"""
    earlier_usage: Usage | None = None
    """What earlier runs of the session have used; None where that is not known."""


class Translator:
    """Inherit, fill `rules`, and write one short method per kind of record."""

    rules: ClassVar[dict[str, str]] = {}
    """Kind of record → name of the method that takes it. `""`: consumed, it says nothing new."""
    announces_start: ClassVar[bool] = True
    """Whether the agent reports its session id first. If not, the run begins when the process does."""
    announces_end: ClassVar[bool] = True
    """Whether the agent says how it ended. If so, an end without it is a failure, whatever the exit code."""

    keeps_layout: ClassVar[bool] = False
    """Whether `text` gets lines as they are written, blank ones among them: for agents that write no records."""

    def __init__(self) -> None:
        self.rule: str = ""
        self.working_directory: str = ""
        """Where the agent was started, if the pipeline knows: relative paths are seen from there."""
        self.known_session_id = ""
        """The id of the session, where `begin` knows it: the agent was started with it."""
        self.counts_whole_session = False
        """Whether what the agent says of its usage includes earlier runs of its session: `finish` then takes it off."""
        self.turns: int | None = None
        """How many model calls have started, where the agent states it; else it follows from the order of the events."""
        self._methods: dict[str, Callable[[Record], Sequence[Event]]] = {
            kind: getattr(self, name) if name else _consume for kind, name in self.rules.items()
        }

    def begin(self, start: RawStart) -> None:
        """How the run was started, where the agent is asked and in what version."""
        self.working_directory = start.cwd

    def kind(self, record: Record) -> str:
        """The name under which `rules` knows a record."""
        kind = record.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def piece_prefix(self) -> bytes:
        """How a line begins that is most likely a piece of the text that is being streamed right now."""
        return NO_LINE

    def pieces(self, lines: Sequence[bytes]) -> Sequence[Event] | None:
        """One event for each of these lines, which all begin with `piece_prefix`, without the detour over records.

        None: one of them is no such piece, or not surely; they are then taken as records. Contract: pieces
        change nothing that the translator knows.
        """
        del lines
        return None

    def record(self, record: Record) -> Sequence[Event]:
        """Translate one JSON object of stdout."""
        self.rule = kind = self.kind(record)
        method = self._methods.get(kind)
        if method is None:
            self.rule = "unknown"
            return [Unknown(raw=record)]
        return method(record)

    def text(self, line: str) -> Sequence[Event]:
        """Translate a line of stdout that is not a JSON object."""
        self.rule = "unknown"
        return [Unknown(raw=line)]

    def stderr(self, line: str) -> Sequence[Event]:
        self.rule = "stderr"
        return [Warning(message=line, code="stderr")]

    def carried(self) -> dict[str, Any]:
        """What the translator of the next turn in the same process must know: it is given as `RawStart.carried`.

        For programs that count tokens or money over the whole process.
        """
        return {}

    def finish(self, ending: Ending) -> Sequence[Event]:
        """What is still pending when the process has ended."""
        del ending
        return ()


def own_share(total: Usage, earlier: Usage | None, *, whole: str, model: str = "") -> list[Event]:
    """What a run has used of its session's total; without the earlier usage, the total with a warning.

    `whole`: what the agent counts, in words.
    """
    prompt, answer = ("input", "cache_read", "cache_write"), ("output", "reasoning")
    is_known = earlier is not None and all(
        sum(getattr(total, name) or 0 for name in names) >= sum(getattr(earlier, name) or 0 for name in names)
        for names in (prompt, answer)
    )
    if is_known and earlier is not None:
        own = total.minus(earlier)
        return [UsageDelta(usage=own, model=model)] if own.without_zeros() else []
    message = f"{whole}: this run's usage includes that of earlier runs, which are not recorded here"
    return [UsageDelta(usage=total, model=model), Warning(message=message, code="usage_cumulative")]


def _consume(_record: Record) -> Sequence[Event]:
    return ()
