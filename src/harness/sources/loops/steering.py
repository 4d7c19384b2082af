"""What a person says to a run that is going on. Said from any thread, taken by the loop at its boundaries."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from harness.errors import UsageError
from harness.events import Warning
from harness.sources.model import Attachment


class Said(NamedTuple):
    text: str
    attachments: tuple[Attachment, ...] = ()
    message_id: str = ""


def not_taken(left: Sequence[Said]) -> Warning:
    """Of messages that came when nobody took them any more."""
    noun = "message was" if len(left) == 1 else "messages were"
    return Warning(message=f"{len(left)} {noun} not taken any more", code="not_taken")


class Inbox:
    """A steering message is taken before the next model call, a follow-up when the run would end otherwise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steering: deque[Said] = deque()
        self._follow_ups: deque[Said] = deque()
        self._is_closed = False

    @property
    def has_steering(self) -> bool:
        return bool(self._steering)

    def steer(self, text: str, attachments: tuple[Attachment, ...] = (), message_id: str = "") -> None:
        """Raises UsageError when the run takes nothing any more."""
        self._put(self._steering, Said(text, attachments, message_id))

    def follow_up(self, text: str, attachments: tuple[Attachment, ...] = (), message_id: str = "") -> None:
        """Raises UsageError when the run takes nothing any more."""
        self._put(self._follow_ups, Said(text, attachments, message_id))

    def take(self) -> list[Said]:
        """The steering messages that have come."""
        if not self._steering:
            return []
        with self._lock:
            said = list(self._steering)
            self._steering.clear()
            return said

    def take_last(self) -> list[Said]:
        """At the end of a run: steering messages, or else the next follow-up; with neither, the inbox is closed."""
        with self._lock:
            said = list(self._steering)
            self._steering.clear()
            if not said and self._follow_ups:
                said = [self._follow_ups.popleft()]
            self._is_closed = not said
            return said

    def close(self) -> list[Said]:
        """Take nothing any more; what nobody has taken."""
        with self._lock:
            self._is_closed = True
            left = [*self._steering, *self._follow_ups]
            self._steering.clear()
            self._follow_ups.clear()
            return left

    def _put(self, queue: deque[Said], said: Said) -> None:
        with self._lock:
            if self._is_closed:
                raise UsageError("the run has ended and takes no more messages", hint="start another run")
            queue.append(said)
