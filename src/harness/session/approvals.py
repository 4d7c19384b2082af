"""What waits for a person in a session: calls that need permission, calls that need data, and how both are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from harness.errors import UsageError
from harness.events import Relay, RelayReply
from harness.folds.session.events import Question, ToolApprovalRequiredEvent, ToolSuspendedEvent
from harness.folds.session.lifecycle import approval_required, data_required, question_of
from harness.folds.session.question_events import bind
from harness.questions.open_questions import check_reply
from harness.questions.permissions import proposed_call
from harness.session.builtin.submit_plan import is_approved
from harness.session.bus import Bus
from harness.session.config import RequestContext, check_event
from harness.session.drivers import AgentDriver
from harness.session.permissions import SessionPermissions
from harness.session.public_side import public
from harness.session.runs import RunRequest, Runs

PlanApproved: TypeAlias = Callable[[Relay, RelayReply, RequestContext | None], Awaitable[None]]
_DECISIONS = ("approve", "decline", "always_allow", "always_allow_category")


@public("is_armed", "pending")
class Approvals:
    """`session.approval`: tool calls that wait for permission."""

    def __init__(
        self,
        runs: Runs,
        bus: Bus,
        permissions: SessionPermissions,
        answers: SessionAnswers,
        driver: Callable[[], AgentDriver],
    ) -> None:
        self._runs, self._bus, self._permissions, self._answers = runs, bus, permissions, answers
        self._driver = driver

    def is_armed(self) -> bool:
        """Whether any call waits for permission."""
        return bool(self.all())

    def all(self) -> list[ToolApprovalRequiredEvent]:
        """As emitted with `tool_approval_required`, in this process or an earlier one."""
        return [self._question(relay) for relay in self._waiting()]

    def _waiting(self) -> list[Relay]:
        return [relay for relay in self._runs.relays if relay.kind == "permission"]

    def _question(self, relay: Relay) -> ToolApprovalRequiredEvent:
        question = approval_required(relay)
        bind(question, self._answers)
        return question

    def pending(self, tool_call_id: str = "") -> ToolApprovalRequiredEvent | None:
        """The pending call with that id; without an id, the first one."""
        waiting = self._waiting()
        pending_call = _named(waiting, tool_call_id) if tool_call_id else next(iter(waiting), None)
        return None if pending_call is None else self._question(pending_call)

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
        self._bus.deliver()
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
        if self._runs.is_running:
            if not self._runs.reply(reply):
                return False
            self._runs.add_context(context)
        category = relay.category or self._permissions.category(relay.tool_name)
        if decision == "always_allow_category" and category is not None:
            self._permissions.grant_category(category)
        if not self._runs.is_running:
            # The process that asked has ended: resume the run with the answer.
            driver = self._driver()
            self._runs.begin(RunRequest(lambda: driver.resume({relay.id: reply})), context)
        return True

    def _can_last(self, relay: Relay) -> bool:
        """Whether a grant would keep such a call from being asked about again."""
        arguments = relay.input if isinstance(relay.input, dict) else {}
        return self._permissions.verdict(proposed_call(relay.tool_name, arguments)).is_lasting


@public("check", "give", "resolve_tool_call_id")
class Suspensions:
    """`session.suspensions`: tool calls that wait for data: the answer to a question, the review of a plan."""

    def __init__(self, runs: Runs, bus: Bus, answers: SessionAnswers, on_plan: PlanApproved) -> None:
        self._runs, self._bus, self._answers = runs, bus, answers
        self._on_plan = on_plan

    def all(self) -> list[ToolSuspendedEvent]:
        """As emitted with `tool_suspended`, in this process or an earlier one."""
        return [self._question(relay) for relay in self._waiting()]

    def _question(self, relay: Relay) -> ToolSuspendedEvent:
        question = data_required(relay)
        bind(question, self._answers)
        return question

    def has_pending(self) -> bool:
        """Whether any call waits for data."""
        return bool(self._waiting())

    def has(self, *, tool_call_id: str) -> bool:
        """Whether this call waits for data."""
        return self.get(tool_call_id=tool_call_id) is not None

    def get(self, *, tool_call_id: str) -> ToolSuspendedEvent | None:
        """The call of that id, if it waits for data."""
        call_found = _named(self._waiting(), tool_call_id)
        return None if call_found is None else self._question(call_found)

    def _waiting(self) -> list[Relay]:
        return [relay for relay in self._runs.relays if relay.kind != "permission"]

    def resolve_tool_call_id(self, tool_call_id: str = "") -> str | None:
        """The call id of the pending call with that id; without an id, of the only pending call."""
        call_found = self._resolve(tool_call_id)
        return call_found.call_id if call_found is not None else None

    async def respond(self, resume_data: Any, tool_call_id: str, context: RequestContext | None) -> bool:
        """Answer one call, as `respond_to_tool_suspension` does; False when no such call waits.

        `resume_data` is the answer, `tool_call_id` may be empty while only one call waits, and `context` is added to
        that of the run. Raises UsageError for an answer that is not valid, or cannot be logged. The call then stays
        pending.
        """
        self._bus.deliver()
        relay = self._resolve(tool_call_id)
        if relay is None:
            return False
        reply = self.check(relay, resume_data)
        with self._runs.answering(relay):
            return await self._pass_on(relay, reply, context)

    def give(self, resume_data: Any, tool_call_id: str) -> bool:
        """Answer one call as `respond` does, but let its run continue in the background."""
        self._bus.deliver()
        relay = self._resolve(tool_call_id)
        if relay is None:
            return False
        reply = self.check(relay, resume_data)
        if self._runs.is_running and self._runs.reply(reply):
            return True
        self._runs.pass_on(relay, self._pass_on(relay, reply, None))
        return True

    async def _pass_on(self, relay: Relay, reply: RelayReply, context: RequestContext | None) -> bool:
        if self._runs.is_running:
            if self._runs.reply(reply):
                self._runs.add_context(context)
                return True  # the call waits in a sub-agent, which continues at once
            await self._runs.wait_until_idle()
            if relay.id not in self._bus.fold.facts.relays:
                return False
        if relay.kind == "plan" and is_approved(reply.answer):
            await self._on_plan(relay, reply, context)
        else:
            await self._runs.resume({relay.id: reply}, context)
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

    def __init__(
        self,
        relays: Callable[[], Sequence[Relay]],
        approval: Callable[[], Approvals],
        suspensions: Callable[[], Suspensions],
    ) -> None:
        """Each is asked for when it is needed: the bus, on which all of them stand, hands this out with its events."""
        self._relays, self._approval, self._suspensions = relays, approval, suspensions

    def questions(self) -> list[Question]:
        """Everything that waits for a person, the oldest first."""
        return [bind(question_of(relay), self) for relay in self._relays()]

    def decide(self, call_id: str, decision: str, reason: str, option: str) -> bool:
        return self._approval().respond(decision, call_id, reason, None, option)

    def give(self, call_id: str, data: Any) -> bool:
        return self._suspensions().give(data, call_id)


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
