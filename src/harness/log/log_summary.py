"""What stores know of a log without reading it again: where its messages begin, their words, what was used.

A digest is fed the log's own events once, in order, and continues from its saved form. Events of other kinds
than `KINDS` only say how far the log has come, so a store need not decode them.

Where messages begin
- A message of the user begins at its own event, or with the start of the run if it is the first message of that run.
- The text, reasoning and calls of the agent up to the next message of the user is one message, which begins
  right after the one before.
- Sub-agents' messages are part of the message in which they were called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from harness.events import (
    Event,
    GoalEvaluated,
    Message,
    Result,
    Resumed,
    SessionStart,
    Signal,
    StepStart,
    Suspended,
    ThreadCreated,
    Usage,
    UsageDelta,
)
from harness.log.run_tree import RunNode, RunTree, RunTreeState

KINDS = frozenset(
    (
        ThreadCreated,
        SessionStart,
        Result,
        Suspended,
        Resumed,
        StepStart,
        Message,
        Signal,
        GoalEvaluated,
        UsageDelta,
    )
)
_REMEMBERED_RUNS = 4
"""Runs that have ended; enough for what they say late, and little to store."""
_LONGEST_TEXT = 100_000
"""Characters of a message that can be searched; more is pasted data, not words."""


class MessagePosition(NamedTuple):
    """A message begins at `seq`; that it does is known from the event at `known_seq` on."""

    seq: int
    known_seq: int


class SearchText(NamedTuple):
    seq: int
    text: str
    """As it is searched: in one case."""


class Gain(NamedTuple):
    """What new events added."""

    starts: list[MessagePosition]
    texts: list[SearchText]


class LogSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    next_seq: int = 0
    updated_ms: int = 0
    """Of the last event."""
    usage: Usage = Usage()
    runs: RunTreeState = msgspec.field(default_factory=RunTreeState)
    nested: list[str] = msgspec.field(default_factory=list)
    """Runs of sub-agents that have not ended, in what earlier versions stored; empty once anything was fed."""
    answer_seq: int = 0
    """Where the agent's next message begins, unless a message of the user comes first."""
    run_seq: int | None = None
    """The start of a run that has no message so far."""
    is_answering: bool = False

    def feed(self, events: Iterable[Event]) -> Gain:
        gain = Gain([], [])
        tree = self._tree()
        for event in events:
            if type(event) in KINDS:
                self._note(event, gain, tree, tree.feed(event))
            self.next_seq = event.seq + 1
            self.updated_ms = max(self.updated_ms, event.timestamp_ms)
        self.runs = tree.state()
        for run in self.runs.runs.values():
            run.start = None
        return gain

    def _tree(self) -> RunTree:
        for run_id in self.nested:
            self.runs.runs.setdefault(run_id, RunNode(run_id, depth=1))
        self.nested = []
        return RunTree(self.runs, remembered=_REMEMBERED_RUNS)

    def _note(self, event: Event, gain: Gain, tree: RunTree, run: RunNode) -> None:
        match event:
            case SessionStart() if not run.depth:
                self._turn(event)
                self.run_seq = self.answer_seq = event.seq
            case StepStart() if not run.depth:
                self._answer(event, gain)
            case Message():
                if event.text:
                    gain.texts.append(SearchText(event.seq, folded(event.text)))
                if event.role == "assistant":
                    if not run.depth:
                        self._answer(event, gain)
                elif not run.depth or tree.get(run.id) is None:
                    self._ask(event, gain)
            case Signal(category="user"):
                if isinstance(event.contents, str) and event.contents:
                    gain.texts.append(SearchText(event.seq, folded(event.contents)))
                self._ask(event, gain)
            case GoalEvaluated():
                self._turn(event)
            case UsageDelta():
                self.usage = self.usage.plus(event.usage)
            case _:
                pass

    def _ask(self, event: Event, gain: Gain) -> None:
        gain.starts.append(MessagePosition(event.seq if self.run_seq is None else self.run_seq, event.seq))
        self._turn(event)

    def _answer(self, event: Event, gain: Gain) -> None:
        if not self.is_answering:
            self.is_answering, self.run_seq = True, None
            gain.starts.append(MessagePosition(self.answer_seq, event.seq))

    def _turn(self, event: Event) -> None:
        self.is_answering, self.run_seq, self.answer_seq = False, None, event.seq + 1


def folded(text: str) -> str:
    """As it is searched: upper and lower case are one."""
    return text[:_LONGEST_TEXT].casefold()
