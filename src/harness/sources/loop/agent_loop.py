"""One run of an agent: ask the model, carry out what it asks for, tell it what came of it, until it is done.

Rules
1. The log tells everything: a step for each model call, what the model said, each call from its
   permission to its end, and one `Result`, last. Whatever happens, everything opened is closed.
2. Nothing is looked for in the past: each step costs what it adds, however long the run is.
3. Cancelling the task that runs `run` stops it at once, wherever it is: the model's stream is closed,
   calls and sub-agents are cancelled with it. What does not listen is left behind after a while.
4. A run that is part of a conversation may be suspended: it lets go of everything, and another `AgentRun` of
   the same id goes on with it, with one `Result` in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Signal,
    Suspended,
    Warning,
)
from harness.sources.loop.cancellation import GRACE_S, stoppable
from harness.sources.loop.compactor import Compactor, is_refusal, last_refusal, refusal_as_warning
from harness.sources.loop.inbox import Inbox, UserMessage, not_taken
from harness.sources.loop.loop_context import LoopContext
from harness.sources.loop.model_calls import ModelStep, ModelSteps
from harness.sources.loop.options import AgentOptions
from harness.sources.loop.subagent import spawn
from harness.sources.loop.suspended_run import Resumption, SuspendedRun
from harness.sources.loop.tool_calls import ToolExecutor
from harness.sources.loop.transcript import LoopTranscript
from harness.sources.loop.turns import StepContext, turn_of, user_message
from harness.sources.model import AssistantTurn, Attachment, Call, ToolSpec, Turn, UserTurn
from harness.sources.models.turn_cache import ids_in
from harness.sources.tool import Tool
from harness.sources.translation.outcome import LIMITS

SUMMARISE = (
    "The limit of model calls for this task is reached, and no more tools can be used. Sum up what was done, "
    "what was found out, and what is left to do."
)

_Ending: TypeAlias = Outcome | None
"""How the run ended; None when it waits."""
_ADDRESSED = frozenset(("user", "notification"))
"""Signals that want an answer: the run goes on when it would have ended."""


class AgentRun:
    def __init__(
        self,
        host: LoopContext,
        options: AgentOptions,
        *,
        run_id: str = "",
        parent_id: str = "",
        depth: int = 0,
        name: str = "",
        session_id: str = "",
        inbox: Inbox | None = None,
        turns: Sequence[Turn] = (),
        transcript: LoopTranscript | None = None,
    ) -> None:
        """`turns`: what was said before, without the system prompt; `transcript`: the same, to be continued."""
        self.host = host
        self.options = options
        self.run_id = run_id or host.new_id()
        self.depth = depth
        self.inbox = inbox or Inbox()
        self.result: Result | None = None
        """As it was put into the log, when the run has ended."""
        self.pending: SuspendedRun | None = None
        """What is left of the run when it waits."""
        self.has_begun = False
        """Whether the log says so already."""
        self._parent_id, self._name, self._session_id = parent_id, name, session_id
        self._channel = host.channel(self.run_id)
        self._put: Callable[[Event], bool] = partial(host.outbox.put, self._channel)
        self._is_lasting = transcript is not None
        """Whether this is a part of a conversation that goes on after it."""
        self._transcript = transcript or _transcript_of(turns, options)
        self._transcript.instruct(options.system_prompt)
        if self._transcript.is_recorded:
            self._channel.on_stamped = self._transcript.note
        self._calls = ToolExecutor(
            host,
            options,
            self._channel,
            partial(spawn, self),
            can_suspend=transcript is not None and not parent_id,
            depth=depth,
            asker=(name or "sub-agent", parent_id) if parent_id else ("", ""),
        )
        self._steps = ModelSteps(host, options, self.run_id, self._put, self._transcript)
        self._compactor = Compactor(host, options, self._steps, self._transcript, self._put)
        self._offered: Sequence[Tool] | None = None
        self._specs: list[ToolSpec] = []
        self._offer()
        self._started_ms, self._spent_before_usd = host.hub.clock(), host.spent_usd

    @property
    def failure(self) -> str:
        """The last error of the model."""
        return self._steps.failure

    def child(self, call_id: str, name: str) -> AgentRun:
        """A sub-agent for the call of that id."""
        options = self.options
        if options.before_step or options.after_answer or options.stop_when:
            options = replace(options, before_step=None, after_answer=None, stop_when=None)
        child = AgentRun(self.host, options, parent_id=call_id, depth=self.depth + 1, name=name)
        child._spent_before_usd = self._spent_before_usd
        return child

    async def run(self, prompt: str, attachments: tuple[Attachment, ...] = ()) -> Result:
        """Answer the prompt. Cancelled, it still closes everything before it lets the cancellation pass."""
        ended = await self.begin(UserMessage(prompt, attachments))
        assert isinstance(ended, Result), "only a run of a conversation is suspended"
        return ended

    async def begin(self, said: UserMessage | Signal) -> Result | Suspended:
        """The same for a run that may be suspended, and may be begun by a signal."""
        return await self._go(self._rounds, partial(self._announce, said))

    def leave(self) -> bool:
        """Wait in the log alone, if it does nothing but wait for a permission."""
        return self._calls.leave()

    async def resume(self, pending: SuspendedRun, replies: Mapping[str, RelayReply]) -> Result | Suspended:
        """Go on with a run that waits; `replies` are by relay id."""
        self._started_ms = pending.started_ms
        self._steps.count, self._steps.used = pending.steps, pending.used
        self._steps.text = pending.text
        self._spent_before_usd -= pending.used.cost_usd or 0.0
        self._calls.take_over(pending)
        resumption = Resumption(pending, replies)
        return await self._go(
            partial(self._resumed, resumption), partial(self._announce_again, pending, replies)
        )

    def add(self, event: Signal | Message, *, at_once: bool = False) -> None:
        """Put it into the log; the model sees it with its next step. `at_once`: it is an entry when this returns,
        unless calls or an answer go on, which it must not tear apart.
        """
        wants_answer = event.category in _ADDRESSED if isinstance(event, Signal) else event.role == "user"
        self._transcript.add(turn_of(event), wants_answer=wants_answer)
        self._put(event)
        if at_once:
            self.host.outbox.flush()

    def _announce(self, said: UserMessage | Signal) -> None:
        options = self.options
        self._put(
            SessionStart(
                agent=options.agent,
                model=options.model.name,
                cwd=self.host.cwd,
                version=options.version,
                name=self._name,
                parent_id=self._parent_id,
                session_id=self._session_id,
            )
        )
        for earlier in self.inbox.untaken:
            self._say(earlier)
        if isinstance(said, Signal):
            self._transcript.say(turn_of(said))
            self._put(said)
        else:
            self._say(said)
        self._open_inbox()

    def _announce_again(self, pending: SuspendedRun, replies: Mapping[str, RelayReply]) -> None:
        if not pending.is_suspended:
            self._put(Suspended())
        for relay_id, reply in replies.items():
            self._put(replace(reply, id=relay_id))
        self._put(Resumed())
        self._open_inbox(self.inbox.untaken)

    def _open_inbox(self, restored: Sequence[UserMessage] = ()) -> None:
        self.host.outbox.flush()  # what is accepted from now on comes after that
        self.inbox.open(partial(self.host.outbox.append_said, self.run_id), restored)

    async def _go(
        self, goes_on: Callable[[], Coroutine[Any, Any, _Ending]], announce: Callable[[], None]
    ) -> Result | Suspended:
        async def body() -> _Ending:
            self.has_begun = True
            announce()
            try:
                return await goes_on()
            finally:
                await self._calls.resources.close()

        ending: _Ending = "failed"
        try:
            ending = await stoppable(self.host, body(), self._grace_s)
        except asyncio.CancelledError:
            ending = self.host.stopped or "interrupted"
            raise
        except Exception as error:
            self._put(Error(message=f"the loop broke: {error!r}", code="internal_error"))
            raise
        finally:
            self._calls.resources.kill()  # also when what was stopped has not ended
            if not self.has_begun:  # it was stopped before it began, and still says what it was
                announce()
            last = self._suspend() if ending is None else self._finish(ending)
        return last

    def _grace_s(self) -> float:
        """Calls that are stopped are waited for by themselves, so that what waits for them needs more."""
        grace_s = GRACE_S / (1 + self.depth)
        return grace_s if not self._calls.open_ids else 2 * grace_s

    async def _resumed(self, resumption: Resumption) -> _Ending:
        if not await self._carry_out(resumption.pending.calls, resumption):
            return None
        return "completed" if self._is_enough() else await self._rounds()

    async def _rounds(self) -> _Ending:
        """One step after the other; one more than allowed, to sum up, when the model was not done by then."""
        while True:
            for said in self.inbox.take():
                self._say(said)
            if self._is_budget_spent():
                return "limit_exceeded"
            is_last = self._steps.count >= self.options.max_iterations
            if is_last:
                self._tell_limit()
            step = await self._ask(() if is_last else self._offer())
            if step.message is None:
                return "failed"
            self._take_answer(step, step.message)
            if is_last:
                return "limit_exceeded"
            if step.calls:
                if not await self._carry_out(step.calls):
                    return None
                if self._is_enough():
                    return "completed"
            elif not await self._goes_on(step.message.text):
                if not self._steps.is_cut_short:
                    return "completed"
                self._steps.fail_cut_short()
                return "failed"
            elif self._steps.is_cut_short:
                self._steps.warn_cut_short()

    def _offer(self) -> list[ToolSpec]:
        """What the model may call from now on."""
        more = self.options.more_tools() if self.options.more_tools is not None else ()
        if more is not self._offered:
            self._offered = more
            own = {tool.spec.name for tool in self.options.tools}
            tools = (*self.options.tools, *(tool for tool in more if tool.spec.name not in own))
            self._calls.offer(tools)
            self._specs = [tool.spec for tool in tools]
        return self._specs

    def _is_enough(self) -> bool:
        """Whether somebody wants the run to end when its calls are done."""
        return self.options.stop_when is not None and self.options.stop_when(self._context())

    async def _carry_out(self, calls: Sequence[Call], resumption: Resumption | None = None) -> bool:
        """False when the run has to wait for an answer."""
        turns = await self._calls.carry_out(calls, resumption)
        if turns is None:
            return False
        self._transcript.results(turns)
        return True

    async def _goes_on(self, answer: str) -> bool:
        """Whether there is something to do after an answer that asks for nothing."""
        transcript, after_answer = self._transcript, self.options.after_answer
        if transcript.is_addressed() or self.inbox.has_steering:
            return True
        if after_answer is not None and (reminder := await after_answer(answer)):
            self._remind(reminder)
            return True
        if transcript.is_addressed():
            return True
        last = self.inbox.take_last()
        for said in last:
            self._say(said)
        return bool(last)

    async def _ask(self, tools: Sequence[ToolSpec]) -> ModelStep:
        """One model call."""
        turns: Sequence[Turn] = self._transcript.turns
        self._check_stopped()
        if self.options.before_step is not None:
            known = len(turns)
            chosen = await self.options.before_step(self._context())
            self._check_stopped()
            if chosen is not None:
                seen = {id(turn) for turn in chosen}
                new = [turn for turn in turns[known:] if id(turn) not in seen]
                turns = [*self._transcript.prompt, *chosen, *new]
            return await self._steps.ask(turns, tools)
        return await self._ask_within_window(tools)

    async def _ask_within_window(self, tools: Sequence[ToolSpec]) -> ModelStep:
        """One model call with all that was said, or with less of it when that is too long; in that case two."""
        steps, compactor, turns = self._steps, self._compactor, self._transcript.turns
        await compactor.make_room(tools)
        sent = len(turns)
        step = await steps.ask(turns, tools, refusal_as_warning)
        refusal = step.error
        if refusal is not None and is_refusal(refusal):
            self._check_stopped()
            if not await compactor.make_room_after(refusal, tools):
                steps.fail(last_refusal(refusal, self.options.model.name))
                return step
            sent = len(turns)
            step = await steps.ask(turns, tools, partial(last_refusal, model=self.options.model.name))
        compactor.measure(step, sent)
        return step

    def _check_stopped(self) -> None:
        task = asyncio.current_task()
        if self.host.stopped is not None or (task is not None and task.cancelling()):
            # It was stopped before it began, or something in between did not let the cancellation pass.
            raise asyncio.CancelledError

    def _context(self) -> StepContext:
        self.host.outbox.flush()  # only what is in the log has its place
        return StepContext(self._transcript.entries, self._steps.count, self.run_id, self.options.model)

    def _say(self, said: UserMessage) -> None:
        """Words of the user."""
        turn = UserTurn(said.text, said.attachments)
        self._transcript.say(turn)
        self._put(user_message(turn, said.message_id))

    def _remind(self, reminder: str | Signal) -> None:
        """Words that nobody said."""
        event = reminder if isinstance(reminder, Signal) else Message(role="system", text=reminder)
        self._transcript.say(turn_of(event))
        self._put(event)

    def _tell_limit(self) -> None:
        limit = LIMITS["turns"]
        self._put(Warning(message=limit.message.format(self.options.max_iterations), code=limit.code))
        self._remind(SUMMARISE)

    def _is_budget_spent(self) -> bool:
        budget_usd = self.options.max_budget_usd
        if budget_usd is None or self.host.spent_usd - self._spent_before_usd < budget_usd:
            return False
        limit = LIMITS["budget"]
        self._put(Error(message=limit.message.format(f"${budget_usd:g}"), code=limit.code))
        return True

    def _suspend(self) -> Suspended:
        """Let go of everything, and keep what is needed to go on."""
        self._take_leavings()
        relay = self._calls.relay
        assert relay is not None, "a run that waits has asked"
        self._put(relay)
        self.host.outbox.flush()
        asked = self.host.outbox.last
        self._put(Suspended())
        self._channel.close()
        told = self._transcript.pause(self._calls.ended)
        own = f"{self.run_id}/"
        begun = frozenset(call_id.removeprefix(own) for call_id in self._calls.open_ids)
        self.pending = SuspendedRun(
            run_id=self.run_id,
            relays=(asked if isinstance(asked, Relay) and asked.id == relay.id else relay,),
            calls=told.calls,
            message_id=told.message_id,
            results=told.results,
            begun=begun,
            answers={id: replies for id, replies in self._calls.answered.items() if id in begun},
            additions=told.additions,
            steps=self._steps.count,
            used=self._steps.used,
            text=self._steps.text,
            started_ms=self._started_ms,
        )
        return Suspended()

    def _finish(self, outcome: Outcome) -> Result:
        """Close whatever is open, and say how it ended."""
        self._calls.close()
        self._take_last_answer()
        self._steps.end("cancelled")
        self._transcript.close_calls(self._calls.ended)
        self._take_leavings()
        used = self._steps.used
        result = self.result = Result(
            success=outcome == "completed",
            outcome=outcome,
            text=self._steps.text,
            duration_ms=max(0, self.host.hub.clock() - self._started_ms),
            total_cost_usd=used.cost_usd,
            usage=used if used else None,
            stop_reason=self._steps.stop_reason if outcome == "completed" or self._steps.is_cut_short else "",
            turns=self._steps.count,
        )
        self._put(result)
        self._channel.close()
        self._transcript.take_additions()
        return result

    def _take_answer(self, step: ModelStep, message: Message) -> None:
        turn = AssistantTurn(message.text, step.calls, message.opaque)
        self._transcript.answer(turn, step.place, self.run_id)

    def _take_last_answer(self) -> None:
        """The run was stopped when an answer was whole, but before anything came of it: it is in the log, and counts."""
        step = self._steps.current
        if step is not None and step.message is not None and step.error is None:
            self._take_answer(step, step.message)

    def _take_leavings(self) -> None:
        """What was said to a run that heard it no more: in a conversation the next run sees it."""
        left = self.inbox.close()
        if self._is_lasting:
            for said in left:
                self.add(user_message(UserTurn(said.text, said.attachments), said.message_id))
        elif left:
            self._put(not_taken(left))


def _transcript_of(turns: Sequence[Turn], options: AgentOptions) -> LoopTranscript:
    transcript = LoopTranscript(is_recorded=options.before_step is not None or options.stop_when is not None)
    transcript.turns += turns
    transcript.call_ids |= ids_in(turns)
    return transcript
