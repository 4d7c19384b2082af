"""What a program was not told: signals that came while it could not hear. They go before its next prompt.

A program hears nothing but its prompt. So what stands in the log since its last prompt is still to be told, and
what a run was told that came to nothing is told again. What our own loop was shown is not for programs: each
knows its own part of a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.events import Event, Result, SessionStart, Signal
from harness.log.hub import Hub
from harness.sources.loop.turns import turn_of
from harness.sources.model import Attachment, UserTurn
from harness.sources.request import REMOTE_AGENT


class Untold:
    """A fold of a log, read as far as it goes each time it is asked."""

    def __init__(self, agent_name: str) -> None:
        self._agent_name = agent_name
        self._cursor = 0
        self._signals: list[Signal] = []
        self._told = 0
        """How many of the first of them the run that goes on was told."""
        self._run_id = ""
        self._is_own = False
        """Whether the run that goes on is one of this program."""

    def read(self, hub: Hub) -> Sequence[UserTurn]:
        """What is to be told, in order."""
        follower = hub.follower(self._cursor)
        try:
            while batch := follower.poll():
                self._take(batch)
            self._cursor = follower.cursor
        finally:
            follower.close()
        turns = [turn_of(signal) for signal in self._signals]
        return [turn for turn in turns if isinstance(turn, UserTurn)]

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Signal):
                if not self._run_id or self._is_own:
                    self._signals.append(event)
            elif isinstance(event, SessionStart):
                if not event.parent_id:
                    self._run_id, self._is_own = event.run_id, who_works(event) == self._agent_name
                    self._told = len(self._signals)
            elif isinstance(event, Result) and event.run_id == self._run_id:
                if event.success or not self._is_own:
                    del self._signals[: self._told]
                self._run_id = ""


def who_works(start: SessionStart) -> str:
    """The agent that knows of a run: one in a sandbox runner has its sessions there, whatever it is."""
    return REMOTE_AGENT if start.runner else start.agent


def files_in(turns: Sequence[UserTurn]) -> tuple[Attachment, ...]:
    return tuple(attachment for turn in turns for attachment in turn.attachments)
