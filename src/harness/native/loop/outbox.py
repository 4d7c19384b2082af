"""From a loop into its log: what comes in one moment goes in as one batch, masked, in the order it was put.

Everything here happens in the thread of the event loop. One outbox serves all runs of a conversation;
each has a `LogChannel` of its own.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from harness.conversation.inbox import InboxMessage, queued_event
from harness.events import Event, SessionStart
from harness.log.hub import Hub, Source
from harness.native.loop.event_redactor import EventRedactor

MOST_AT_ONCE = 256
"""A model that streams without a pause is shown in batches of this many events."""
_REST_S = 0.002
"""An event that follows another this soon waits, so that a fast stream makes few batches."""
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError)
"""What the codec raises on values that JSON does not have."""
_HOLD_S = 0.2
"""How long a piece that may be the beginning of a secret waits for the rest."""


class Outbox:
    def __init__(self, hub: Hub, loop: AbstractEventLoop, secrets: Mapping[str, str] | None) -> None:
        """`secrets`: known values by name; None when nothing is to be masked."""
        self.hub = hub
        self.last_event_s: float = loop.time() - _REST_S
        """When something was last put into the log, in the loop's own time."""
        self.session: SessionStart | None = None
        """The first event of the first run, as it is in the log."""
        self.last: Event | None = None
        """The latest event, as it is in the log."""
        self._loop = loop
        self._secrets = secrets
        self._channel: LogChannel | None = None
        self._buffer: list[Event] = []
        self._is_scheduled = False

    def channel(self, run_id: str) -> LogChannel:
        """Through which one run writes."""
        redactor = None if self._secrets is None else EventRedactor(self._secrets)
        return LogChannel(self, self.hub.source(run_id), redactor)

    def put(self, channel: LogChannel, event: Event) -> bool:
        """Take one event; true when a whole batch went out, so that others should have their turn."""
        if channel is not self._channel:
            self.flush()
            self._channel = channel
        buffer = self._buffer
        buffer.append(event)
        if len(buffer) >= MOST_AT_ONCE:
            self.flush()
            return True
        if not self._is_scheduled:
            self._is_scheduled = True
            rest_s = self.last_event_s + _REST_S - self._loop.time()
            if rest_s > 0:
                self._loop.call_later(rest_s, self._tick)
            else:
                self._loop.call_soon(self._tick)
        return False

    def flush(self) -> None:
        """Put everything into the log that does not have to wait.

        Raises what the codec raises on an event that no log can hold; all others are in the log by then.
        """
        if self._buffer and self._channel is not None:
            buffer, self._buffer = self._buffer, []
            first = self.hub.next_seq
            try:
                self._channel.append(buffer)
            except _UNWRITABLE:
                if self.hub.next_seq != first:
                    raise  # the events are in the log; it was a listener that failed
                self._append_singly(self._channel, buffer)

    def append_steering(self, run_id: str, message: InboxMessage) -> None:
        """Append a message to a run, from any thread, past the buffer: it is in the log when this returns."""
        event = queued_event(message)
        events = [event] if self._secrets is None else EventRedactor(self._secrets).mask([event])
        self.hub.source(run_id).append(events)

    def note(self, stamped: Sequence[Event]) -> None:
        if not stamped:
            return
        self.last_event_s = self._loop.time()
        self.last = stamped[-1]
        if self.session is None:
            self.session = next((event for event in stamped if type(event) is SessionStart), None)

    def release_later(self, channel: LogChannel) -> None:
        self._loop.call_later(_HOLD_S, channel.release)

    def _append_singly(self, channel: LogChannel, buffer: Sequence[Event]) -> None:
        failure: Exception | None = None
        for event in buffer:
            try:
                channel.append([event])
            except _UNWRITABLE as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _tick(self) -> None:
        self._is_scheduled = False
        self.flush()


class EventChannel(Protocol):
    """Where the events of one run go."""

    run_id: str

    def put(self, event: Event) -> bool:
        """True when others should have their turn."""
        ...

    def close(self) -> None:
        """Nothing is written from now on."""
        ...


class LogChannel:
    def __init__(self, outbox: Outbox, source: Source, redactor: EventRedactor | None) -> None:
        self.run_id: str = source.run_id
        self._outbox = outbox
        self._source = source
        self._redactor = redactor
        self._is_timed = False
        self._is_closed = False
        self.on_stamped: Callable[[Sequence[Event]], None] | None = None
        """Called with everything that was put here, as it is in the log."""

    def put(self, event: Event) -> bool:
        return self._outbox.put(self, event)

    def close(self) -> None:
        """Write everything that was put; what an abandoned task puts later is dropped."""
        self._outbox.flush()
        self.release()
        self._is_closed = True

    def append(self, events: list[Event]) -> None:
        if self._is_closed:
            return
        redactor = self._redactor
        if redactor is not None:
            events = redactor.mask(events)
            if redactor.holds_back and not self._is_timed:
                self._is_timed = True
                self._outbox.release_later(self)
        self._note(self._source.append(events))

    def release(self) -> None:
        """Put into the log what was held back as a possible beginning of a secret."""
        self._is_timed = False
        if self._redactor is not None and not self._is_closed:
            self._note(self._source.append(self._redactor.release()))

    def _note(self, stamped: Sequence[Event]) -> None:
        self._outbox.note(stamped)
        if self.on_stamped is not None:
            self.on_stamped(stamped)
