"""One conversation with its user: identity, thread, mode, model, state, permissions, and the current run."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from harness.contracts.request import REMOTE_AGENT
from harness.events import Event, FollowUpsChanged, ThreadRenamed
from harness.folds.session.encoding import to_wire
from harness.log.codec import spelled_out
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.event_redactor import EventRedactor
from harness.session.agent_driver import AgentDriver, NativeDriver
from harness.session.approvals import Approvals, SessionAnswers, Suspensions
from harness.session.bus import Bus
from harness.session.config import (
    REQUEST_KEY,
    BackingAgent,
    CommandAgent,
    RequestContext,
    check_event,
    described,
)
from harness.session.drivers import Drivers
from harness.session.modes import Choices, MemoryRoles, ModelSelection, ModeSelection, SubagentSettings
from harness.session.notifications import InboxDelivery
from harness.session.open_thread import OpenThread
from harness.session.parking import Parking
from harness.session.permissions import SessionPermissions
from harness.session.public_side import public
from harness.session.run_hooks import QUIET, RunHooks
from harness.session.run_state import FollowUps, RunState, SessionDisplay, StreamState
from harness.session.runs import Runs
from harness.session.services import Workspace
from harness.session.session_host import SessionHost
from harness.session.state import SessionState, Transaction
from harness.session.thread_fold import ThreadFold, rest
from harness.session.threads import Threads
from harness.session.user_message import UserMessage
from harness.session.workspaces import DirectoryWorkspace

if TYPE_CHECKING:
    from harness.session.harness_parts import HarnessParts


_logger = logging.getLogger("harness.session")
_USAGE = "tokenUsage"


class AskingSession(NamedTuple):
    """Mode, model and state of the session, at the time of access."""

    mode_id: str
    model_id: str
    state: SessionState


class HarnessRequest:
    """Contract: everything is current at the time of access, except `state`: that of the start of the run."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self.state: Mapping[str, Any] = session.state.get()
        self._loop, self._home = asyncio.get_running_loop(), threading.get_ident()

    @property
    def harness_id(self) -> str:
        return self._session.harness.id

    @property
    def thread_id(self) -> str | None:
        return self._session.thread.get_id()

    @property
    def resource_id(self) -> str:
        return self._session.identity.get_resource_id()

    @property
    def session(self) -> AskingSession:
        session = self._session
        return AskingSession(session.mode.get(), session.model.get(), session.state)

    @property
    def workspace(self) -> Workspace | None:
        return self._session.workspace

    @property
    def abort_signal(self) -> asyncio.Event | None:
        """Of the current run: set when it should stop."""
        return self._session.runs.abort_signal

    @property
    def is_aborted(self) -> bool:
        """Whether the run should stop; for code in another OS thread."""
        return self._session.runs.is_abort_requested

    def get_state(self) -> dict[str, Any]:
        return self._session.state.get()

    async def set_state(self, changes: Mapping[str, Any]) -> None:
        """Raises UsageError `Invalid state update: …`."""
        await self._session.state.set(changes)

    async def update_state(self, transaction: Transaction) -> Any:
        return await self._session.state.update(transaction)

    def emit_event(self, event: Event) -> None:
        """Append an event to the thread's log. Safe to call from any OS thread.

        Listeners are notified in the event loop's thread.
        Raises UsageError for an event that cannot be encoded.
        """
        check_event(event, "Invalid event")
        if threading.get_ident() == self._home:
            self._session.append(event)
            return
        with suppress(RuntimeError):  # the loop is closed: no listener is left
            self._loop.call_soon_threadsafe(self._session.append, event)

    def get_subagent_model_id(self, agent_type: str = "") -> str | None:
        return self._session.subagents.model.get(agent_type=agent_type)


@public()
class Identity:
    """`session.identity`: the id of the session, and the resource whose threads it has."""

    def __init__(self, resource_id: str, session_id: str) -> None:
        self._resource_id = self._default = spelled_out(resource_id)
        self._id = session_id

    def get_id(self) -> str:
        """The id of the session."""
        return self._id

    def get_resource_id(self) -> str:
        """Whose threads these are: a user, a project."""
        return self._resource_id

    def get_default_resource_id(self) -> str:
        """The resource with which the session was created."""
        return self._default

    def set_resource_id(self, *, resource_id: str) -> None:
        """Use the threads of another resource from now on; the open thread stays open."""
        self._resource_id = spelled_out(resource_id)


class SessionCore:
    """Made by `Harness.create_session`; the harness's own one is `harness.session`."""

    def __init__(self, harness: HarnessParts, *, resource_id: str, session_id: str, cwd: str) -> None:
        self.harness = harness
        self.cwd = cwd
        self.identity: Identity = Identity(resource_id, session_id)
        self._redactor = EventRedactor(harness.secrets) if harness.secrets is not None else None
        self.answers: SessionAnswers = SessionAnswers(
            lambda: self.runs.relays, lambda: self.approval, lambda: self.suspensions
        )
        self.bus: Bus = Bus(
            self._notice,
            self._note_activity,
            quiet=QUIET if harness.pubsub is None else (),
            answers=self.answers,
        )
        self.drivers: Drivers = Drivers(self._new_driver)
        self._workspace: Workspace | None = None
        """The workspace that a factory made for this session."""
        self.thread: Threads = Threads(self)
        self._loose = self._new_loose()
        self.bus.attach(self._loose, 0, ThreadFold(), wakes=False)
        self.state: SessionState[dict[str, Any]] = SessionState(
            harness.state_schema, harness.initial_state, self.append
        )
        self.bus.fold.knows(self.state.stored())
        choices = Choices(harness, self.state, self.thread, self.append)
        self.mode: ModeSelection = ModeSelection(harness.default_mode.id, choices, stop=self._stop_run)
        first_model = self.state.peek("currentModelId") or harness.default_mode.default_model_id
        self.model: ModelSelection = ModelSelection(
            first_model or "", self.mode, choices, works_alone=self._has_program
        )
        self.mode.on_change = self.model.follow
        self.om: MemoryRoles = MemoryRoles(choices, lambda: self.hooks.memory)
        self.subagents: SubagentSettings = SubagentSettings(choices)
        self.permissions: SessionPermissions = SessionPermissions(self.state, harness.category_resolver)
        self.permissions.work_in(self.working_directory, harness.environ)
        self.runs: Runs = Runs(self)
        self.parking: Parking = self._new_parking()
        self.host: SessionHost = SessionHost(self)
        self.hooks: RunHooks = RunHooks(self)
        self.approval: Approvals = Approvals(
            self.runs, self.bus, self.permissions, self.answers, driver=lambda: self.driver
        )
        self.suspensions: Suspensions = Suspensions(
            self.runs, self.bus, self.answers, self.hooks.plan_approved
        )
        self.follow_ups: FollowUps = FollowUps(self.runs)
        self.run: RunState = self._new_run_state()
        self.stream: StreamState = self._new_stream()
        self.display_state: SessionDisplay = SessionDisplay(self.bus)

    def _new_parking(self) -> Parking:
        return Parking(
            facts=lambda: self.bus.fold.facts.limits,
            is_free=lambda: not self.runs.is_busy and not self.bus.fold.facts.relays,
            append=self.append,
            send=lambda text, message_id: self.runs.send(UserMessage(text=text, id=message_id)),
        )

    def _new_run_state(self) -> RunState:
        return RunState(
            self.runs,
            self.bus,
            self.parking,
            trace_id=lambda: self.hooks.trace_id,
            background=self.drivers.background,
        )

    def _new_stream(self) -> StreamState:
        return StreamState(
            self.runs,
            self.bus,
            thread_id=self.thread.get_id,
            whose=lambda: f"{self.agent.name}:{self.identity.get_resource_id()}",
        )

    # The log and its listeners

    @property
    def hub(self) -> Hub:
        """The log of the current thread; without one, a log that is not stored."""
        thread = self.thread.current
        return thread.hub if thread is not None else self._loose

    def append(self, event: Event) -> Event:
        """Append an event to the log and notify listeners at once. Returns it as logged."""
        return self.append_all([event])[-1]

    def append_all(self, events: Sequence[Event], run_id: str = "") -> Sequence[Event]:
        self.drivers.flush()
        self.bus.deliver()  # the fold knows the open run only from delivered events
        if self.bus.fold.next_seq == self.hub.next_seq:  # else the queue before these is not known
            events = [self._briefly(event) for event in events]
        masked = list(events) if self._redactor is None else self._redactor.mask(list(events))
        stamped = self.hub.source(run_id or self.bus.fold.facts.open_run or self.hub.log_id).append(masked)
        self.bus.deliver()
        return stamped

    def end_of(self, thread_id: str) -> int | None:
        """Contract: that of `OpenSession`."""
        if self.thread.get_id() != thread_id:
            return None
        self.bus.deliver()
        return self.bus.fold.next_seq

    @property
    def inbox(self) -> InboxDelivery | None:
        """Contract: that of `OpenSession`."""
        return self.hooks.signals.post if self.thread.is_set() else None

    def save_usage(self) -> None:
        """Store the shown usage with the thread."""
        if (thread := self.thread.current) is not None:
            thread.save_settings({_USAGE: to_wire(self.bus.fold.facts.usage)})

    # Which agent works

    @property
    def agent(self) -> BackingAgent | CommandAgent:
        """The agent of the mode, else of the harness; without either, the native loop."""
        agent = self.mode.resolve().agent or self.harness.agent
        return described(agent) if isinstance(agent, str) else agent

    def _has_program(self) -> bool:
        return isinstance(self.agent, CommandAgent)

    def _stop_run(self) -> None:
        self.runs.abort(pauses_queue=False)

    @property
    def driver(self) -> AgentDriver:
        """That of the agent that works now."""
        return self.drivers.of(self.agent)

    def _new_driver(self, agent: BackingAgent | CommandAgent) -> AgentDriver:
        if not isinstance(agent, CommandAgent):
            return NativeDriver(self)
        # Only now: a session of the built-in loop needs nothing of it.
        from harness.session.program_driver import CommandDriver

        return CommandDriver(self, agent)

    @property
    def conversation(self) -> AgentConversation | None:
        """The conversation of the native loop; None for agent programs."""
        driver = self.driver
        return driver.conversation if isinstance(driver, NativeDriver) and self.thread.is_set() else None

    @property
    def workspace(self) -> Workspace | None:
        """The workspace that a factory made for the latest run, or the one of the harness."""
        workspaces = self.harness.workspaces
        return self._workspace if workspaces.has_factory else workspaces.get()

    @property
    def sandbox(self) -> str:
        """What confines the commands of its workspace, by its name; empty: nothing does."""
        workspace = self.workspace
        return workspace.sandbox if isinstance(workspace, DirectoryWorkspace) else ""

    async def resolve_workspace(self, context: RequestContext) -> Workspace | None:
        """Resolve the workspace for a run that is about to begin."""
        self._workspace = await self.harness.workspaces.resolve_for(context)
        return self._workspace

    @property
    def working_directory(self) -> str:
        workspace = self.workspace
        return workspace.cwd if workspace is not None else self.cwd

    def request_context(self, values: Mapping[str, Any] | None) -> RequestContext:
        """The context of a caller, with the session under `harness`: for tools, factories and instructions."""
        return RequestContext({**(values or {}), REQUEST_KEY: HarnessRequest(self)})

    def may_have(self, tool_name: str) -> bool:
        """Whether the agent of this mode, and its sub-agents, may have a tool of that name."""
        available = self.mode.resolve().available_tools
        return not self.permissions.is_denied(tool_name) and (available is None or tool_name in available)

    # The current thread

    def use(self, thread: OpenThread) -> None:
        """Follow another thread from now on."""
        self.parking.leave()
        self.drivers.flush()
        self.bus.deliver()
        self.drivers.forget_conversations()
        self.thread.current = thread
        was_running = self.bus.fold.tree.open_top is not None
        self.bus.attach(thread.hub, thread.cursor, thread.fold)
        rest(thread.fold, is_running=was_running)
        self._note_activity()
        self.hooks.use_another_thread()
        self.parking.watch()

    def use_no_thread(self) -> None:
        self.parking.leave()
        self.drivers.forget_conversations()
        self._loose = self._new_loose()
        self.bus.attach(self._loose, 0, ThreadFold(), wakes=False)
        self.bus.fold.knows(self.state.stored())

    async def after_run(self) -> None:
        """Save memory, metadata, usage and snapshot after a run."""
        self.drivers.flush()
        self.bus.deliver()
        await self.hooks.memory.after_run()
        thread = self.thread.current
        if thread is None:
            return
        if self._summary(thread) != thread.last_summary or not thread.is_saved:
            self._sum_up(thread)
            thread.save()
        self.parking.after_run(self.harness.new_id())
        thread.save_snapshot_in_time()

    def _summary(self, thread: OpenThread) -> tuple[str, str, Any]:
        """What lists show of the runs of a thread: the last outcome, the first message, the usage."""
        facts = self.bus.fold.facts
        return facts.last_outcome, thread.metadata.prompt or self.hooks.first_message, to_wire(facts.usage)

    def _sum_up(self, thread: OpenThread) -> None:
        """Put that into the metadata."""
        metadata = thread.metadata
        summary = self._summary(thread)
        metadata.outcome, metadata.prompt, usage = summary
        metadata.success = metadata.outcome == "completed"
        metadata.updated_ms = thread.hub.clock()
        thread.change_settings({_USAGE: usage})
        thread.last_summary = summary

    def abandon_suspension(self, reason: str) -> None:
        """Give up a run that waits for answers which will not come: its end is written to the log."""
        if self.bus.fold.facts.activity != "waiting":
            return
        conversation, thread = self.conversation, self.thread.current
        if conversation is not None:
            conversation.give_up(reason)
        elif thread is not None:
            thread.close_runs(reason)
        self.bus.deliver()

    async def destroy(self) -> None:
        """Stop everything and release the thread."""
        self.parking.leave()
        await self.thread.release()
        await self.hooks.close()
        self.bus.detach()

    def _briefly(self, event: Event) -> Event:
        """Replace entries that are already queued by their position, so that they are not logged again."""
        if not isinstance(event, FollowUpsChanged):
            return event
        follow_ups = self.bus.fold.facts.follow_ups
        places = {id(message): place for place, message in enumerate(follow_ups)}
        pending = [places.get(id(message), message) for message in event.pending]
        return msgspec.structs.replace(event, pending=pending)

    def _notice(self, event: Event) -> None:
        thread = self.thread.current
        if thread is not None and isinstance(event, ThreadRenamed) and thread.metadata.name != event.title:
            thread.metadata.name = event.title
            thread.save()
        self.runs.endings.notice(event)
        self.hooks.notice(event)

    def _note_activity(self) -> None:
        """Save the activity and what agents call their sessions: lists show it, even if this process dies."""
        thread = self.thread.current
        if thread is None:
            return
        metadata, facts = thread.metadata, thread.fold.facts
        if metadata.activity == facts.activity and thread.agent_sessions == facts.agent_sessions:
            return
        thread.agent_sessions = dict(facts.agent_sessions)
        session_names = (
            f"{agent}:{session_id}"
            for agent, session_id in facts.agent_sessions.items()
            if agent != REMOTE_AGENT
        )
        if new := [name for name in session_names if name not in metadata.agent_sessions]:
            metadata.agent_sessions = [*metadata.agent_sessions, *new]
        elif metadata.activity == facts.activity:
            return
        metadata.activity, thread.last_summary = facts.activity, None
        if not metadata.activity:
            metadata.outcome = facts.last_outcome
            if self.runs.is_running:
                self._sum_up(thread)  # in the same write; `after_run` looks whether that was all
        if metadata.activity == "running" and self.runs.is_running:
            thread.save_soon()  # whoever waits for the first event does not wait for a file
        else:
            thread.save()

    def _new_loose(self) -> Hub:
        store, log_id = MemoryStore(), new_run_id(self.harness.clock())
        return Hub(store, log_id, store.create(Metadata(session_id=log_id)), self.harness.clock)
