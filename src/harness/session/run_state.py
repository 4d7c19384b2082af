"""Parts of a session's public surface: its current run, the messages that wait for its end, and what is shown of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from harness.contracts.request import Limits
from harness.events import Signal
from harness.folds.session.events import DisplayState
from harness.session.bus import Bus
from harness.session.checks import checked_limits
from harness.session.config import RequestContext
from harness.session.outputs import Output, Value, WantedOutput
from harness.session.parking import Parking, ParkingRules
from harness.session.public_side import public
from harness.session.run_outcomes import RunOutcome
from harness.session.run_stream import RunStream
from harness.session.runs import Runs
from harness.session.signals import File
from harness.session.user_message import UserMessage


@public("dequeue", "requeue", "submit")
class FollowUps:
    """`session.follow_ups`: messages that wait for the end of the run."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def count(self) -> int:
        """How many messages are queued."""
        return len(self._runs.queued)

    def is_empty(self) -> bool:
        """Whether no message is queued."""
        return not self._runs.queued

    async def submit(self, message: UserMessage) -> None:
        """Send a message after the current run and the queue; at once if there is neither. Waits for its run."""
        await self._runs.send_last(message)

    def withdraw(self, *, id: str) -> bool:
        """Remove the message with that id from the queue. False if it is not there, for example because it was sent."""
        return self._runs.withdraw(id)

    def enqueue(self, *, content: str, request_context: RequestContext | None = None) -> None:
        """Queue a message for after the current run, without sending it now."""
        self._runs.queue(UserMessage(text=content), request_context)

    def dequeue(self) -> UserMessage | Signal | None:
        """Remove the first one from the queue and return it."""
        return self._runs.dequeue()

    def requeue(self, message: UserMessage) -> None:
        """Put a message back at the front of the queue."""
        self._runs.requeue(message)

    def clear(self) -> None:
        """Drop all queued messages."""
        if self._runs.queued:
            self._runs.clear_queue()

    async def send(self) -> None:
        """Send the queued messages, one run after the other, and wait for the last run to end.

        They are left over when a run, or the process, was stopped. While a run is active or waits for an
        answer this does nothing: they are sent when it ends.
        """
        await self._runs.drain()


@public("compact", "continues_by_itself", "has_background", "join", "next_operation")
class RunState:
    """`session.run`: the current run."""

    def __init__(
        self,
        runs: Runs,
        bus: Bus,
        parking: Parking,
        *,
        trace_id: Callable[[], str | None],
        background: Callable[[], list[str]],
    ) -> None:
        self._runs, self._bus, self._parking = runs, bus, parking
        self._trace_id, self._background = trace_id, background

    def get_run_id(self) -> str | None:
        """The id of the current run, else of the last one."""
        facts = self._bus.fold.facts
        return facts.open_run or facts.last_run or None

    def get_trace_id(self) -> str | None:
        """The trace id of the current run; None without observability."""
        return self._trace_id()

    def is_running(self) -> bool:
        """Whether a run is active."""
        return self._runs.is_running

    def is_abort_requested(self) -> bool:
        """Whether the current run was asked to stop."""
        return self._runs.is_abort_requested

    def is_waiting(self) -> bool:
        """Whether a run waits for an answer and is not active."""
        return self._runs.waits

    def has_background(self) -> bool:
        """Whether a command of the built-in agent goes on in the background."""
        return bool(self._background())

    def background(self) -> list[str]:
        """Its commands that go on in the background, each with its id."""
        return self._background()

    def is_parked(self) -> bool:
        """Whether the last run ended at a window of its provider, and the conversation waits for that to open."""
        return self._bus.fold.facts.limits.parked is not None

    def park_at_limits(self, rules: ParkingRules) -> None:
        """Say whether the conversation continues by itself when a window of its provider opens again, and how often."""
        self._parking.rules = rules
        self._parking.watch()

    def continues_by_itself(self) -> bool:
        """Whether this process waits for that window."""
        return self._parking.is_waiting

    async def continue_parked(self) -> None:
        """Do not wait for the window: continue now. Raises UsageError where nothing is parked."""
        await self._parking.continue_now()

    def join(self, message: UserMessage) -> bool:
        """Add a message to the current run; False when there is none, or it accepts no input."""
        return self._runs.join(message)

    def compact(self, focus: str = "") -> None:
        """Begin what `session.compact` waits for."""
        self._runs.compact(focus)

    def get_abort_signal(self) -> asyncio.Event | None:
        """Set when the current run is to stop; None without a run."""
        return self._runs.abort_signal

    def next_operation(self) -> int:
        """Return a number that rises with each call, to distinguish a new operation from an old one."""
        return self._runs.next_operation()


@public()
class StreamState:
    """`session.stream`: call it to send a message and follow its run; or ask whether a run is active."""

    def __init__(
        self, runs: Runs, bus: Bus, *, thread_id: Callable[[], str | None], whose: Callable[[], str]
    ) -> None:
        """`whose`: the agent and the resource of the session."""
        self._runs, self._bus = runs, bus
        self._thread_id, self._whose = thread_id, whose

    def __call__(
        self,
        *,
        content: str,
        output: type[Value] | Output[Value] | None = None,
        files: Iterable[File | Mapping[str, Any]] = (),
        request_context: RequestContext | None = None,
        limits: Limits | None = None,
    ) -> RunStream[Value]:
        """Send a message, and follow its run as it happens. The arguments are those of `send_message`.

            async with session.stream(content="fix it") as run:
                async for event in run:
                    ...
            outcome = await run.outcome()

        Raises UsageError as `send_message` does, here already.
        """
        message, wanted_output = UserMessage.of(content, files), WantedOutput.of(output)
        checked = None if limits is None else checked_limits(limits)

        def send() -> Coroutine[Any, Any, RunOutcome[Value]]:
            return self._runs.send(message, request_context, checked, wanted_output)

        return RunStream(self._runs, self._bus.subscribe, send)

    def active_run_id(self) -> str | None:
        """The id of the active run; None without one."""
        return self._bus.fold.facts.open_run if self.is_active() else None

    def is_active(self) -> bool:
        """Whether a run is active."""
        return self._runs.is_running

    def is_open(self) -> bool:
        """Whether a thread is open."""
        return self._thread_id() is not None

    def key(self) -> str:
        """Agent, resource and thread: the same key for all sessions that follow the same."""
        return f"{self._whose()}:{self._thread_id() or ''}"


@public("restore_tasks")
class SessionDisplay:
    """`session.display_state`: everything that a user interface shows of the thread."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def get(self) -> DisplayState:
        """The current display state itself, not a copy."""
        return self._bus.fold.display

    def restore_tasks(self, tasks: list[Any]) -> None:
        """Show these tasks without emitting an event."""
        display = self._bus.fold.display
        display.previous_tasks, display.tasks = display.tasks, list(tasks)
