"""One conversation with its user: makes the parts of a session, and says to each what concerns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.contracts.request import REMOTE_AGENT
from harness.events import Event, ThreadRenamed
from harness.folds.session.encoding import to_wire
from harness.native.loop.conversation import AgentConversation
from harness.session.approvals import Approvals, SessionAnswers, Suspensions
from harness.session.bus import Bus
from harness.session.config import CommandAgent
from harness.session.drivers import AgentDriver, Drivers
from harness.session.guards import GuardRunner
from harness.session.harness_parts import HarnessParts
from harness.session.message_guards import MessageGuards
from harness.session.native_driver import NativeDriver
from harness.session.notifications import InboxDelivery
from harness.session.open_thread import OpenThread
from harness.session.run_hooks import QUIET, RunHooks
from harness.session.run_state import FollowUps, RunState, SessionDisplay, StreamState
from harness.session.runs import Runs
from harness.session.session_settings import Identity, SessionSettings
from harness.session.thread_fold import rest
from harness.session.thread_log import ThreadLog
from harness.session.threads import Threads

_USAGE = "tokenUsage"


class SessionCore:
    """Made by `Harness.create_session`; the harness's own one is `harness.session`.

    No part holds it: each is given the others that it needs.
    """

    def __init__(self, harness: HarnessParts, *, resource_id: str, session_id: str, cwd: str) -> None:
        self.answers: SessionAnswers = SessionAnswers(
            lambda: self.runs.relays, lambda: self.approval, lambda: self.suspensions
        )
        self.bus: Bus = Bus(
            self._notice,
            self._note_activity,
            quiet=QUIET if harness.pubsub is None else (),
            answers=self.answers,
        )
        self.log: ThreadLog = ThreadLog(harness, self.bus)
        log = self.log
        self.append: Callable[[Event], Event] = log.append
        self.append_all: Callable[..., Sequence[Event]] = log.append_all
        self.settings: SessionSettings = SessionSettings(
            harness,
            log,
            Identity(resource_id, session_id),
            cwd,
            stop=lambda: self.runs.abort(pauses_queue=False),
            memory=lambda: self.hooks.memory,
        )
        settings = self.settings
        self.bus.fold.knows(settings.state.stored())
        self.drivers: Drivers = Drivers(log, settings, self._new_loop, self._new_program)
        log.flush = self.drivers.flush
        guards = GuardRunner(harness.guards, harness.hooks, log.note, lambda: self.runs.context)
        self.runs: Runs = Runs(
            log,
            settings,
            self.drivers,
            MessageGuards(guards, log, harness, self._ensure_thread),
            ensure_thread=self._ensure_thread,
            after_run=self._after_run,
        )
        self.thread: Threads = Threads(
            log, settings, self.drivers, self.runs, use=self._use, use_none=self._use_no_thread
        )
        self.hooks: RunHooks = RunHooks(log, settings, self.drivers, self.runs, self.thread, guards)
        self._make_public_parts()

    def _make_public_parts(self) -> None:
        runs, bus, settings = self.runs, self.bus, self.settings
        self.approval: Approvals = Approvals(
            runs, bus, settings.permissions, self.answers, driver=lambda: self.driver
        )
        self.suspensions: Suspensions = Suspensions(runs, bus, self.answers, self.hooks.plan_approved)
        self.follow_ups: FollowUps = FollowUps(runs)
        self.run: RunState = RunState(
            runs, bus, runs.parking, trace_id=lambda: self.hooks.trace_id, background=self.drivers.background
        )
        self.stream: StreamState = StreamState(
            runs,
            bus,
            thread_id=self.thread.get_id,
            whose=lambda: f"{settings.agent.name}:{settings.identity.get_resource_id()}",
        )
        self.display_state: SessionDisplay = SessionDisplay(bus)

    async def _ensure_thread(self) -> None:
        await self.thread.ensure()

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
        if (thread := self.log.thread) is not None:
            thread.save_settings({_USAGE: to_wire(self.bus.fold.facts.usage)})

    # Which agent works

    @property
    def driver(self) -> AgentDriver:
        return self.drivers.current

    @property
    def conversation(self) -> AgentConversation | None:
        return self.drivers.conversation

    def _new_loop(self) -> NativeDriver:
        return NativeDriver(self.log, self.settings, self.runs, self.hooks)

    def _new_program(self, agent: CommandAgent) -> AgentDriver:
        # Only now: a session of the built-in loop needs nothing of it.
        from harness.session.program_driver import CommandDriver

        return CommandDriver(self.log, self.settings, self.drivers, self.runs, self.hooks, agent)

    # The current thread

    def _use(self, thread: OpenThread) -> None:
        """Follow another thread from now on."""
        self.runs.parking.leave()
        self.drivers.flush()
        self.bus.deliver()
        self.drivers.forget_conversations()
        self.log.thread = thread
        was_running = self.bus.fold.tree.open_top is not None
        self.bus.attach(thread.hub, thread.cursor, thread.fold)
        rest(thread.fold, is_running=was_running)
        self._note_activity()
        self.hooks.use_another_thread()
        self.runs.parking.watch()

    def _use_no_thread(self) -> None:
        self.runs.parking.leave()
        self.drivers.forget_conversations()
        self.log.use_none()
        self.bus.fold.knows(self.settings.state.stored())

    async def _after_run(self) -> None:
        """Save memory, metadata, usage and snapshot after a run."""
        self.drivers.flush()
        self.bus.deliver()
        await self.hooks.memory.after_run()
        thread = self.log.thread
        if thread is None:
            return
        if self._summary(thread) != thread.last_summary or not thread.is_saved:
            self._sum_up(thread)
            thread.save()
        self.runs.parking.after_run(self.settings.harness.new_id())
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

    async def destroy(self) -> None:
        """Stop everything and release the thread."""
        self.runs.parking.leave()
        await self.thread.release()
        await self.hooks.close()
        self.bus.detach()

    def _notice(self, event: Event) -> None:
        thread = self.log.thread
        if thread is not None and isinstance(event, ThreadRenamed) and thread.metadata.name != event.title:
            thread.metadata.name = event.title
            thread.save()
        self.runs.endings.notice(event)
        self.hooks.notice(event)

    def _note_activity(self) -> None:
        """Save the activity and what agents call their sessions: lists show it, even if this process dies."""
        thread = self.log.thread
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
        was_at_rest = not metadata.activity
        metadata.activity, thread.last_summary = facts.activity, None
        if not metadata.activity:
            metadata.outcome = facts.last_outcome
            if self.runs.is_running:
                self._sum_up(thread)  # in the same write; `after_run` looks whether that was all
        if was_at_rest and metadata.activity == "running" and self.runs.is_running:
            # Whoever waits for the first event does not wait for a file. What was answered is written at once: if this
            # process dies, others must not believe that it still asks.
            thread.save_soon()
        else:
            thread.save()
