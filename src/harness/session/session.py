"""One conversation with its user: identity, thread, mode, model, state, permissions, and what goes on now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from harness.errors import UsageError
from harness.events import Event, FollowUpsChanged, Signal, ThreadRenamed, Usage, UsageDelta
from harness.log.codec import plain_text, spelled_out
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.rendering.session.encoding import to_wire
from harness.rendering.session.events import HarnessMessage, TokenUsage
from harness.rendering.session.messages import Role
from harness.rendering.session.usage import NOTHING_USED, read_usage, usage_of
from harness.session.agent_driver import AgentDriver, CommandDriver, NativeDriver, described
from harness.session.approvals import Approvals, FollowUps, RunState, SessionDisplay, StreamState, Suspensions
from harness.session.bus import Bus, Listener
from harness.session.checks import check_text, checked_limits
from harness.session.config import BackingAgent, CommandAgent, RequestContext
from harness.session.goals import Goals
from harness.session.modes import MemoryRoles, ModelSelection, ModeSelection, SubagentSettings
from harness.session.notifications import Notification, NotificationInput, Policy
from harness.session.open_thread import OpenThread
from harness.session.outcome import RunOutcome
from harness.session.permissions import SessionPermissions
from harness.session.run_hooks import QUIET, RunHooks
from harness.session.runs import Runs, UserMessage
from harness.session.services import Workspace
from harness.session.signal_delivery import SentSignal
from harness.session.signals import Branch, File, contents, split
from harness.session.state import SessionState
from harness.session.thread_fold import ThreadFold, rest
from harness.session.threads import Binding, Threads
from harness.sources.loop.conversation import AgentConversation
from harness.sources.loop.event_redactor import EventRedactor
from harness.sources.request import OWN_AGENT, Limits

if TYPE_CHECKING:
    from harness.session.harness import Harness


class Identity:
    def __init__(self, resource_id: str, session_id: str) -> None:
        self._resource_id = self._default = spelled_out(resource_id)
        self._id = session_id

    def get_id(self) -> str:
        return self._id

    def get_resource_id(self) -> str:
        return self._resource_id

    def get_default_resource_id(self) -> str:
        return self._default

    def set_resource_id(self, *, resource_id: str) -> None:
        self._resource_id = spelled_out(resource_id)


class Session:
    """Made by `Harness.create_session`; the harness's own one is `harness.session`."""

    def __init__(self, harness: Harness, *, resource_id: str, session_id: str, cwd: str) -> None:
        self.harness = harness
        self.cwd = cwd
        self.identity = Identity(resource_id, session_id)
        self._veil = EventRedactor(harness.secrets) if harness.secrets is not None else None
        self.bus = Bus(self._notice, self._note_activity, quiet=QUIET if harness.pubsub is None else ())
        self._backings: list[tuple[BackingAgent | CommandAgent, AgentDriver]] = []
        self._workspace: Workspace | None = None
        """What a factory made for this session."""
        self.thread = Threads(self)
        self._loose = self._new_loose()
        self.bus.attach(self._loose, 0, ThreadFold(), wakes=False)
        self.state = SessionState(harness.state_schema, harness.initial_state, self.append)
        self.bus.fold.knows(self.state.stored())
        self.mode = ModeSelection(self, harness.default_mode.id)
        first_model = self.state.peek("currentModelId") or harness.default_mode.default_model_id
        self.model = ModelSelection(self, first_model or "")
        self.om = MemoryRoles(self)
        self.subagents = SubagentSettings(self)
        self.permissions = SessionPermissions(self.state, harness.category_resolver)
        self.runs = Runs(self)
        self.binding = Binding(self)
        self.approval = Approvals(self)
        self.suspensions = Suspensions(self)
        self.follow_ups = FollowUps(self)
        self.run = RunState(self)
        self.stream = StreamState(self)
        self.display_state = SessionDisplay(self)
        self.extras = RunHooks(self)

    # What goes into the log, and who hears of it

    @property
    def hub(self) -> Hub:
        """The log of the thread in hand; without one, a log that nobody keeps."""
        bound = self.thread.bound
        return bound.hub if bound is not None else self._loose

    def append(self, event: Event) -> Event:
        """Put a fact into the log, and tell it at once; returns it as it is there."""
        return self.append_all([event])[-1]

    def append_all(self, events: Sequence[Event], run_id: str = "") -> Sequence[Event]:
        self._flush()
        self.bus.deliver()  # only what was told is known: which run has not ended
        if self.bus.fold.next_seq == self.hub.next_seq:  # else nobody knows what waits before these
            events = [self._briefly(event) for event in events]
        masked = list(events) if self._veil is None else self._veil.mask(list(events))
        stamped = self.hub.source(run_id or self.bus.fold.facts.open_run or self.hub.log_id).append(masked)
        self.bus.deliver()
        return stamped

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event from now on; returns how to stop that."""
        return self.bus.subscribe(listener)

    # Talking to the agent

    async def send_message(
        self,
        *,
        content: str,
        files: Iterable[File | Mapping[str, Any]] = (),
        request_context: RequestContext | None = None,
        limits: Limits | None = None,
    ) -> RunOutcome:
        """Say something. With a run going on it joins that, and this returns; else the run is waited for.

        `limits`: of the run that it begins: turns, money, time. What goes wrong in a run is told in the outcome, never
        raised.
        """
        return await self.runs.send(self._said(content, files), request_context, checked_limits(limits))

    async def steer(self, *, content: str, request_context: RequestContext | None = None) -> None:
        """Say something that changes the course: at the next step where the agent can hear, else by a new run.
        What is queued waits on.
        """
        said = self._said(content)
        if not self.runs.join(said, request_context):
            await self.runs.instead(said, request_context)

    async def follow_up(self, *, content: str, request_context: RequestContext | None = None) -> None:
        """Say something when the run that goes on, or waits for an answer, has ended, and after what is queued
        already; at once when there is nothing of that.
        """
        said = self._said(content)
        if self.runs.is_running:
            self.runs.queue(said, request_context)
        else:
            await self.runs.send_last(said, request_context)

    def abort(self, *, queue: Literal["keep", "clear"] = "keep") -> None:
        """Stop what goes on. What waits for an answer is given up; what is queued is not sent.

        `queue`: whether it is kept, for `follow_ups.send()` or the next message, or given up as well.
        Raises UsageError for another word.
        """
        if queue not in ("keep", "clear"):
            raise UsageError(f"unknown choice for the queue: {queue!r}", hint="keep or clear")
        if queue == "clear":
            self.follow_ups.clear()
        self.runs.abort()

    async def wait_until_idle(self) -> None:
        await self.runs.wait_until_idle()

    # Answering the agent

    def respond_to_tool_approval(
        self,
        *,
        decision: Literal["approve", "decline", "always_allow", "always_allow_category"],
        tool_call_id: str = "",
        reason: str = "",
        option: str = "",
        request_context: RequestContext | None = None,
    ) -> bool:
        """Answer a call that waits for leave; False when none does (any more): the first answer counts.

        `always_allow` grants what the first option `allow-always` of the question says; `option` names another one.
        """
        return self.approval.respond(decision, tool_call_id, reason, request_context, option)

    async def respond_to_tool_suspension(
        self, *, resume_data: Any, tool_call_id: str = "", request_context: RequestContext | None = None
    ) -> bool:
        """Answer a tool that waits, and wait for what comes of it; False when none of that id waits."""
        return await self.suspensions.respond(resume_data, tool_call_id, request_context)

    # Telling the agent what nobody typed

    async def send_signal(
        self,
        signal: str | Mapping[str, Any] | Signal,
        *,
        if_active: Branch | Mapping[str, Any] | None = None,
        if_idle: Branch | Mapping[str, Any] | None = None,
        request_context: RequestContext | None = None,
    ) -> SentSignal:
        """Into the run that goes on, or by a new one, unless the branches say otherwise. Raises UsageError."""
        return await self.extras.signalling.send(
            signal, if_active=if_active, if_idle=if_idle, request_context=request_context
        )

    async def send_notification_signal(
        self, notification: NotificationInput | Mapping[str, Any], *, policy: Policy | None = None
    ) -> Notification:
        """Into the inbox of the thread; the policy says when the model is told."""
        return await self.extras.signalling.notify(notification, policy=policy)

    async def save_system_reminder_message(
        self,
        *,
        message: str,
        reminder_type: str,
        role: Role = "user",
        metadata: Mapping[str, Any] | None = None,
    ) -> HarnessMessage | None:
        """Keep a reminder in the thread, for the next time; None without a thread, or a store."""
        return await self.extras.signalling.save_reminder(message, reminder_type, role, metadata)

    @property
    def goals(self) -> Goals:
        """The objective of the thread, which a judge holds the agent to."""
        return self.extras.goals

    # Tokens

    def get_token_usage(self) -> TokenUsage:
        return copy(self.bus.fold.facts.usage)

    def set_token_usage(self, usage: TokenUsage | Mapping[str, Any]) -> None:
        """Count from here on. What was really used stays in the log, and on the bill."""
        counted = to_wire(usage if isinstance(usage, TokenUsage) else read_usage(usage))
        self.append(UsageDelta(usage=Usage(), counted=counted))
        self._save_usage()

    def reset_token_usage(self) -> None:
        self.set_token_usage(NOTHING_USED)

    def _save_usage(self) -> None:
        if (bound := self.thread.bound) is not None:
            bound.save_settings({"tokenUsage": to_wire(self.bus.fold.facts.usage)})

    def add_usage(self, usage: TokenUsage | Mapping[str, Any]) -> None:
        """Count what somebody else has used for this thread; it is told like any other use."""
        self.append(UsageDelta(usage=usage_of(usage)))

    # Which agent works

    @property
    def agent(self) -> BackingAgent | CommandAgent:
        """Of the mode, else of the harness; without either, one of our own."""
        return described(self.mode.resolve().agent or self.harness.agent or OWN_AGENT)

    @property
    def backing(self) -> AgentDriver:
        agent = self.agent
        for known, backing in self._backings:
            if known == agent or (isinstance(known, BackingAgent) and isinstance(agent, BackingAgent)):
                return backing
        made = CommandDriver(self, agent) if isinstance(agent, CommandAgent) else NativeDriver(self)
        self._backings.append((agent, made))
        return made

    @property
    def conversation(self) -> AgentConversation | None:
        """Of the loop of our own; None for agent programs."""
        backing = self.backing
        return backing.conversation if isinstance(backing, NativeDriver) and self.thread.is_set() else None

    @property
    def capabilities(self) -> frozenset[str]:
        """What the agent of this mode can really do."""
        return self.backing.capabilities

    @property
    def workspace(self) -> Workspace | None:
        """Where this session works: what a factory made for its latest run, or what the harness has for all."""
        workspaces = self.harness.workspaces
        return self._workspace if workspaces.has_factory else workspaces.get()

    async def resolve_workspace(self, context: RequestContext) -> Workspace | None:
        """For a run that is about to begin."""
        self._workspace = await self.harness.workspaces.resolve_for(context)
        return self._workspace

    @property
    def working_directory(self) -> str:
        workspace = self.workspace
        return workspace.cwd if workspace is not None else self.cwd

    def may_have(self, tool_name: str) -> bool:
        """Whether a tool of that name is for the agent of this mode, or for one that works for it."""
        shown = self.mode.resolve().available_tools
        return not self.permissions.is_denied(tool_name) and (shown is None or tool_name in shown)

    # The thread in hand

    async def ensure_thread(self) -> None:
        if not self.thread.is_set():
            await self.binding.ensure()

    def use(self, bound: OpenThread) -> None:
        """Follow another thread from now on."""
        self._flush()
        self.bus.deliver()
        self.forget_conversations()
        self.thread.bound = bound
        was_running = self.bus.fold.tree.open_top is not None
        self.bus.attach(bound.hub, bound.cursor, bound.fold)
        rest(bound.fold, is_running=was_running)
        self._note_activity()
        self.extras.use_another_thread()

    def use_no_thread(self) -> None:
        self.forget_conversations()
        self._loose = self._new_loose()
        self.bus.attach(self._loose, 0, ThreadFold(), wakes=False)
        self.bus.fold.knows(self.state.stored())

    async def after_run(self) -> None:
        """Keep what is to be kept of a run that has ended."""
        self._flush()
        self.bus.deliver()
        await self.extras.remembrance.after_run()
        bound = self.thread.bound
        if bound is None:
            return
        bound.metadata.updated_ms = bound.hub.clock()
        bound.metadata.outcome = self.bus.fold.facts.last_outcome
        bound.metadata.success = bound.metadata.outcome == "completed"
        if not bound.metadata.prompt:
            bound.metadata.prompt = self.extras.first_words
        self._save_usage()
        bound.save_snapshot_in_time()

    def abandon_suspension(self, reason: str) -> None:
        """Give up a run that waits for answers which will not come: its end is written to the log."""
        if self.bus.fold.facts.activity != "waiting":
            return
        conversation, bound = self.conversation, self.thread.bound
        if conversation is not None:
            conversation.give_up(reason)
        elif bound is not None:
            bound.close_runs(reason)
        self.bus.deliver()

    async def load_memory_progress(self) -> None:
        """Tell how far the memory of the thread is."""
        await self.extras.remembrance.prepare()
        memory = self.extras.remembrance.memory
        if memory is not None:
            conversation = self.conversation
            self.append(memory.load_progress(conversation.entries if conversation is not None else None))

    async def destroy(self) -> None:
        """Stop everything and let the thread go."""
        await self.binding.let_go()
        await self.extras.close()
        self.bus.detach()

    def _said(self, content: str, files: Iterable[File | Mapping[str, Any]] = ()) -> UserMessage:
        check_text("content", content)
        texts, attachments = split(contents(content, files))
        return UserMessage(text=plain_text("\n\n".join(texts)), attachments=attachments)

    def _briefly(self, event: Event) -> Event:
        """What waits in the queue already is named by its place, not said again."""
        if not isinstance(event, FollowUpsChanged):
            return event
        waited = self.bus.fold.facts.follow_ups
        places = {id(one): place for place, one in enumerate(waited)}
        pending = [places.get(id(one), one) for one in event.pending]
        return msgspec.structs.replace(event, pending=pending)

    def _notice(self, event: Event) -> None:
        bound = self.thread.bound
        if bound is not None and isinstance(event, ThreadRenamed) and bound.metadata.name != event.title:
            bound.metadata.name = event.title
            bound.save()
        self.runs.endings.notice(event)
        self.extras.notice(event)

    def _note_activity(self) -> None:
        """So that whoever lists threads sees which of them wait for him, whatever becomes of this process."""
        bound = self.thread.bound
        if bound is None or bound.metadata.activity == bound.fold.facts.activity:
            return
        bound.metadata.activity = bound.fold.facts.activity
        if not bound.metadata.activity:
            bound.metadata.outcome = bound.fold.facts.last_outcome
        bound.save()

    def _flush(self) -> None:
        """What a loop still holds back goes into the log first."""
        for _, backing in self._backings:
            if isinstance(backing, NativeDriver):
                backing.flush()

    def forget_conversations(self) -> None:
        for _, backing in self._backings:
            if isinstance(backing, NativeDriver):
                backing.forget()

    def _new_loose(self) -> Hub:
        store, log_id = MemoryStore(), new_run_id(self.harness.clock())
        return Hub(store, log_id, store.create(Metadata(session_id=log_id)), self.harness.clock)
