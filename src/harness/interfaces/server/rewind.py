"""Going back in a conversation: where its log is cut so that a message can be said otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from harness.errors import UsageError
from harness.events import Event, FollowUpsChanged, Message, SessionStart


def place_before(events: Iterable[Event], message_id: str) -> int:
    """The `seq` of the first event that came of a person's message. Raises UsageError."""
    beginnings: dict[str, int] = {}
    """Of the runs of the conversation itself: where each was taken from the queue, or began."""
    addressed: set[str] = set()
    for event in events:
        if isinstance(event, FollowUpsChanged) and event.taken_by:
            beginnings.setdefault(event.taken_by, event.seq)
        elif isinstance(event, SessionStart) and not event.parent_id:
            beginnings.setdefault(event.run_id, event.seq)
        elif isinstance(event, Message) and event.role == "user" and event.run_id in beginnings:
            if event.id == message_id:
                return event.seq if event.run_id in addressed else beginnings[event.run_id]
            addressed.add(event.run_id)
    raise UsageError("nobody said a message of that id there", hint="`before` is the id of a user's message")
