"""The runs of a session: one at a time, what is sent during one, how it is stopped, what follows.

                      send, wake, drain                    the agent ends
            ┌──────┐ ───────────────────▶ ┌─────────┐ ─────────────────────▶ queue empty ──▶ idle
            │ idle │                      │ running │                        queued ───────▶ running (the next)
            └──────┘ ◀─ abort ─┐          └─────────┘ ─ a call waits ──▶ ┌───────────┐
                               │               │  ▲  ◀── reply, resume ── │ suspended │
                               │         abort │  │ join (the agent       └───────────┘
                               │               ▼  │  accepts input)             │
                               │          ┌──────────┐                          │
                               └───────── │ stopping │ ◀──────── abort ─────────┘
                                          └──────────┘

Rules
1. One run at a time. A message sent during a run joins it if the agent accepts input; else it is queued.
   A run that is stopping, or suspended, accepts nothing: a message sent then waits for its end.
2. Queued messages are sent one per finished run, in order, whatever the outcome of that run. After `abort`
   they wait for the next message or for `drain`; while a run is suspended, for its end. A message that cannot
   be sent stays first in the queue.
3. The session is usable whatever happens, and every requested run is in the log: also one that failed, or was
   stopped, before it began.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from harness.contracts.model import UserTurn
from harness.contracts.request import Limits
from harness.conversation.turns import user_message
from harness.errors import HarnessError, UsageError
from harness.events import (
    Error,
    Event,
    FollowUpsChanged,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    Signal,
    Suspended,
)
from harness.session.checks import another_loop
from harness.session.config import REQUEST_KEY, RequestContext
from harness.session.drivers import Drivers
from harness.session.harness_request import HarnessRequest
from harness.session.message_guards import MessageGuards
from harness.session.outputs import INVALID, WantedOutput
from harness.session.parking import Parking
from harness.session.run_outcomes import Ended, RunOutcome, RunOutcomes, with_both_uses
from harness.session.session_settings import SessionSettings
from harness.session.thread_log import ThreadLog
from harness.session.user_message import UserMessage, read_queued

_logger = logging.getLogger("harness.session")

ABORTED = "Aborted by the user"


class RunRequest(NamedTuple):
    """A run to be started or resumed."""

    go: Callable[[], Coroutine[Any, Any, Ended]]
    run_id: str = ""
    """Empty for a run that has already started."""
    opening: UserMessage | Signal | None = None
    """The message or signal that it answers."""
    context: RequestContext | None = None
    """The request context that it was queued with."""


class Runs:
    """Starts, queues, resumes and stops the runs of a session, by the rules above."""

    def __init__(
        self,
        log: ThreadLog,
        settings: SessionSettings,
        drivers: Drivers,
        guards: MessageGuards,
        *,
        ensure_thread: Callable[[], Awaitable[object]],
        after_run: Callable[[], Awaitable[object]],
    ) -> None:
        """`after_run`: what a session saves after each run."""
        self._log, self._settings, self._drivers = log, settings, drivers
        self.guards: MessageGuards = guards
        self._ensure_thread, self._after_run = ensure_thread, after_run
        self.parking: Parking = Parking(
            facts=lambda: log.bus.fold.facts.limits,
            is_free=lambda: not self.is_busy and not log.bus.fold.facts.relays,
            append=log.append,
            send=lambda text, message_id: self.send(UserMessage(text=text, id=message_id)),
        )
        self._task: asyncio.Task[None] | None = None
        self._current: asyncio.Task[Ended] | None = None
        self._ended: asyncio.Future[None] | None = None
        """Set when the current run, and the work that follows it, is done."""
        self._opening = asyncio.Lock()
        self.context: RequestContext = RequestContext()
        """Of the current run, or of the latest one."""
        self._context_of = ""
        """The run that the context and the limits belong to."""
        self.limits: Limits = Limits()
        """Of the current run, or of the latest one."""
        self.output: WantedOutput | None = None
        """What the answer of the current run, or of the latest one, has to be."""
        self.endings: RunOutcomes = RunOutcomes()
        self._queued_contexts: dict[str, RequestContext] = {}
        """Request contexts of queued messages, by message id. They hold any objects and are never logged."""
        self._accepted: set[str] = set()
        """Ids of approvals and questions of the current run that are answered; the answers may not be logged yet."""
        self._in_transit: set[str] = set()
        """Ids of those of a suspended run whose answer is being passed on."""
        self._passing: set[asyncio.Task[bool]] = set()
        """Answers that are passed on while nobody waits for it."""
        self._holds_queue = False
        self._is_paused = False
        """Whether the queue is held back because the user stopped the run."""
        self.is_abort_requested: bool = False
        self.abort_signal: asyncio.Event | None = None
        """Of the current run: set when it should stop."""
        self._operation = 0

    def request_context(self, values: Mapping[str, Any] | None) -> RequestContext:
        """The context of a caller, with the session under `harness`: for tools, factories and instructions."""
        request = HarnessRequest(self._log, self._settings, self)
        return RequestContext({**(values or {}), REQUEST_KEY: request})

    @property
    def is_running(self) -> bool:
        return self._task is not None

    @property
    def relays(self) -> list[Relay]:
        """The approvals and questions that wait for an answer: those in the log, without the answered ones.

        Which of two answers counts is decided by the run that waits (`OpenQuestions`), or by `resume`.
        """
        waiting, answered = self._log.bus.fold.facts.relays.values(), self._accepted | self._in_transit
        return [relay for relay in waiting if relay.id not in answered]

    @property
    def waits(self) -> bool:
        """Whether a run waits for an answer and is not running here."""
        if self.is_running:
            return False
        return self._log.bus.fold.facts.activity == "waiting"

    def reply(self, reply: RelayReply) -> bool:
        """Answer the current run; False when it does not wait for this answer."""
        is_taken = self._drivers.current.reply(reply)
        if is_taken:
            self._accepted.add(reply.id)
        return is_taken

    @contextmanager
    def answering(self, relay: Relay) -> Iterator[None]:
        """Within this it does not wait for another answer, also while the current run ends."""
        self._in_transit.add(relay.id)
        try:
            yield
        finally:
            self._in_transit.discard(relay.id)

    def pass_on(self, relay: Relay, passing: Coroutine[Any, Any, bool]) -> None:
        """Pass an answer on in the background; from now on the relay does not wait for another one."""
        self._in_transit.add(relay.id)

        def finish(task: asyncio.Task[bool]) -> None:
            self._in_transit.discard(relay.id)
            self._passing.discard(task)
            if not task.cancelled() and (problem := task.exception()) is not None:
                _logger.error("an answer could not be passed on", exc_info=problem)

        task = asyncio.get_running_loop().create_task(passing)
        self._passing.add(task)
        task.add_done_callback(finish)

    @property
    def is_busy(self) -> bool:
        """Whether a run is active, or an answer is on its way to one that waits."""
        return self._task is not None or bool(self._passing)

    async def wait_until_settled(self) -> None:
        """Wait until no run is active and no answer is on its way to one. Raises UsageError in another event loop."""
        self._settings.harness.require_loop()
        while self.is_busy:
            await asyncio.wait((self._task,) if self._task is not None else tuple(self._passing))

    def next_operation(self) -> int:
        self._operation += 1
        return self._operation

    async def send(
        self,
        message: UserMessage,
        context: RequestContext | None = None,
        limits: Limits | None = None,
        output: WantedOutput | None = None,
    ) -> RunOutcome[Any]:
        """Send a message: it joins the current run or is queued; without one, a run is started and awaited.

        `limits` and `output` apply to a run that is started here. A program that gave no such output is asked again.
        """
        self._settings.harness.require_loop()
        guarded = await self.guards.message(message, context, limits)
        if isinstance(guarded, RunOutcome):
            return guarded
        outcome = await self._send_once(guarded, context, limits, output)
        while output is not None and outcome.success:
            fitting = await self._with_output(outcome, output)
            if fitting is not None:
                return await self.guards.answer(fitting, self.context, self.limits)
            reminder = UserMessage(text=output.again(output.problem))
            again = await self._send_once(reminder, context, limits, output)
            outcome = with_both_uses(outcome, again) if again.run_id else again
        return await self.guards.answer(outcome, self.context, self.limits)

    async def _with_output(self, outcome: RunOutcome[Any], output: WantedOutput) -> RunOutcome[Any] | None:
        """The outcome of a run that completed, with its output, or failed for want of one; None: ask again."""
        if not output.has_value:
            data = outcome.structured
            if data is None or await output.take_data(data):
                await output.take(outcome.text)
        if output.has_value:
            return msgspec.structs.replace(outcome, output=output.value)
        if not output.is_exhausted:
            return None
        self._log.append_all([Error(message=output.words, code=INVALID)], outcome.run_id)
        return msgspec.structs.replace(outcome, outcome="failed", error=output.words, code=INVALID)

    async def ended_later(self, run_id: str) -> RunOutcome[Any] | None:
        """The outcome of an expected run that was suspended and has ended since; None if it has not."""
        if not self.endings.has_ended(run_id):
            self.endings.forget(run_id)
            return None
        outcome = self.endings.take(run_id)
        if self.output is not None and outcome.success and self._context_of == run_id:
            outcome = await self._with_output(outcome, self.output) or outcome
        return await self.guards.answer(outcome, self.context, self.limits)

    async def _send_once(
        self,
        message: UserMessage,
        context: RequestContext | None,
        limits: Limits | None,
        output: WantedOutput | None,
    ) -> RunOutcome[Any]:
        async with self._opening:  # so that concurrent callers use one thread
            if self._ended is not None:
                await self.wait_while_ending()
            if self._task is None and self._log.thread is None:
                await self._ensure_thread()
            if self._task is not None:
                if self.join(message, context):
                    return RunOutcome(outcome="joined", run_id=self._log.bus.fold.facts.open_run)
                self.queue(message, context)
                return RunOutcome(outcome="queued")
            request = self._to_send(message)
            self.endings.expect(request.run_id)
            self.begin(request, context, limits=limits, output=output)
        try:
            await self.wait_until_idle()
        except BaseException:
            self.endings.forget(request.run_id)
            raise
        return self.endings.take(request.run_id)

    def join(self, message: UserMessage, context: RequestContext | None = None) -> bool:
        """Add a message to the current run; False when there is none, or it accepts no input.

        The tool calls that follow see its request context.
        """
        may_join = self.is_running and not self.is_abort_requested
        has_joined = may_join and self._drivers.current.join(self._named(message))
        if has_joined:
            self.add_context(context)
            self._log.bus.deliver()  # it is in the log: listeners see it at once
        return has_joined

    def add_context(self, context: RequestContext | None) -> None:
        """Merge into the context of the current run. Its tool calls hold the same object."""
        if context:
            self.context.update({key: value for key, value in context.items() if key != REQUEST_KEY})

    async def instead(self, message: UserMessage, context: RequestContext | None = None) -> None:
        """Stop the current run, and send the message in a new one, before anything queued."""
        if self.is_running:
            message = self._named(message)
            if context is not None:
                self._queued_contexts[message.id] = context
            self.requeue(message)  # so that it is not lost while the other run ends
            self.abort(pauses_queue=False)
            await self.wait_until_idle()
        else:
            self.abort()
            await self.send(message, context)

    async def send_last(self, message: UserMessage, context: RequestContext | None = None) -> None:
        """Send it after the current or suspended run and the queue; at once if there is none of these."""
        self._log.bus.deliver()
        if not self.is_running and not self.waits and not self.queued:
            await self.send(message, context)
            return
        self.queue(message, context)
        self._is_paused = False  # the caller wants the queue to continue
        await self.drain()

    def begin(
        self,
        request: RunRequest,
        context: RequestContext | None = None,
        *,
        limits: Limits | None = None,
        output: WantedOutput | None = None,
        holds_queue: bool = False,
    ) -> None:
        """Start a run in the background. `holds_queue`: queued messages stay there until `drain`.

        A resumed run continues with its earlier request context and limits, if this process still has them.

        Raises UsageError in another event loop than the one in which the thread was opened.
        """
        loop = asyncio.get_running_loop()
        if self._log.bus.loop not in (None, loop):
            raise another_loop()
        self._take_along(request, context, limits, output)
        self.is_abort_requested = False
        self._holds_queue = holds_queue
        self._is_paused = False
        self.abort_signal = asyncio.Event()
        self._task = loop.create_task(self._drive(request))

    def _take_along(
        self,
        request: RunRequest,
        context: RequestContext | None,
        limits: Limits | None = None,
        output: WantedOutput | None = None,
    ) -> None:
        """Set the request context that its tools see, its limits, and what its answer has to be."""
        run_id = request.run_id or self._log.bus.fold.facts.open_run
        if run_id == self._context_of:
            context = RequestContext({**self.context, **(context or {})})
            limits, output = limits or self.limits, output or self.output
        self.context = self.request_context(context)
        self._context_of = run_id
        self.limits = self._settings.harness.limits.narrowed(limits)
        self.output = output

    async def resume(self, replies: Mapping[str, RelayReply], context: RequestContext | None = None) -> None:
        """Continue the suspended run with these answers, and wait for it."""
        driver = self._drivers.current
        self.begin(RunRequest(lambda: driver.resume(replies)), context)
        await self.wait_until_idle()

    def wake(self, signal: Signal, context: RequestContext | None = None) -> str:
        """Start a run for a signal. Returns the id of the run."""
        request = self._to_wake(signal)
        self.begin(request, context)
        return request.run_id

    def compact(self, focus: str = "") -> None:
        """Start a run that sums up the conversation so far. Raises UsageError during a run, and where one waits."""
        driver = self._drivers.current
        if "compact" not in driver.capabilities:
            raise UsageError(
                f"{driver.agent_name} sums up its conversations by itself",
                hint="it can be told to, in a prompt",
            )
        if self.is_running or self.waits:
            raise UsageError(
                "a run is in progress, or waits for an answer", hint="stop it, or wait until it has ended"
            )
        run_id = self._settings.harness.new_run_id()
        self.begin(RunRequest(lambda: driver.compact(focus, run_id), run_id))

    async def drain(self) -> None:
        """Send the queued messages, unless a run is active or suspended."""
        self._log.bus.deliver()
        if self.is_running or not self.queued or self.waits:
            return
        request = self._take_first()
        self.begin(request, request.context)
        await self.wait_until_idle()

    def queue(self, message: UserMessage, context: RequestContext | None = None) -> None:
        """Queue a message for after the current run."""
        message = self._named(message)
        if context is not None:
            self._queued_contexts[message.id] = context
        self._set_queue([*self.queued, msgspec.to_builtins(message)])

    def queue_signal(self, signal: Signal) -> None:
        """Queue a signal for after the current run."""
        self._set_queue([*self.queued, {"signal": msgspec.to_builtins(signal)}])

    @property
    def queued(self) -> list[Any]:
        return self._log.bus.fold.facts.follow_ups

    def requeue(self, message: UserMessage) -> None:
        """Put a message at the front of the queue."""
        self._set_queue([msgspec.to_builtins(message), *self.queued])

    def dequeue(self) -> UserMessage | Signal | None:
        """Remove and return the first of the queue; the caller sends it."""
        if not self.queued:
            return None
        first = read_queued(self.queued[0])
        self._set_queue(self.queued[1:])
        return first

    def withdraw(self, message_id: str) -> bool:
        """Remove a message from the queue; False if it is not there."""
        remaining = [entry for entry in self.queued if entry.get("id") != message_id]
        if len(remaining) == len(self.queued):
            return False
        self._queued_contexts.pop(message_id, None)
        self._set_queue(remaining)
        return True

    def clear_queue(self) -> None:
        self._queued_contexts.clear()
        self._set_queue([])

    def abort(self, *, pauses_queue: bool = True) -> None:
        """Stop the current run, or give up a suspended one. It ends soon; `wait_until_idle` waits for that.

        `pauses_queue`: queued messages stay there until the next message or `drain`.
        Raises UsageError in another event loop.
        """
        self._settings.harness.require_loop()
        if pauses_queue:
            self.guards.stop()
        if self._task is not None:
            self.is_abort_requested = True
            self._is_paused = pauses_queue
            if self.abort_signal is not None:
                self.abort_signal.set()
        if self._current is not None and not self._current.done():
            self._current.cancel()
        elif not self.parking.give_up("cancelled"):
            self._drivers.abandon_suspension(ABORTED)

    def cancel(self) -> None:
        """End the current run because it reached a limit; the queue is sent after it."""
        if self._current is not None and not self._current.done():
            self._current.cancel()

    def hold_queue(self) -> None:
        """Send nothing from the queue after the current run, until `drain`."""
        self._holds_queue = True

    async def leave(self) -> None:
        """Stop in this process only: in the log, approvals and questions keep waiting for the user."""
        self._drivers.current.leave()
        await self.stop()

    async def stop(self) -> None:
        """Abort, send nothing more from the queue, and wait for the end."""
        self.guards.stop()
        while (task := self._task) is not None:  # whoever waited for its end may begin the next one
            self._holds_queue = True
            self.abort()
            await asyncio.wait((task,))

    async def wait_until_idle(self) -> None:
        """Wait until no run is active. Cancelling the wait does not affect the run. Raises UsageError as above."""
        self._settings.harness.require_loop()
        while (task := self._task) is not None:
            await asyncio.wait((task,))

    async def wait_while_ending(self) -> None:
        """Wait for the end of a run that is stopping or suspended, and so accepts no input."""
        while (ended := self._ended) is not None and (self.is_abort_requested or self._has_suspended()):
            await asyncio.wait((ended,))

    def _has_suspended(self) -> bool:
        current = self._current
        if current is None or not current.done() or current.cancelled() or current.exception() is not None:
            return False
        return isinstance(current.result(), Suspended)

    async def _drive(self, request: RunRequest) -> None:
        try:
            ended = await self._once(request)
            while not self._holds_queue and not self._is_paused and self.queued:
                if isinstance(ended, Suspended):
                    break
                queued = self.queued[0]
                self.is_abort_requested = False  # before the events are emitted: a listener may abort it
                self.abort_signal = asyncio.Event()
                request = self._take_first()
                self._take_along(request, request.context)
                ended = await self._once(request, is_queued=True)
                if not self._has_begun(request):
                    if request.context is not None and request.opening is not None:
                        self._queued_contexts[request.opening.id] = request.context
                    self._set_queue([queued, *self.queued])
                    return
        finally:
            self._task = self._current = self.abort_signal = None
            self.is_abort_requested = False
            self._accepted.clear()

    async def _once(self, request: RunRequest, *, is_queued: bool = False) -> Ended:
        loop = asyncio.get_running_loop()
        ended: Ended = None
        self._ended = loop.create_future()
        self.parking.make_way(request.opening)
        self._current = loop.create_task(request.go())
        if self.is_abort_requested:  # before it could begin
            self._current.cancel()
        try:
            await asyncio.wait((self._current,))
            if self._current.cancelled():
                self._log_stopped(request)
            else:
                ended = self._current.result()
        except HarnessError as error:
            self._log_failure(request, error.words, is_queued=is_queued)
        except Exception as error:
            _logger.exception("a run broke")
            self._log_failure(request, repr(error), is_queued=is_queued)
        try:
            await self._after_run()
        except Exception:
            _logger.exception("what comes after a run failed")
        self._ended.set_result(None)
        self._ended = None
        return ended

    def _to_send(self, message: UserMessage) -> RunRequest:
        run_id, driver = self._settings.harness.new_run_id(), self._drivers.current
        message = self._named(message)
        return RunRequest(lambda: driver.send(message, run_id), run_id, message)

    def _named(self, message: UserMessage) -> UserMessage:
        return message if message.id else msgspec.structs.replace(message, id=self._settings.harness.new_id())

    def _to_wake(self, signal: Signal) -> RunRequest:
        run_id, driver = self._settings.harness.new_run_id(), self._drivers.current
        return RunRequest(lambda: driver.wake(signal, run_id), run_id, signal)

    def _take_first(self) -> RunRequest:
        """Remove the first of the queue, and make a request of it."""
        first = read_queued(self.queued[0])
        request = self._to_wake(first) if isinstance(first, Signal) else self._to_send(first)
        self._set_queue(self.queued[1:], taken_by=request.run_id)
        return request._replace(context=self._queued_contexts.pop(first.id, None))

    def _has_begun(self, request: RunRequest) -> bool:
        self._log.bus.deliver()
        return request.run_id == self._log.bus.fold.facts.last_run

    def _log_stopped(self, request: RunRequest) -> None:
        """Log a run that was stopped before it began like any other; give up one that was suspended."""
        if not request.run_id:
            self._drivers.abandon_suspension(ABORTED)
        elif not self._has_begun(request):
            self._log_whole(request, [Result(success=False, outcome="interrupted")])

    def _log_failure(self, request: RunRequest, message: str, *, is_queued: bool) -> None:
        """Log a run that could not begin, or raised, like any other that failed."""
        self._log.bus.deliver()
        facts = self._log.bus.fold.facts
        errors: list[Event] = [Error(message=message, code="run_failed")]
        end = Result(success=False, outcome="failed")
        if facts.open_run and not facts.is_suspended:
            self._log.append_all([*errors, end], facts.open_run)
        elif is_queued or not request.run_id:  # it is still queued, or suspended
            self._log.append_all(errors)
        elif not self._has_begun(request):
            self._log_whole(request, [*errors, end])

    def _log_whole(self, request: RunRequest, rest: list[Event]) -> None:
        """Log a whole run, from request to end, of which the agent emitted nothing."""
        opening = request.opening
        self._drivers.abandon_suspension(ABORTED)  # as a run that began would have done
        events: list[Event] = [
            SessionStart(agent=self._settings.agent.name, model=self._settings.model.get())
        ]
        if isinstance(opening, UserMessage):
            events.append(user_message(UserTurn(opening.text, opening.attachments), opening.id))
        elif opening is not None:
            events.append(opening)
        self._log.append_all([*events, *rest], request.run_id)
        self._drivers.forget_conversations()  # they do not contain this run

    def _set_queue(self, pending: list[Any], taken_by: str = "") -> None:
        self._log.append(FollowUpsChanged(pending=pending, taken_by=taken_by))
