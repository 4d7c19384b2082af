"""The agent loop on one page: ask the model, carry out the calls it asks for, give it the results, until it is done.

            ┌────────────────────────────── results ◀──────────────────────────┐
            ▼                                                                  │
        STEER ─▶ budget ─▶ ASK ─▶ answer ─ calls ─▶ permission ─▶ CALL ────────┤
            ▲                │       │                              │          │
            └── more to do ◀─│───────┤ no calls                     │ a call waits for a person
                             ▼       ▼                              ▼          │
                           ENDED   ENDED                        SUSPENDED ─ resumed, in any process

    ENDED is  completed       nothing is left to do, or `stop_when` says that it is enough
              limit_exceeded  the steps or the budget are used up; the last step sums up, without tools
              failed          the model gave no answer, or an incomplete one
    The task of the loop may be cancelled anywhere: `AgentRun` then ends the run as interrupted.

Its parts: `model_calls` (one answer of the model), `tool_calls` (permission and execution), `transcript` (what the
model is sent), `inbox` (steering), `compactor` (long conversations). `agent_run` is around it: start, suspension,
`Result`.

The cost of a step depends only on what it adds, however long the run is: the history is never searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from harness.contracts.model import Call, ToolSpec, Turn
from harness.conversation.inbox import Inbox
from harness.conversation.suspended_run import Resumption
from harness.conversation.turns import StepContext
from harness.events import Error, Outcome, Warning
from harness.native.loop import step_limits
from harness.native.loop.cancellation import check_stopped
from harness.native.loop.compactor import Compactor
from harness.native.loop.loop_context import AgentOptions, BeforeStep, LoopContext
from harness.native.loop.loop_guard import STOPPED_AT
from harness.native.loop.model_calls import ModelStep, ModelSteps
from harness.native.loop.run_recorder import RunRecorder
from harness.native.loop.step_limits import ReachedLimit, StepLimits
from harness.native.loop.tool_calls import ToolExecutor
from harness.native.loop.transcript import LoopTranscript
from harness.native.tools.background_agents import BackgroundAgents
from harness.questions.open_questions import LIMIT_CATEGORY, is_budget_question

SUMMARISE = (
    "The limit of model calls for this task is reached, and no more tools can be used. Sum up what was done, "
    "what was found out, and what is left to do."
)

_NOTHING = "the model ended without a word: ask it again, or choose another model"

_LOOK_S = 0.2
"""How soon a message is noticed while a run waits for its sub-agents."""

LoopEnding: TypeAlias = Outcome | Literal["suspended"]
"""How the loop ended; `suspended`: a person has to answer before it can continue."""


class AgentLoop:
    """The steps of one run. Everything it does is in the log; it holds no state but that of its parts."""

    def __init__(
        self,
        context: LoopContext,
        options: AgentOptions,
        *,
        inbox: Inbox,
        transcript: LoopTranscript,
        recorder: RunRecorder,
        tools: ToolExecutor,
    ) -> None:
        self.steps: ModelSteps = ModelSteps(context, options, recorder, transcript)
        self.spent_before_usd: float = context.spent_usd
        """Of the conversation, before this run began: the budget is for what comes after."""
        self._context = context
        self._options = options
        self._inbox = inbox
        self._transcript = transcript
        self._recorder = recorder
        self._tools = tools
        self._is_refused = False
        """Whether `after_answer` has refused the answer for good."""
        self._limits = StepLimits(options)
        self._compactor = Compactor(
            context,
            options,
            self.steps,
            transcript,
            recorder,
            open_tasks=lambda: tools.tasks,
            running=lambda: tools.resources.running,
        )

    async def run(self) -> LoopEnding:
        """One step after the other, until the model is done."""
        while True:
            self._steer()
            if self._options.gate is not None and (ending := await self._check_budget()) is not None:
                return ending
            is_last = False
            if (limit := self._reached()) is not None:
                if (ending := self._end_at(limit)) is not None:
                    return ending
                is_last = True
                self._ask_for_summary(limit)
            answer = await self._ask(() if is_last else self._tools.offered())
            if answer.message is None:
                return "failed"
            if is_last:
                return "limit_exceeded"
            if answer.calls:
                if not await self._call(answer.calls):
                    return await self._suspended()
                if self._tools.guard.repeated:
                    return self._stop_repeating()
                if self._is_enough():
                    return "completed"
            elif await self._has_more_to_do(answer.message.text):
                self.steps.warn_if_cut_short()
            else:
                has_failed = self.steps.fail_if_cut_short() or self._is_refused
                if not (has_failed or answer.message.text.strip()) and self._options.stops_repeats:
                    self._recorder.put(Warning(message=_NOTHING, code="empty_answer"))
                return "failed" if has_failed else "completed"

    async def resume(self, resumption: Resumption) -> LoopEnding:
        """Continue a suspended run: first the calls of its last step, with the answers to their questions."""
        calls = resumption.pending.calls
        if calls and not await self._call(calls, resumption):
            return await self._suspended()
        if self._is_refused_more(resumption):
            return "limit_exceeded"
        return "completed" if self._is_enough() else await self.run()

    async def compact(self, focus: str) -> LoopEnding:
        """Only sum up what came before the last turns."""
        await self._compactor.compact(self._tools.offered(), focus)
        return "completed"

    def _steer(self) -> None:
        """Messages of the user that came since the last model call."""
        for message in self._inbox.take_steering():
            self._recorder.add_message(message)
        self._tell_of_agents()

    def _tell_of_agents(self) -> None:
        """Of sub-agents in the background that have ended."""
        if (agents := self._tools.of_run.made(BackgroundAgents)) is not None:
            for text in agents.news():
                self._recorder.add_reminder(text)

    async def _wait_for_agents(self, is_enough: Callable[[], bool]) -> bool:
        """Until a sub-agent in the background has ended, or something else is to be done; False when none is at work."""
        agents = self._tools.of_run.made(BackgroundAgents)
        if agents is None or not (agents.running or agents.has_news):
            return False
        while agents.running and not agents.has_news and not is_enough():
            await agents.wait_for_one(_LOOK_S)
        return True

    async def _suspended(self) -> LoopEnding:
        """What works in the background ends with the run: it is waited for, and its answers stay."""
        while await self._wait_for_agents(lambda: False):
            self._tell_of_agents()
        return "suspended"

    async def _ask(self, tools: Sequence[ToolSpec]) -> ModelStep:
        """One model call. Its answer is in the transcript when this returns."""
        check_stopped(self._context)
        before_step = self._options.before_step
        turns_chosen = await self._chosen_turns(before_step) if before_step is not None else None
        if turns_chosen is None:
            return await self._compactor.ask(tools)
        return await self.steps.ask(turns_chosen, tools)

    async def _chosen_turns(self, before_step: BeforeStep) -> Sequence[Turn] | None:
        """What `before_step` chooses of the transcript, and what was added to it meanwhile; None: it chooses nothing."""
        turns = self._transcript.turns
        known_count = len(turns)
        turns_chosen = await before_step(self._step_context())
        check_stopped(self._context)
        if turns_chosen is None:
            return None
        ids = {id(turn) for turn in turns_chosen}
        new = [turn for turn in turns[known_count:] if id(turn) not in ids]
        return [*self._transcript.prompt, *turns_chosen, *new]

    async def _call(self, calls: Sequence[Call], resumption: Resumption | None = None) -> bool:
        """Permission for one call after the other, then all calls at once. False: a person has to answer first."""
        admitted = await self._tools.admit(calls, resumption)
        results = await self._tools.execute(admitted)
        if results is None:
            return False
        self._transcript.add_results(results)
        return True

    async def _has_more_to_do(self, answer: str) -> bool:
        """After an answer without calls: something was added, steering, a reminder, or else the next follow-up."""
        if self._transcript.has_unanswered() or self._inbox.has_steering:
            return True
        if await self._wait_for_agents(lambda: self._inbox.has_steering):
            return True
        after_answer = self._options.after_answer
        if after_answer is not None and (reminder := await after_answer(answer)):
            if isinstance(reminder, Error):
                self._recorder.put(reminder)
                self._is_refused = True
                return False
            self._recorder.add_reminder(reminder)
            return True
        if self._transcript.has_unanswered():
            return True
        last = self._inbox.take_last()
        for message in last:
            self._recorder.add_message(message)
        return bool(last)

    def _stop_repeating(self) -> LoopEnding:
        name = self._tools.guard.repeated
        self.steps.fail(
            Error(
                message=f"the model made the same call of {name} {STOPPED_AT} times, with the same result, although it was told: "
                "say more exactly what is to be done, or choose another model",
                code="repeated_calls",
            )
        )
        return "failed"

    def _is_enough(self) -> bool:
        """Whether the run is to end when the calls of a step are done."""
        stop_when = self._options.stop_when
        return stop_when is not None and stop_when(self._step_context())

    def _step_context(self) -> StepContext:
        self._context.outbox.flush()  # only what is in the log has its place
        entries, model = self._transcript.entries, self._options.model
        return StepContext(entries, self.steps.count, self._recorder.run_id, model)

    def _reached(self) -> ReachedLimit | None:
        spent_usd = self._context.spent_usd - self.spent_before_usd
        return self._limits.reached(self.steps.count, self.steps.used, spent_usd)

    def _end_at(self, limit: ReachedLimit) -> LoopEnding | None:
        """End or suspend the run at one of its own limits; None: it ends with a summary."""
        action = self._limits.action(limit, can_ask=self._tools.can_suspend)
        if action == "summarise":
            return None
        if action == "ask":
            self._tools.relay = step_limits.question(limit, self._context.new_id())
            return "suspended"
        self._recorder.put(Error(message=limit.words, code=limit.limit.code))
        return "limit_exceeded"

    def _ask_for_summary(self, limit: ReachedLimit) -> None:
        self._recorder.put(Warning(message=limit.words, code=limit.limit.code))
        self._recorder.add_reminder(SUMMARISE)

    async def _check_budget(self) -> LoopEnding | None:
        """Whether a limit of `harness budget` ends or suspends the run; None: neither."""
        gate, tools, emit = self._options.gate, self._tools, self._recorder.put
        if gate is None:
            return None
        if not (gate.asks and tools.can_suspend):
            return None if await gate.admits(emit, tools.asker) else "limit_exceeded"
        state = await gate.reached(emit)
        if state is None:
            return None
        tools.relay = gate.question(state)
        return "suspended"

    def _is_refused_own(self, resumption: Resumption) -> bool:
        """Whether the answer at a limit of the run itself ends it; else it gets as much again."""
        limit_questions = [relay for relay in resumption.pending.relays if relay.category == LIMIT_CATEGORY]
        replies = [
            resumption.replies[relay.id] for relay in limit_questions if relay.id in resumption.replies
        ]
        if not replies:
            return False
        if all(map(step_limits.continues, replies)):
            spent_usd = self._context.spent_usd - self.spent_before_usd
            self._limits.extend(self.steps.count, self.steps.used, spent_usd)
            return False
        limit = self._reached()
        if limit is not None:
            self._recorder.put(Error(message=limit.words, code=limit.limit.code))
        return True

    def _is_refused_more(self, resumption: Resumption) -> bool:
        """Whether the answer to a question at a limit ends the run."""
        if self._is_refused_own(resumption):
            return True
        budget_questions = [relay for relay in resumption.pending.relays if is_budget_question(relay)]
        if not budget_questions:
            return False
        from harness.native.loop.loop_gate import continues  # only here: most runs have no limit

        replies, gate = resumption.replies, self._options.gate
        answered = [(relay, replies[relay.id]) for relay in budget_questions if relay.id in replies]
        return not all(continues(relay, reply, gate, self._recorder.put) for relay, reply in answered)
