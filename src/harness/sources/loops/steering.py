"""What a person says to a run that is going on. Said from any thread, taken by the loop at its boundaries."""

from __future__ import annotations

import threading
from collections import deque

from harness.errors import UsageError


class Inbox:
    """A steering message is taken before the next model call, a follow-up when the run would end otherwise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steering: deque[str] = deque()
        self._follow_ups: deque[str] = deque()
        self._is_closed = False

    def steer(self, text: str) -> None:
        """Raises UsageError when the run takes nothing any more."""
        self._put(self._steering, text)

    def follow_up(self, text: str) -> None:
        """Raises UsageError when the run takes nothing any more."""
        self._put(self._follow_ups, text)

    def take(self) -> list[str]:
        """The steering messages that have come."""
        if not self._steering:
            return []
        with self._lock:
            texts = list(self._steering)
            self._steering.clear()
            return texts

    def take_last(self) -> list[str]:
        """At the end of a run: steering messages, or else the next follow-up; with neither, the inbox is closed."""
        with self._lock:
            texts = list(self._steering)
            self._steering.clear()
            if not texts and self._follow_ups:
                texts = [self._follow_ups.popleft()]
            self._is_closed = not texts
            return texts

    def close(self) -> int:
        """Take nothing any more; how many messages nobody has taken."""
        with self._lock:
            self._is_closed = True
            left = len(self._steering) + len(self._follow_ups)
            self._steering.clear()
            self._follow_ups.clear()
            return left

    def _put(self, queue: deque[str], text: str) -> None:
        with self._lock:
            if self._is_closed:
                raise UsageError("the run has ended and takes no more messages", hint="start another run")
            queue.append(text)
