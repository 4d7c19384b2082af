"""The methods of a conversation, shared by `Session` and by `Harness`, which has a session of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, cast

from harness.contracts.request import Limits
from harness.events import Signal
from harness.folds.session.events import HarnessMessage, Question
from harness.folds.session.messages import Role
from harness.session.checks import check_listener, checked_limits
from harness.session.config import RequestContext
from harness.session.notifications import Notification, NotificationInput, Policy
from harness.session.outputs import Output, Value, WantedOutput
from harness.session.public_side import public
from harness.session.run_outcomes import RunOutcome
from harness.session.signal_delivery import SentSignal
from harness.session.signals import Branch, File
from harness.session.state import SessionState, State
from harness.session.user_message import UserMessage

if TYPE_CHECKING:
    from harness.session.bus import Listener
    from harness.session.goals import Goals
    from harness.session.permissions import SessionPermissions
    from harness.session.run_state import SessionDisplay
    from harness.session.session_core import SessionCore


@public()
class SessionMethods(Generic[State]):
    """Talk to the agent of a session, answer it, and follow what it does.

    On a `Harness` every method concerns the harness's own session.
    """

    _core: SessionCore

    # Talking to the agent

    async def send_message(
        self,
        *,
        content: str,
        output: type[Value] | Output[Value] | None = None,
        files: Iterable[File | Mapping[str, Any]] = (),
        request_context: RequestContext | None = None,
        limits: Limits | None = None,
    ) -> RunOutcome[Value]:
        """Send a message of the user, and wait for the end of the run that answers it.

        While a run is active the message joins it, or is queued if the agent accepts no input; then this
        returns at once, with the outcome `joined` or `queued`. Without a thread a new one is created.

        Args:
            content: The text.
            output: What the answer has to be: a pydantic model, a msgspec Struct, a dataclass, a TypedDict, any
                type that JSON can be read as, or an `Output` with retries and a check of your own. The result is
                `outcome.output`.
            files: `File`s or mappings with `data`, `mediaType` and `filename`. Text files become part of
                the text.
            request_context: Passed to tools, factories and instructions; the model never sees it.
            limits: Turns, money and time of the run that this begins.

        Returns:
            How the run ended, with its answer, usage and cost. A failed run is an outcome, not an exception.

        Raises:
            UsageError: For invalid content, files or limits, and in another event loop than the thread's.

        """
        if limits is not None:
            limits = checked_limits(limits)
        message, wanted = UserMessage.of(content, files), WantedOutput.of(output)
        return await self._core.runs.send(message, request_context, limits, wanted)

    async def steer(self, *, content: str, request_context: RequestContext | None = None) -> None:
        """Send a message that changes what the agent is doing.

        An agent that accepts input sees it at its next step. Otherwise the run is stopped and a new one
        begins with this message, before anything that is queued. Raises UsageError for content that is not text.
        """
        runs = self._core.runs
        message = await runs.guards.message(UserMessage.of(content), request_context)
        if isinstance(message, UserMessage) and not runs.join(message, request_context):
            await runs.instead(message, request_context)

    async def follow_up(self, *, content: str, request_context: RequestContext | None = None) -> None:
        """Queue a message for after the current run, or send it at once if nothing runs, waits or is queued.

        Use it for work that should not disturb the current run. Each queued message gets a run of its own.
        Raises UsageError for content that is not text.
        """
        runs = self._core.runs
        message = await runs.guards.message(UserMessage.of(content), request_context)
        if not isinstance(message, UserMessage):
            return
        if runs.is_running:
            runs.queue(message, request_context)
        else:
            await runs.send_last(message, request_context)

    def abort(self, *, queue: Literal["keep", "clear"] = "keep") -> None:
        """Stop the current run, and give up a call that waits for an answer.

        It ends soon; `wait_until_idle` waits for that. Queued messages are not sent: with `keep` they wait
        for `follow_ups.send()` or the next message, with `clear` they are dropped. Raises UsageError for any
        other value.
        """
        if queue == "clear":
            self._core.follow_ups.clear()
        self._core.runs.abort()

    async def compact(self, *, focus: str = "") -> None:
        """Let the agent sum up the conversation so far, which makes room for what follows.

        The log keeps everything. `focus`: what matters most in the summary. Raises UsageError during a run, and for an
        agent program, which does so by itself.
        """
        self._core.runs.compact(focus)
        await self._core.runs.wait_until_idle()

    async def wait_until_idle(self) -> None:
        """Wait until no run is active and the queue was sent. Cancelling this leaves the run alone."""
        await self._core.runs.wait_until_settled()

    # Answering the agent

    def questions(self) -> list[Question]:
        """Everything that waits for a person, the oldest first: the very objects that listeners get.

        They are answered by themselves (`approve()`, `decline(…)`, `answer(…)`), in this process or a later one.
        """
        self._core.bus.deliver()
        return self._core.answers.questions()

    def respond_to_tool_approval(
        self,
        *,
        decision: Literal["approve", "decline", "always_allow", "always_allow_category"],
        tool_call_id: str = "",
        reason: str = "",
        option: str = "",
        request_context: RequestContext | None = None,
    ) -> bool:
        """Answer a tool call that waits for permission (`tool_approval_required`).

        Args:
            decision: `always_allow` also grants what the first `allow-always` option of the question says;
                `always_allow_category` grants the category of the tool until the session ends.
            tool_call_id: Which call; may be left out while only one waits.
            reason: Shown to the model, for example why it was declined.
            option: The id of another option that the question offers.
            request_context: Added to that of the run.

        Returns:
            False when no such call waits any more: the first answer counts.

        Raises:
            UsageError: For an unknown decision or option, and when several calls wait and none is named.

        """
        return self._core.approval.respond(decision, tool_call_id, reason, request_context, option)

    async def respond_to_tool_suspension(
        self, *, resume_data: Any, tool_call_id: str = "", request_context: RequestContext | None = None
    ) -> bool:
        """Answer a tool that waits for data: a question, a plan, or a tool of yours (`tool_suspended`).

        Waits for the run that continues with the answer. Returns False when no such call waits any more.
        Raises UsageError for data that does not answer it; the call then still waits.
        """
        return await self._core.suspensions.respond(resume_data, tool_call_id, request_context)

    # Signals: what the model should know and no user typed

    async def send_signal(
        self,
        signal: str | Mapping[str, Any] | Signal,
        *,
        if_active: Branch | Mapping[str, Any] | None = None,
        if_idle: Branch | Mapping[str, Any] | None = None,
        request_context: RequestContext | None = None,
    ) -> SentSignal:
        """Give the model a signal: into the current run, or by a new one.

        Args:
            signal: A text, a mapping with `type` and `contents`, or a `Signal`.
            if_active: While a run is active: `deliver` (default), `persist` for the next run, or `discard`.
            if_idle: Otherwise: `wake` (default: begin a run), `persist`, or `discard`.
            request_context: Of the run that it begins.

        Returns:
            The id of the signal, and what was done with it.

        Raises:
            UsageError: For a signal or a branch that is not valid.

        """
        return await self._core.hooks.signals.send(
            signal, if_active=if_active, if_idle=if_idle, request_context=request_context
        )

    async def send_notification_signal(
        self, notification: NotificationInput | Mapping[str, Any], *, policy: Policy | None = None
    ) -> Notification:
        """Put a notification into the thread's inbox; the policy decides when the model sees it.

        Returns it as it is stored then. Raises UsageError for a notification that is not valid.
        """
        return await self._core.hooks.signals.notify(notification, policy=policy)

    async def save_system_reminder_message(
        self,
        *,
        message: str,
        reminder_type: str,
        role: Role = "user",
        metadata: Mapping[str, Any] | None = None,
    ) -> HarnessMessage | None:
        """Store a reminder in the thread, which the model sees when it is next asked.

        Args:
            message: The text.
            reminder_type: What kind of reminder it is, for user interfaces.
            role: As whose message it is stored.
            metadata: More data to store with it.

        Returns:
            The message as it is stored; None without a thread or without storage.

        """
        return await self._core.hooks.signals.save_reminder(message, reminder_type, role, metadata)

    # Following the session

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every session event from now on, in order; it may be async.

        Returns a function that ends the subscription. A listener that raises is logged and stays subscribed.
        Raises UsageError for one that cannot be called.
        """
        check_listener(listener)
        return self._core.bus.subscribe(listener)

    @property
    def state(self) -> SessionState[State]:
        """The application's typed state: `value`, `await change(…)`, `await update(transaction)`."""
        return cast("SessionState[State]", self._core.settings.state)

    @property
    def permissions(self) -> SessionPermissions:
        """Rules by tool and category, and what was granted in this session."""
        return self._core.settings.permissions

    @property
    def goals(self) -> Goals:
        """The objective of the thread, which a judge holds the agent to."""
        return self._core.hooks.goals

    @property
    def display_state(self) -> SessionDisplay:
        """`display_state.get()` is everything that a screen shows, always current."""
        return self._core.display_state
