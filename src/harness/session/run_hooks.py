"""What a session adds to the work of its agent: tools of its own, memory, goals, signals, traces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from harness.contracts.model import Turn
from harness.contracts.tool import Tool
from harness.conversation.turns import StepContext, TranscriptEntry
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Signal,
    Task,
    TextDelta,
    ToolInputDelta,
    ToolProgress,
    Usage,
)
from harness.log.codec import encode
from harness.native.loop.loop_context import AgentOptions
from harness.session.builtin.ask_user import AskUserTool
from harness.session.builtin.notification_inbox import NotificationInboxTool
from harness.session.builtin.subagent import SubagentTool
from harness.session.builtin.submit_plan import SubmitPlanTool
from harness.session.builtin.tasks import TaskSignal, task_tools
from harness.session.child_threads import thread_judge
from harness.session.config import RequestContext
from harness.session.drivers import Drivers
from harness.session.goals import Goals, Objective, objective_update
from harness.session.guards import GuardRunner
from harness.session.notifications import NotificationInbox
from harness.session.outputs import INVALID
from harness.session.run_outcomes import outcome_of
from harness.session.runs import RunRequest, Runs
from harness.session.services import Span
from harness.session.session_host import SessionHost, SessionInboxHost, user_text
from harness.session.session_settings import SessionSettings
from harness.session.signal_delivery import SignalDelivery
from harness.session.signals import create
from harness.session.state import IsVisible, StateLanes
from harness.session.thread_log import ThreadLog
from harness.session.thread_memory import ThreadMemory
from harness.session.threads import Threads


def state_signals(
    lanes: StateLanes,
    tasks: Sequence[Task],
    objective: Objective | None,
    *,
    max_runs: int,
    is_visible: IsVisible,
    new_id: Callable[[], str],
) -> list[Signal]:
    """The state signals to show the model, in this order; empty when it is up to date.

    The caller logs them, and the lanes are fed from the log. Calling this twice before that gives them twice.
    """
    updates = (
        TaskSignal().update(lanes.lane(TaskSignal.id), tasks, is_visible),
        objective_update(lanes.lane("goal"), objective, max_runs, is_visible),
    )
    signals = (
        lanes.signal(update, id=new_id(), is_visible=is_visible) for update in updates if update is not None
    )
    return [signal for signal in signals if signal is not None]


_NOTED: frozenset[type[Event]] = frozenset((SessionStart, Resumed, Result, Message, Signal))
QUIET: frozenset[type[Event]] = frozenset((TextDelta, ReasoningDelta, ToolInputDelta, ToolProgress))
"""Streamed deltas, of which there are many: the hooks do nothing with them except publish them."""


class RunHooks:
    """Called by the session and its loop: before a step, after an answer, and for every logged event."""

    def __init__(
        self,
        log: ThreadLog,
        settings: SessionSettings,
        drivers: Drivers,
        runs: Runs,
        threads: Threads,
        guards: GuardRunner,
    ) -> None:
        self._log, self._settings, self._drivers = log, settings, drivers
        self._runs, self._threads = runs, threads
        self.guards: GuardRunner = guards
        self.host: SessionHost = SessionHost(log, settings, drivers, runs, self)
        self.goals: Goals = Goals(self.host, thread_judge(self.host, settings.permissions))
        inbox = NotificationInbox(SessionInboxHost(log, settings, drivers, runs, self))
        self.signals: SignalDelivery = SignalDelivery(
            log, settings.harness, drivers, runs, threads, inbox, self.is_visible
        )
        self.memory: ThreadMemory = ThreadMemory(log, settings, drivers, runs, threads)
        self.options: AgentOptions | None = None
        """The options of the current run."""
        self.first_message: str = ""
        """The user's first message in the current thread since it was opened, shortened."""
        self.last_message: str = ""
        self._shown_turns: tuple[tuple[Turn, ...], int] | None = None
        """The turns that the memory chose for the model, and how many entries there were then."""
        self._builtin = self._make_tools()
        self._seen_signals = _Seen()
        self._span: tuple[str, Span] | None = None
        self.trace_id: str | None = None

    @property
    def shows_tasks(self) -> bool:
        """Whether the model is shown the task list of the thread: only where it has the tools that name its entries."""
        return "task_write" not in self._settings.harness.disabled_tools

    def builtin_tools(self) -> Sequence[Tool]:
        """The session's own tools for the next run."""
        tools = [*self._builtin, *self.memory.tools()]
        if self._log.bus.fold.facts.notifications:
            tools.append(NotificationInboxTool(self.signals.inbox, self.signals.show))
        return tools

    async def before_step(self, context: StepContext) -> Sequence[Turn] | None:
        """Before the loop asks the model: add state signals, and return the turns that the memory chose."""
        self._send_states(context)
        turns_chosen = await self.memory.before_step(context)
        if self.guards.has_before_model:
            turns_chosen = await self.guards.before_model(context) or turns_chosen
        self._shown_turns = None if turns_chosen is None else (tuple(turns_chosen), len(context.entries))
        return turns_chosen

    def shown_to_forks(self) -> Callable[[StepContext], Awaitable[Sequence[Turn]]] | None:
        """Shows a fork the same turns that the current run was shown, and what came after them."""
        if self._shown_turns is None:
            return None
        turns, known_count = self._shown_turns

        async def show(context: StepContext) -> Sequence[Turn]:
            return [*turns, *(entry.turn for entry in context.entries[known_count:])]

        return show

    async def after_answer(self, answer: str) -> Signal | str | Error | None:
        """Called before the loop ends with this answer; a returned reminder makes it continue, an error fail."""
        text = await self.goals.after_answer(answer)
        objective = self.goals.get()
        if text is None or objective is None:
            return await self._check_output(answer)
        return create(
            "reactive",
            text,
            id=self._settings.harness.new_id(),
            attributes={"type": "goal-judge"},
            metadata={
                "goalMaxTurns": self.goals.max_runs(objective),
                **({"judgeModelId": objective.judge_model_id} if objective.judge_model_id else {}),
            },
        )

    async def _check_output(self, answer: str) -> str | Error | None:
        """Whether the answer is what was asked for; else what the model is told, or why the run fails."""
        output = self._runs.output
        if output is None or output.has_value or not (problem := await output.take(answer)):
            return None
        return Error(message=output.words, code=INVALID) if output.is_exhausted else output.again(problem)

    async def plan_approved(
        self, relay: Relay, reply: RelayReply, context: RequestContext | None = None
    ) -> None:
        """End the run that made the plan, switch to the mode that follows, and send the queue there."""
        mode, driver = self._settings.mode.resolve(), self._drivers.current
        ending = RunRequest(lambda: driver.resume({relay.id: reply}, ends=True))
        self._runs.begin(ending, context, holds_queue=True)
        await self._runs.wait_until_idle()
        target = self._settings.harness.plan_target(mode)
        if target.id != mode.id:
            await self._settings.mode.switch(mode_id=target.id)
        await self._runs.drain()

    def notice(self, event: Event) -> None:
        """Called with every logged event."""
        if type(event) in _NOTED:
            self._take(event)
        self.memory.feed(event)
        pubsub = self._settings.harness.pubsub
        if pubsub is not None and (thread_id := self._threads.get_id()):
            pubsub.publish(f"{self._settings.harness.id}/{thread_id}", encode(event))

    def _take(self, event: Event) -> None:
        run = self._log.bus.fold.tree.feed(event)
        if isinstance(event, SessionStart) and not run.depth:
            self._begin_span(event.run_id, event.agent, event.model)
        elif isinstance(event, Resumed) and (self._span is None or self._span[0] != event.run_id):
            self._begin_span(event.run_id, self._log.bus.fold.facts.last_agent, self._settings.model.get())
        elif isinstance(event, Result):
            self._end_span(event.run_id, event.outcome, event.usage)
            if not run.depth:
                self.guards.on_end(outcome_of(event, event.run_id))
        elif isinstance(event, Message) and event.role == "assistant":
            if not run.depth:
                self.guards.after_model(event.text)
        elif (text := user_text(event)) and event.run_id == self._log.bus.fold.facts.open_run:
            self.last_message = text
            self.first_message = self.first_message or text[:500]

    async def load_memory_progress(self) -> None:
        """Emit how full the memory of the thread is."""
        await self.memory.prepare()
        memory = self.memory.memory
        if memory is not None:
            conversation = self._drivers.conversation
            entries = conversation.entries if conversation is not None else None
            self._log.append(memory.load_progress(entries))

    def use_another_thread(self) -> None:
        self._leave_span()
        self.first_message = ""
        self.last_message = ""
        self._seen_signals = _Seen()

    async def close(self) -> None:
        self._leave_span()
        await self.guards.close()
        await self.memory.close()

    def _make_tools(self) -> list[Tool]:
        harness, host = self._settings.harness, self.host
        tools: list[Tool] = [AskUserTool(), SubmitPlanTool(), *task_tools(host)]
        if harness.definitions:
            tools.append(SubagentTool(host, list(harness.definitions.values())))
        return [tool for tool in tools if tool.spec.name not in harness.disabled_tools]

    def _send_states(self, context: StepContext) -> None:
        conversation = self._drivers.conversation
        if conversation is None:
            return
        self._seen_signals.take(context.entries)
        facts, objective = self._log.bus.fold.facts, self.goals.get()
        for signal in state_signals(
            facts.lanes,
            facts.tasks if self.shows_tasks else (),
            objective,
            max_runs=self.goals.max_runs(objective) if objective is not None else 0,
            is_visible=self._is_seen,
            new_id=self._settings.harness.new_id,
        ):
            conversation.add(signal, at_once=True)
        self._log.bus.deliver()
        self._seen_signals.take(context.entries)

    def is_visible(self, signal_id: str) -> bool:
        """Whether the model sees a logged signal; one that no step has shown yet counts as seen."""
        conversation = self._drivers.conversation
        if conversation is None:
            return True  # an agent program has its own history
        self._seen_signals.take(conversation.entries)
        return signal_id not in self._seen_signals.created_ms or self._is_seen(signal_id)

    def _is_seen(self, signal_id: str) -> bool:
        """Whether the model still sees that signal; what the memory has observed is not shown again."""
        created_ms = self._seen_signals.created_ms.get(signal_id)
        if created_ms is None:
            return False
        memory = self.memory.memory
        return memory is None or created_ms > (memory.record().last_observed_at or 0)

    def _begin_span(self, run_id: str, agent: str, model: str) -> None:
        if self._settings.harness.observability is None:
            return
        self._leave_span()
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.request.model": model or None,
            "gen_ai.conversation.id": self._threads.get_id(),
            "harness.run.id": run_id,
        }
        context = self._runs.context.get("tracingContext")
        span = self._settings.harness.observability.start_span(
            f"invoke_agent {agent}", attributes=attributes, context=context
        )
        self._span, self.trace_id = (run_id, span), span.trace_id

    def _end_span(self, run_id: str, outcome: str, usage: Usage | None = None) -> None:
        if self._span is None or self._span[0] != run_id:
            return
        (_, span), self._span = self._span, None
        span.end(
            attributes={
                "gen_ai.usage.input_tokens": usage.input if usage is not None else None,
                "gen_ai.usage.output_tokens": usage.output if usage is not None else None,
                "harness.outcome": outcome,
            },
            error="" if outcome in ("completed", "suspended") else outcome,
        )

    def _leave_span(self) -> None:
        """End the span of a run that is suspended and will not continue here."""
        if self._span is not None:
            self._end_span(self._span[0], "suspended")


class _Seen:
    """Which signals are among the entries, and when they were created."""

    def __init__(self) -> None:
        self.created_ms: dict[str, int] = {}
        self._count = 0
        self._first = ""

    def take(self, entries: Sequence[TranscriptEntry]) -> None:
        if len(entries) < self._count or (self._count and entries[0].message_id != self._first):
            self.created_ms.clear()  # it was summed up: what is no longer there is not seen
            self._count = 0
        self._first = entries[0].message_id if entries else ""
        for entry in entries[self._count :]:
            self.created_ms[entry.message_id] = entry.created_ms
        self._count = len(entries)
