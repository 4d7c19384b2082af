"""How signals and notifications reach the model of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from harness.errors import HarnessError
from harness.events import Error, Signal
from harness.rendering.session.events import HarnessMessage
from harness.rendering.session.translation import history_messages
from harness.session.around import AroundInbox
from harness.session.config import RequestContext
from harness.session.dispatch import Post, notify
from harness.session.notifications import Inbox, Notification, NotificationInput, Policy
from harness.session.signals import Accepted, Branch, create, decide, from_input

if TYPE_CHECKING:
    from harness.session.session import Session


Action: TypeAlias = Literal["deliver", "wake", "persist", "discard"]


class SentSignal(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: str
    accepted: Accepted


class Signalling:
    """Contract: that of `Door`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.inbox = Inbox(AroundInbox(session))
        self.policy: Policy | None = None

    @property
    def post(self) -> Post:
        return Post(self.inbox, self)

    async def send(
        self,
        value: str | Mapping[str, Any] | Signal,
        *,
        if_active: Branch | Mapping[str, Any] | None = None,
        if_idle: Branch | Mapping[str, Any] | None = None,
        request_context: RequestContext | None = None,
    ) -> SentSignal:
        """Give a signal to the model: into the run that goes on, or by a new one. Raises UsageError.

        What goes wrong later is told as an `error`.
        """
        session = self._session
        signal = from_input(value, id=session.harness.new_id())
        await session.ensure_thread()
        delivery = decide(
            signal,
            is_active=session.runs.is_running,
            if_active=_branch(if_active),
            if_idle=_branch(if_idle),
        )
        action: Action = delivery.action
        if action == "wake" and self._would_cut_off(delivery.signal):
            action = "persist"
        run_id = ""
        try:
            run_id = self._carry_out(action, delivery.signal, request_context)
        except HarnessError as error:
            session.append(Error(message=error.message, code="signal_failed"))
        accepted = Accepted(action=action, run_id=run_id)
        return SentSignal(id=signal.id, type=signal.category, accepted=accepted)

    async def notify(
        self, value: NotificationInput | Mapping[str, Any], *, policy: Policy | None = None
    ) -> Notification:
        """Put something into the inbox, and tell the model as the policy says."""
        await self._session.ensure_thread()
        return await notify(self.post, value, policy or self.policy)

    async def save_reminder(
        self, message: str, reminder_type: str, role: str, metadata: Mapping[str, Any] | None
    ) -> HarnessMessage | None:
        """Keep a reminder in the thread, for the model to see when it is next asked."""
        session = self._session
        if not session.thread.is_set() or not session.harness.has_storage:
            return None
        signal = create(
            "reactive",
            message,
            id=session.harness.new_id(),
            attributes={"type": reminder_type},
            metadata={"role": role, **(metadata or {})},
        )
        self.add(signal)
        found = history_messages([signal])
        return found[-1] if found else None

    # Door

    def activity(self) -> Literal["active", "idle"]:
        return "active" if self._session.runs.is_running else "idle"

    async def deliver(
        self, signal: Signal, *, if_active: Literal["deliver", "queue"], if_idle: Literal["wake", "persist"]
    ) -> None:
        session = self._session
        if session.runs.is_running:
            if if_active == "deliver":
                self.add(signal)
            else:
                session.runs.queue_signal(signal)
        elif if_idle == "wake" and not self._would_cut_off(signal):
            session.runs.wake(signal)
        else:
            self.add(signal)

    async def show(self, signal: Signal) -> None:
        """The same, for tools."""
        self.add(signal)

    def add(self, signal: Signal) -> None:
        """Into the log, for the model's next step."""
        session = self._session
        conversation = session.conversation
        if conversation is not None:
            conversation.add(signal)
            conversation.host.outbox.flush()  # it counts as accepted: it is in the log by then
            session.bus.deliver()
        else:
            session.append(signal)

    def _would_cut_off(self, signal: Signal) -> bool:
        """Whether a run that waits for an answer would be given up for it. Nothing but a person's words is worth
        that: everything else is seen when the run goes on.
        """
        return self._session.bus.fold.facts.is_suspended and signal.category != "user"

    def _carry_out(self, action: Action, signal: Signal, context: RequestContext | None) -> str:
        """The id of the run that hears it; empty when it is for a later one."""
        session = self._session
        if action == "discard":
            return ""
        if action == "wake":
            return session.runs.wake(signal, context)
        self.add(signal)
        return session.bus.fold.facts.open_run if action == "deliver" else ""


def _branch(given: Branch | Mapping[str, Any] | None) -> Branch | None:
    return given if given is None or isinstance(given, Branch) else msgspec.convert(dict(given), Branch)
