"""How signals and notifications reach the model of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from harness.errors import HarnessError, UsageError
from harness.events import Error, Signal
from harness.folds.session.events import HarnessMessage
from harness.folds.session.messages import Role
from harness.folds.session.translation import history_messages
from harness.session.config import RequestContext, check_event
from harness.session.drivers import Drivers
from harness.session.harness_parts import HarnessParts
from harness.session.notifications import (
    InboxDelivery,
    Notification,
    NotificationInbox,
    NotificationInput,
    Policy,
    notify,
)
from harness.session.runs import Runs
from harness.session.signals import Accepted, Branch, create, decide, from_input
from harness.session.state import IsVisible
from harness.session.thread_log import ThreadLog
from harness.session.threads import Threads

_Action: TypeAlias = Literal["deliver", "wake", "persist", "discard"]

_ADDRESSED = frozenset(("user", "notification"))
"""Categories that want an answer: if the agent accepts no input now, they start a run afterwards."""


class SentSignal(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: str
    accepted: Accepted


class SignalDelivery:
    """Contract: that of `SignalTarget`."""

    def __init__(
        self,
        log: ThreadLog,
        harness: HarnessParts,
        drivers: Drivers,
        runs: Runs,
        threads: Threads,
        inbox: NotificationInbox,
        is_visible: IsVisible,
    ) -> None:
        """`is_visible`: whether the model sees that signal."""
        self._log, self._harness, self._drivers = log, harness, drivers
        self._runs, self._threads, self._is_visible = runs, threads, is_visible
        self.inbox: NotificationInbox = inbox
        self.policy: Policy | None = None

    @property
    def post(self) -> InboxDelivery:
        return InboxDelivery(self.inbox, self)

    async def send(
        self,
        value: str | Mapping[str, Any] | Signal,
        *,
        if_active: Branch | Mapping[str, Any] | None = None,
        if_idle: Branch | Mapping[str, Any] | None = None,
        request_context: RequestContext | None = None,
    ) -> SentSignal:
        """Give a signal to the model: in the current run, or by starting one. Raises UsageError.

        If the agent accepts no input while it runs, the model sees the signal later, and the result says
        `persist`. Failures after that are emitted as an `error`.
        """
        signal = from_input(value, id=self._harness.new_id())
        branches = {"if_active": _branch(if_active), "if_idle": _branch(if_idle)}
        check_event(signal, "Invalid signal")
        await self._threads.ensure()
        await self._runs.wait_while_ending()
        delivery = decide(signal, is_active=self._runs.is_running, **branches)
        check_event(delivery.signal, "Invalid signal")
        numbered = self._log.bus.fold.facts.lanes.numbered(delivery.signal, is_visible=self._is_visible)
        if numbered is None:
            accepted = Accepted(action="discard", reason="unchanged")
        else:
            accepted = self._accept(delivery.action, numbered, request_context)
        return SentSignal(id=signal.id, type=signal.category, accepted=accepted)

    async def notify(
        self, value: NotificationInput | Mapping[str, Any], *, policy: Policy | None = None
    ) -> Notification:
        """Put a notification into the inbox, and deliver it as the policy says."""
        await self._threads.ensure()
        return await notify(self.post, value, policy or self.policy)

    async def save_reminder(
        self, message: str, reminder_type: str, role: Role, metadata: Mapping[str, Any] | None
    ) -> HarnessMessage | None:
        """Store a reminder in the thread, for the next time the model is asked. Returns it as stored."""
        if not self._threads.is_set() or not self._harness.has_storage:
            return None
        signal = create(
            "reactive",
            message,
            id=self._harness.new_id(),
            attributes={"type": reminder_type},
            metadata={"role": role, **(metadata or {})},
        )
        follower = self._log.hub.follower(self._log.hub.next_seq)
        try:
            self.add(signal)
            saved = [
                event for event in follower.poll() if isinstance(event, Signal) and event.id == signal.id
            ]
        finally:
            follower.close()
        return history_messages(saved)[-1]

    # SignalTarget

    def activity(self) -> Literal["active", "idle"]:
        return "active" if self._runs.is_running else "idle"

    async def deliver(
        self, signal: Signal, *, if_active: Literal["deliver", "queue"], if_idle: Literal["wake", "persist"]
    ) -> None:
        await self._runs.wait_while_ending()
        if self._runs.is_running:
            if if_active == "queue" or (if_idle == "wake" and not self._is_heard()):
                self._runs.queue_signal(signal)
            else:
                self.add(signal)
        elif if_idle == "wake" and not self._would_cut_off(signal):
            self._runs.wake(signal)
        else:
            self.add(signal)

    async def show(self, signal: Signal) -> None:
        """`add`, for tools."""
        self.add(signal)

    def add(self, signal: Signal) -> None:
        """Add the signal to the log, for the model's next step."""
        conversation = self._drivers.conversation
        if conversation is not None:
            conversation.add(signal)
            conversation.context.outbox.flush()  # an accepted signal must be in the log
            self._log.bus.deliver()
        else:
            self._log.append(signal)

    def _would_cut_off(self, signal: Signal) -> bool:
        """Whether starting a run for it would give up a suspended one. Only messages of the user may do that;
        the model sees everything else when the run continues.
        """
        return self._log.bus.fold.facts.is_suspended and signal.category != "user"

    def _is_heard(self) -> bool:
        """Whether the agent accepts input while it runs."""
        return "steer" in self._drivers.current.capabilities

    def _accept(self, action: _Action, signal: Signal, context: RequestContext | None) -> Accepted:
        run_id = ""
        try:
            if action == "wake" and self._would_cut_off(signal):
                action = "persist"
            elif action == "deliver" and not self._is_heard():
                action = "persist"
                if signal.category in _ADDRESSED:
                    self._runs.queue_signal(signal)
                    return Accepted(action=action)
            run_id = self._carry_out(action, signal, context)
        except HarnessError as error:
            self._log.append(Error(message=error.message, code="signal_failed"))
        return Accepted(action=action, run_id=run_id)

    def _carry_out(self, action: _Action, signal: Signal, context: RequestContext | None) -> str:
        """Returns the id of the run that receives it; empty when that is a later one."""
        if action == "discard":
            return ""
        if action == "wake":
            return self._runs.wake(signal, context)
        self.add(signal)
        return self._log.bus.fold.facts.open_run if action == "deliver" else ""


def _branch(value: Branch | Mapping[str, Any] | None) -> Branch | None:
    if value is None or isinstance(value, Branch):
        return value
    try:
        return msgspec.convert(dict(value), Branch)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"not a way to treat a signal: {error}", hint="give a behavior, attributes, or both"
        ) from error
