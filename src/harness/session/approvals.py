"""Parts of a session's public surface: approvals, suspensions, follow-ups, current run and display."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.contracts.request import Limits
from harness.errors import UsageError
from harness.events import Relay, RelayReply, Signal
from harness.folds.session.events import (
    DisplayState,
    Question,
    ToolApprovalRequiredEvent,
    ToolSuspendedEvent,
)
from harness.folds.session.lifecycle import approval_required, data_required, question_of
from harness.folds.session.question_events import bind
from harness.questions.open_questions import check_reply
from harness.questions.permissions import proposed_call
from harness.session.builtin.submit_plan import is_approved
from harness.session.bus import Bus
from harness.session.checks import checked_limits
from harness.session.config import RequestContext, check_event
from harness.session.outputs import Output, Value, WantedOutput
from harness.session.parking import ParkingRules
from harness.session.public_side import public
from harness.session.run_outcomes import RunOutcome
from harness.session.run_stream import RunStream
from harness.session.runs import RunRequest, Runs
from harness.session.signals import File
from harness.session.user_message import UserMessage

if TYPE_CHECKING:
    from harness.session.session_core import SessionCore

_DECISIONS = ("approve", "decline", "always_allow", "always_allow_category")


@public("is_armed", "pending")
class Approvals:
    """`session.approval`: tool calls that wait for permission."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    def is_armed(self) -> bool:
        """Whether any call waits for permission."""
        return bool(self.all())

    def all(self) -> list[ToolApprovalRequiredEvent]:
        """As emitted with `tool_approval_required`, in this process or an earlier one."""
        return [self._question(relay) for relay in self._waiting()]

    def _waiting(self) -> list[Relay]:
        return [relay for relay in self._session.runs.relays if relay.kind == "permission"]

    def _question(self, relay: Relay) -> ToolApprovalRequiredEvent:
        question = approval_required(relay)
        bind(question, self._session.answers)
        return question

    def pending(self, tool_call_id: str = "") -> ToolApprovalRequiredEvent | None:
        """The pending call with that id; without an id, the first one."""
        waiting = self._waiting()
        found = _named(waiting, tool_call_id) if tool_call_id else next(iter(waiting), None)
        return None if found is None else self._question(found)

    def respond(
        self,
        decision: str,
        tool_call_id: str,
        reason: str,
        context: RequestContext | None,
        option: str = "",
    ) -> bool:
        """Answer one call, as `respond_to_tool_approval` does; False when no such call waits.

        `decision`, `tool_call_id`, `reason` and `option` are those of that method, and `context` its request
        context. Raises UsageError for an unknown decision, for an option that was not offered, and when several
        calls wait and none is named. The calls then stay pending.
        """
        if decision not in _DECISIONS:
            raise UsageError(f"unknown decision: {decision!r}", hint=f"one of {', '.join(_DECISIONS)}")
        session = self._session
        session.bus.deliver()
        relay = _meant(self._waiting(), tool_call_id)
        if relay is None:
            return False
        is_approved = decision != "decline"
        reply = RelayReply(
            id=relay.id,
            approved=is_approved,
            always=decision == "always_allow" and not option,
            choice=option,
            reason=reason,
        )
        check_event(reply, "Invalid reason")
        check_reply(relay, reply)
        if decision == "always_allow_category" and not self._can_last(relay):
            raise UsageError(
                "a rule asks about this call each time", hint="allow it once, refuse it, or change the rule"
            )
        if session.runs.is_running:
            if not session.runs.reply(reply):
                return False
            session.runs.add_context(context)
        category = relay.category or session.permissions.category(relay.tool_name)
        if decision == "always_allow_category" and category is not None:
            session.permissions.grant_category(category)
        if not session.runs.is_running:
            # The process that asked has ended: resume the run with the answer.
            driver = session.driver
            session.runs.begin(RunRequest(lambda: driver.resume({relay.id: reply})), context)
        return True

    def _can_last(self, relay: Relay) -> bool:
        """Whether a grant would keep such a call from being asked about again."""
        arguments = relay.input if isinstance(relay.input, dict) else {}
        return self._session.permissions.verdict(proposed_call(relay.tool_name, arguments)).is_lasting


@public("check", "give", "resolve_tool_call_id")
class Suspensions:
    """`session.suspensions`: tool calls that wait for data: the answer to a question, the review of a plan."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    def all(self) -> list[ToolSuspendedEvent]:
        """As emitted with `tool_suspended`, in this process or an earlier one."""
        return [self._question(relay) for relay in self._waiting()]

    def _question(self, relay: Relay) -> ToolSuspendedEvent:
        question = data_required(relay)
        bind(question, self._session.answers)
        return question

    def has_pending(self) -> bool:
        """Whether any call waits for data."""
        return bool(self._waiting())

    def has(self, *, tool_call_id: str) -> bool:
        """Whether this call waits for data."""
        return self.get(tool_call_id=tool_call_id) is not None

    def get(self, *, tool_call_id: str) -> ToolSuspendedEvent | None:
        """The call of that id, if it waits for data."""
        found = _named(self._waiting(), tool_call_id)
        return None if found is None else self._question(found)

    def _waiting(self) -> list[Relay]:
        return [relay for relay in self._session.runs.relays if relay.kind != "permission"]

    def resolve_tool_call_id(self, tool_call_id: str = "") -> str | None:
        """The call id of the pending call with that id; without an id, of the only pending call."""
        found = self._resolve(tool_call_id)
        return found.call_id if found is not None else None

    async def respond(self, resume_data: Any, tool_call_id: str, context: RequestContext | None) -> bool:
        """Answer one call, as `respond_to_tool_suspension` does; False when no such call waits.

        `resume_data` is the answer, `tool_call_id` may be empty while only one call waits, and `context` is added to
        that of the run. Raises UsageError for an answer that is not valid, or cannot be logged. The call then stays
        pending.
        """
        session = self._session
        session.bus.deliver()
        relay = self._resolve(tool_call_id)
        if relay is None:
            return False
        reply = self.check(relay, resume_data)
        with session.runs.answering(relay):
            return await self._pass_on(relay, reply, context)

    def give(self, resume_data: Any, tool_call_id: str) -> bool:
        """Answer one call as `respond` does, but let its run continue in the background."""
        session = self._session
        session.bus.deliver()
        relay = self._resolve(tool_call_id)
        if relay is None:
            return False
        reply = self.check(relay, resume_data)
        if session.runs.is_running and session.runs.reply(reply):
            return True
        session.runs.pass_on(relay, self._pass_on(relay, reply, None))
        return True

    async def _pass_on(self, relay: Relay, reply: RelayReply, context: RequestContext | None) -> bool:
        session = self._session
        if session.runs.is_running:
            if session.runs.reply(reply):
                session.runs.add_context(context)
                return True  # the call waits in a sub-agent, which continues at once
            await session.runs.wait_until_idle()
            if relay.id not in session.bus.fold.facts.relays:
                return False
        if relay.kind == "plan" and is_approved(reply.answer):
            await session.hooks.plan_approved(relay, reply, context)
        else:
            await session.runs.resume({relay.id: reply}, context)
        return True

    def check(self, relay: Relay, resume_data: Any) -> RelayReply:
        """The reply for this answer. Raises UsageError as `respond` does."""
        reply = RelayReply(id=relay.id, approved=_action(resume_data) != "rejected", answer=resume_data)
        check_event(reply, "Invalid answer")
        check_reply(relay, reply)
        return reply

    def _resolve(self, tool_call_id: str) -> Relay | None:
        waiting = self._waiting()
        if tool_call_id:
            return _named(waiting, tool_call_id)
        return waiting[0] if len(waiting) == 1 else None


class SessionAnswers:
    """What the questions of a session are answered through. Contract: `QuestionAnswers`."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    def questions(self) -> list[Question]:
        """Everything that waits for a person, the oldest first."""
        return [bind(question_of(relay), self) for relay in self._session.runs.relays]

    def decide(self, call_id: str, decision: str, reason: str, option: str) -> bool:
        return self._session.approval.respond(decision, call_id, reason, None, option)

    def give(self, call_id: str, data: Any) -> bool:
        return self._session.suspensions.give(data, call_id)


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

    def __init__(self, session: SessionCore) -> None:
        self._session = session

    def get_run_id(self) -> str | None:
        """The id of the current run, else of the last one."""
        facts = self._session.bus.fold.facts
        return facts.open_run or facts.last_run or None

    def get_trace_id(self) -> str | None:
        """The trace id of the current run; None without observability."""
        return self._session.hooks.trace_id

    def is_running(self) -> bool:
        """Whether a run is active."""
        return self._session.runs.is_running

    def is_abort_requested(self) -> bool:
        """Whether the current run was asked to stop."""
        return self._session.runs.is_abort_requested

    def is_waiting(self) -> bool:
        """Whether a run waits for an answer and is not active."""
        return self._session.runs.waits

    def has_background(self) -> bool:
        """Whether a command of the built-in agent goes on in the background."""
        return bool(self._session.background)

    def background(self) -> list[str]:
        """Its commands that go on in the background, each with its id."""
        return self._session.background

    def is_parked(self) -> bool:
        """Whether the last run ended at a window of its provider, and the conversation waits for that to open."""
        return self._session.bus.fold.facts.limits.parked is not None

    def park_at_limits(self, rules: ParkingRules) -> None:
        """Say whether the conversation continues by itself when a window of its provider opens again, and how often."""
        self._session.parking.rules = rules
        self._session.parking.watch()

    def continues_by_itself(self) -> bool:
        """Whether this process waits for that window."""
        return self._session.parking.is_waiting

    async def continue_parked(self) -> None:
        """Do not wait for the window: continue now. Raises UsageError where nothing is parked."""
        await self._session.parking.continue_now()

    def join(self, message: UserMessage) -> bool:
        """Add a message to the current run; False when there is none, or it accepts no input."""
        return self._session.runs.join(message)

    def compact(self, focus: str = "") -> None:
        """Begin what `session.compact` waits for."""
        self._session.runs.compact(focus)

    def get_abort_signal(self) -> asyncio.Event | None:
        """Set when the current run is to stop; None without a run."""
        return self._session.runs.abort_signal

    def next_operation(self) -> int:
        """Return a number that rises with each call, to distinguish a new operation from an old one."""
        return self._session.runs.next_operation()


@public()
class StreamState:
    """`session.stream`: call it to send a message and follow its run; or ask whether a run is active."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session

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
        session, message, wanted = self._session, UserMessage.of(content, files), WantedOutput.of(output)
        checked = None if limits is None else checked_limits(limits)

        def send() -> Coroutine[Any, Any, RunOutcome[Value]]:
            return session.runs.send(message, request_context, checked, wanted)

        return RunStream(session.runs, session.bus.subscribe, send)

    def active_run_id(self) -> str | None:
        """The id of the active run; None without one."""
        return self._session.bus.fold.facts.open_run if self.is_active() else None

    def is_active(self) -> bool:
        """Whether a run is active."""
        return self._session.runs.is_running

    def is_open(self) -> bool:
        """Whether a thread is open."""
        return self._session.thread.is_set()

    def key(self) -> str:
        """Agent, resource and thread: the same key for all sessions that follow the same."""
        session = self._session
        thread_id = session.thread.get_id() or ""
        return f"{session.agent.name}:{session.identity.get_resource_id()}:{thread_id}"


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
        shown = self._bus.fold.display
        shown.previous_tasks, shown.tasks = shown.tasks, list(tasks)


def _meant(waiting: Sequence[Relay], tool_call_id: str) -> Relay | None:
    """The call with that id; without an id, the only one. Raises UsageError when there are several."""
    if tool_call_id:
        return _named(waiting, tool_call_id)
    if len(waiting) > 1:
        ids = ", ".join(relay.call_id or relay.id for relay in waiting)
        raise UsageError("several calls wait for an answer", hint=f"name one with tool_call_id: {ids}")
    return waiting[0] if waiting else None


def _named(waiting: Sequence[Relay], tool_call_id: str) -> Relay | None:
    """By the full call id, or by the short id that the model uses, if only one call matches that."""
    if not tool_call_id:
        return None
    for relay in waiting:
        if tool_call_id in (relay.id, relay.call_id):
            return relay
    alike = [relay for relay in waiting if relay.call_id.rpartition("/")[2] == tool_call_id]
    return alike[0] if len(alike) == 1 else None


def _action(resume_data: Any) -> str:
    return str(resume_data.get("action", "")) if isinstance(resume_data, dict) else ""
