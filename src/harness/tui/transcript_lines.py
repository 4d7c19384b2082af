"""The lines of a conversation, as the transcript view writes them, with what each of them belongs to.

Pure, and append-only: a finished line does not change. Only the last one may still change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.events import (
    Event,
    Message,
    Relay,
    RelayReply,
    Signal,
    ThreadCreated,
    ToolEnd,
    ToolStart,
)
from harness.log.run_tree import RunTree
from harness.stage import ViewOptions
from harness.views import transcript

_ERASE = "\r\x1b[K"


class LineTag(NamedTuple):
    """What a line belongs to."""

    run_id: str
    call_id: str = ""
    is_turn: bool = False
    spawns: str = ""
    """The sub-agent that begins with this line."""


class CallRange(NamedTuple):
    """Where in the log a call begins and ends."""

    start: int = -1
    end: int = -1


class TranscriptLines:
    """`feed` it a log from its beginning. Contract: `width` never changes; for another one, make another."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []
        """Finished, and painted as the view does."""
        self.tags: list[LineTag] = []
        self.tail = ""
        """The line that is not finished, or what is done at the moment."""
        self.calls: dict[tuple[str, str], CallRange] = {}
        self.turns: list[int] = []
        self.cursor = 0
        """The `seq` that comes next."""
        self.replies: dict[str, RelayReply] = {}
        """The answers of the last questions, by the id of the question."""
        options = ViewOptions(color=True, width=width, live=True, human=True)
        self._view = transcript.Transcript(options, draws_markdown=True)
        self._runs = RunTree()
        self._parents: dict[str, str] = {}
        """Of each sub-agent: the run above it."""
        self._waiting: dict[str, Relay] = {}
        """Open questions: they are shown in a box of their own until they are answered."""
        self._open = LineTag("")
        """Of the line that is not finished."""
        self._started_calls: set[str] = set()
        """The sub-agents that have a first line."""

    def feed(self, events: Sequence[Event]) -> None:
        for event in events:
            self.cursor = event.seq + 1
            run = self._runs.feed(event)
            if self._runs.began and run.depth:
                self._parents.setdefault(run.id, run.parent)
            if isinstance(event, Relay):
                self._waiting[event.id] = event
            elif isinstance(event, RelayReply) and event.id in self._waiting:
                self._feed(self._waiting.pop(event.id))
                self._feed(event)
            elif not isinstance(event, ThreadCreated):
                for relay in self._runs.relays:  # it ended with its run
                    if self._waiting.pop(relay.id, None) is not None:
                        self._feed(relay)
                self._feed(event)

    def _feed(self, event: Event) -> None:
        self._note(event)
        if pieces := self._view.feed(event):
            self._add(b"".join(pieces).decode(), event)

    def is_within(self, run_id: str, folded: set[str]) -> bool:
        """Whether a run, or one of those that started it, is folded."""
        while run_id and run_id not in folded:
            run_id = self._parents.get(run_id, "")
        return bool(run_id)

    def _note(self, event: Event) -> None:
        if isinstance(event, ToolStart):
            self.calls[event.run_id, event.call_id] = CallRange(event.seq)
        elif isinstance(event, ToolEnd):
            place = self.calls.get((event.run_id, event.call_id), CallRange())
            self.calls[event.run_id, event.call_id] = place._replace(end=event.seq)
        elif isinstance(event, RelayReply):
            self.replies[event.id] = event

    def _add(self, text: str, event: Event) -> None:
        if text.startswith(_ERASE):
            self.tail, text = "", text[len(_ERASE) :]
        continued = bool(self.tail)  # then the first line was started by an earlier event
        *lines_done, self.tail = (self.tail + text).split("\n")
        tag = self._tag(event)
        before = len(self.lines)
        self.lines += lines_done
        self.tags += [tag._replace(spawns="", is_turn=False)] * len(lines_done)
        if continued and lines_done:
            self.tags[before] = self._open
            before += 1
        first = next((at for at in range(before, len(self.lines)) if self.lines[at]), None)
        if first is not None:
            self._started_calls.add(tag.spawns)
            self.tags[first] = tag
            if tag.is_turn:
                self.turns.append(first)
        self._open = tag._replace(spawns="", is_turn=False)

    def _tag(self, event: Event) -> LineTag:
        run_id = event.run_id
        call_id = event.call_id if isinstance(event, ToolStart | ToolEnd) else ""
        is_child = run_id in self._parents
        is_turn = not is_child and (
            (isinstance(event, Message) and event.role == "user")
            or (isinstance(event, Signal) and event.category == "user")
        )
        spawns = run_id if is_child and run_id not in self._started_calls else ""
        return LineTag(run_id, call_id, is_turn, spawns)
