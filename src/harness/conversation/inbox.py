"""Messages of a person to a run under way: accepted from any thread, taken by the loop between two model calls."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from harness.contracts.model import Attachment
from harness.conversation.turns import file_parts, files_of
from harness.errors import UsageError
from harness.events import SteeringQueued, Warning


class InboxMessage(NamedTuple):
    text: str
    attachments: tuple[Attachment, ...] = ()
    message_id: str = ""


def queued_event(message: InboxMessage) -> SteeringQueued:
    """The event that says that the message was accepted."""
    return SteeringQueued(id=message.message_id, text=message.text, parts=file_parts(message.attachments))


def message_of(event: SteeringQueued) -> InboxMessage:
    """The message of such an event."""
    return InboxMessage(event.text, files_of(event.parts), event.id)


def not_taken(messages: Sequence[InboxMessage]) -> Warning:
    """For messages that came after the last model call."""
    noun = "message was" if len(messages) == 1 else "messages were"
    return Warning(message=f"{len(messages)} {noun} not taken any more", code="not_taken")


class Inbox:
    """A steering message is taken before the next model call, a follow-up when the run would end without it.

    Once the run has started (`open`), a message is written to the log before the loop can take it: a reader of the log
    sees what was accepted and what was taken.
    """

    def __init__(self, untaken: Sequence[InboxMessage] = ()) -> None:
        """`untaken`: what was sent to a run before this one, or to an earlier part of it, which died before it
        could take it.
        """
        self.untaken = untaken
        self._lock = threading.Lock()
        self._accept: Callable[[InboxMessage], object] | None = None
        self._steering: deque[InboxMessage] = deque()
        self._follow_ups: deque[InboxMessage] = deque()
        self._is_closed = False

    @property
    def has_steering(self) -> bool:
        return bool(self._steering)

    def steer(self, text: str, attachments: tuple[Attachment, ...] = (), message_id: str = "") -> None:
        """Raises UsageError when the run takes nothing any more."""
        self._put(self._steering, InboxMessage(text, attachments, message_id))

    def follow_up(self, text: str, attachments: tuple[Attachment, ...] = (), message_id: str = "") -> None:
        """Raises UsageError when the run takes nothing any more."""
        self._put(self._follow_ups, InboxMessage(text, attachments, message_id))

    def open(self, accept: Callable[[InboxMessage], object], restored: Iterable[InboxMessage] = ()) -> None:
        """The run has started. `accept` is called in the sender's thread, and at once for each message
        that has already arrived.

        `restored`: steering that the log has already.
        """
        with self._lock:
            for message in (*self._steering, *self._follow_ups):
                accept(message)
            self._steering.extendleft(reversed(list(restored)))
            self._accept = accept

    def take_steering(self) -> list[InboxMessage]:
        """The steering messages that have come."""
        if not self._steering:
            return []
        with self._lock:
            messages = list(self._steering)
            self._steering.clear()
            return messages

    def take_last(self) -> list[InboxMessage]:
        """At the end of a run: steering messages, or else the next follow-up; with neither, the inbox is closed."""
        with self._lock:
            messages = list(self._steering)
            self._steering.clear()
            if not messages and self._follow_ups:
                messages = [self._follow_ups.popleft()]
            self._is_closed = not messages
            return messages

    def close(self) -> list[InboxMessage]:
        """Accept nothing any more; returns the messages that were never taken."""
        with self._lock:
            self._is_closed = True
            messages = [*self._steering, *self._follow_ups]
            self._steering.clear()
            self._follow_ups.clear()
            return messages

    def _put(self, queue: deque[InboxMessage], message: InboxMessage) -> None:
        with self._lock:
            if self._is_closed:
                raise UsageError("the run has ended and takes no more messages", hint="start another run")
            if not message.message_id:
                message = message._replace(message_id=str(uuid.uuid4()))
            if self._accept is not None:
                self._accept(message)
            queue.append(message)
