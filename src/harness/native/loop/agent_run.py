"""One run of an agent, from its start in the log to its `Result`: everything around the loop itself.

    new ── begin ──▶ RUNNING ── the loop ended ──▶ ENDED (Result)
                      ▲   │ ├── cancelled ───────▶ ENDED (Result: interrupted, or what `LoopContext.stopped` says)
                      │   │ └── an error of ours ▶ ENDED (Error, Result: failed)
             resume ──┘   └──── a call waits ────▶ SUSPENDED (Relay, Suspended)

Rules
1. The log has everything: a step for each model call, what the model answered, each call from its permission to its
   end, and one `Result`, last. However the run ends, everything that was opened is closed.
2. Cancelling the task of `run` stops it at once: the model's stream is closed, calls and sub-agents are cancelled.
   What ignores its cancellation is left behind after a grace period.
3. A run of a conversation may be suspended: it releases everything, and another `AgentRun` of the same id
   continues it, in this process or in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from harness.contracts.model import Attachment, SystemTurn, Turn
from harness.contracts.subagent import SubagentWish
from harness.contracts.tool import ToolFailure
from harness.conversation.inbox import Inbox, InboxMessage
from harness.conversation.suspended_run import Resumption, SuspendedRun
from harness.events import (
    Error,
    Message,
    Outcome,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Signal,
    Suspended,
)
from harness.native.loop.agent_loop import AgentLoop, LoopEnding
from harness.native.loop.cancellation import GRACE_S, stoppable
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.resources import Resources
from harness.native.loop.run_recorder import RunRecorder
from harness.native.loop.subagent import ended, options_of
from harness.native.loop.tool_calls import ToolExecutor
from harness.native.loop.transcript import KnownTalk, LoopTranscript
from harness.native.tools.bash_output import BackgroundCommands
from harness.native.tools.kept_shell import KeptShell


class AgentRun:
    def __init__(
        self,
        context: LoopContext,
        options: AgentOptions,
        *,
        run_id: str = "",
        parent_id: str = "",
        depth: int = 0,
        name: str = "",
        session_id: str = "",
        inbox: Inbox | None = None,
        turns: Sequence[Turn] = (),
        before: KnownTalk | None = None,
        transcript: LoopTranscript | None = None,
        resources: Resources | None = None,
    ) -> None:
        """`turns`: the history, without the system prompt, and `before`, what else is known of it; `transcript`: that of
        a conversation, to be continued, and `resources`, what its calls left to later ones.
        """
        self.context = context
        self.options = options
        self.run_id: str = run_id or context.new_id()
        self.depth = depth
        self.inbox: Inbox = inbox or Inbox()
        self.result: Result | None = None
        """When the run has ended."""
        self.pending: SuspendedRun | None = None
        """When the run is suspended."""
        self.has_begun = False
        """Whether the log has its start."""
        self._parent_id, self._name, self._session_id = parent_id, name, session_id
        self._is_in_conversation = transcript is not None
        self._transcript = transcript or LoopTranscript.of_turns(
            turns, is_recorded=options.wants_entries, before=before
        )
        lasting = self._transcript.lasting_prompt
        self._transcript.instruct(options.prompt(lasting))
        self._is_new_prompt = not lasting and bool(options.lasting_prompt)
        self._recorder = RunRecorder(context, self.run_id, self._transcript)
        self._tools = self._executor(resources)
        self._tools.tasks = self._transcript.tasks
        self._loop = AgentLoop(
            context,
            options,
            inbox=self.inbox,
            transcript=self._transcript,
            recorder=self._recorder,
            tools=self._tools,
        )
        self._started_ms = context.hub.clock()

    def _executor(self, resources: Resources | None) -> ToolExecutor:
        parent_id = self._parent_id
        return ToolExecutor(
            self.context,
            self.options,
            self._recorder.channel,
            self.spawn,
            can_suspend=self._is_in_conversation and not parent_id,
            depth=self.depth,
            asker=(self._name or "sub-agent", parent_id) if parent_id else ("", ""),
            resources=resources,
            told_paths=self._transcript.told_folders,
        )

    @property
    def failure(self) -> str:
        """The last error of the model."""
        return self._loop.steps.failure

    async def run(self, prompt: str, attachments: tuple[Attachment, ...] = ()) -> Result:
        """Answer the prompt. When it is cancelled, it closes everything before it raises CancelledError."""
        end = await self.begin(InboxMessage(prompt, attachments))
        assert isinstance(end, Result), "only a run of a conversation is suspended"
        return end

    async def begin(self, message: InboxMessage | Signal) -> Result | Suspended:
        """The same for a run that may be suspended, and that a signal may begin."""
        return await self._run(self._loop.run, partial(self._announce, message))

    async def compact(self, focus: str) -> Result | Suspended:
        """Answer nothing, and only sum up the conversation."""
        return await self._run(partial(self._loop.compact, focus), partial(self._announce, None))

    async def resume(self, pending: SuspendedRun, replies: Mapping[str, RelayReply]) -> Result | Suspended:
        """Continue a suspended run; `replies` maps the id of each `Relay` to its answer."""
        self._started_ms = pending.started_ms
        self._loop.steps.restore(pending)
        self._loop.spent_before_usd -= pending.used.cost_usd or 0.0
        self._tools.restore(pending)
        body = partial(self._loop.resume, Resumption(pending, replies))
        return await self._run(body, partial(self._announce_resumed, pending, replies))

    def add(self, event: Signal | Message, *, at_once: bool = False) -> None:
        """Put it into the log; the model sees it with its next step. See `RunRecorder.add_event`."""
        self._recorder.add_event(event, at_once=at_once)

    def leave(self) -> bool:
        """Leave the run suspended in the log, if all it does is wait for a permission."""
        return self._tools.leave()

    async def spawn(self, call_id: str, task: str, name: str = "", wish: SubagentWish | None = None) -> str:
        """Run a sub-agent to its end; its last message. Raises ToolFailure when it has none."""
        most = self.options.max_depth
        if self.depth >= most:
            raise ToolFailure(f"sub-agents may not nest deeper than {most}: do this task yourself")
        child = self.child(call_id, name, wish)
        run = child.run(task)
        result = await ended(self.context, child.run_id, run, if_stopped="the sub-agent was stopped")
        if result.outcome not in ("completed", "limit_exceeded"):
            raise ToolFailure(f"the sub-agent failed: {child.failure or result.outcome}")
        return result.text

    def child(self, call_id: str, name: str, wish: SubagentWish | None = None) -> AgentRun:
        """A sub-agent for the call of that id."""
        options = options_of(self.options, wish, self.context)
        if options.before_step or options.after_answer or options.stop_when or options.schema:
            options = replace(options, before_step=None, after_answer=None, stop_when=None, schema=None)
        child = AgentRun(self.context, options, parent_id=call_id, depth=self.depth + 1, name=name)
        child._loop.spent_before_usd = self._loop.spent_before_usd
        return child

    def _announce(self, message: InboxMessage | Signal | None) -> None:
        options = self.options
        self._recorder.put(
            SessionStart(
                agent=options.agent,
                model=options.model.name,
                cwd=self.context.cwd,
                version=options.version,
                sandbox=self.context.sandbox,
                prompt=options.lasting_prompt if self._is_new_prompt and not self._parent_id else "",
                name=self._name,
                parent_id=self._parent_id,
                session_id=self._session_id,
            )
        )
        self._transcript.lasting_prompt = self._transcript.lasting_prompt or options.lasting_prompt
        if not self._parent_id:
            for told in filter(None, (self._news(), self._lost())):
                self._recorder.add_reminder(told)
        for earlier in self.inbox.untaken:
            self._recorder.add_message(earlier)
        if isinstance(message, Signal):
            self._recorder.add_reminder(message)
        elif message is not None:
            self._recorder.add_message(message)
        self._open_inbox()

    def _news(self) -> str:
        """What the system prompt would say now and does not; empty when the model has been told."""
        kept_prompt, now = self._transcript.lasting_prompt, self.options.lasting_prompt
        if self.options.news is None or not kept_prompt or kept_prompt == now:
            return ""
        text = self.options.news(kept_prompt, now)
        system_texts = (turn.text for turn in self._transcript.turns if isinstance(turn, SystemTurn))
        return "" if text in system_texts else text

    def _lost(self) -> str:
        """What calls of before have left in a process that is gone; the model is told once."""
        resources, left_behind = self._tools.resources, self._transcript.left_behind
        commands = resources.made(BackgroundCommands)
        there = commands.ids if commands is not None else ()
        text = left_behind.words(there, keeps_shell=resources.made(KeptShell) is not None)
        if text:
            left_behind.forget()
        return text

    def _announce_resumed(self, pending: SuspendedRun, replies: Mapping[str, RelayReply]) -> None:
        emit = self._recorder.put
        if not pending.is_suspended:
            emit(Suspended())
        for relay_id, reply in replies.items():
            emit(replace(reply, id=relay_id))
        emit(Resumed())
        if lost := self._lost():
            self._recorder.add_reminder(lost)
        self._open_inbox(self.inbox.untaken)

    def _open_inbox(self, restored: Sequence[InboxMessage] = ()) -> None:
        self.context.outbox.flush()  # what is accepted from now on comes after that
        self.inbox.open(partial(self.context.outbox.append_steering, self.run_id), restored)

    async def _run(
        self, loop: Callable[[], Coroutine[Any, Any, LoopEnding]], announce: Callable[[], None]
    ) -> Result | Suspended:
        async def body() -> LoopEnding:
            self.has_begun = True
            announce()
            try:
                return await loop()
            finally:
                await self._tools.of_run.close()
                if self._tools.owns_resources:
                    await self._tools.resources.close()

        ending: LoopEnding = "failed"
        try:
            ending = await stoppable(self.context, body(), self._grace_s)
        except asyncio.CancelledError:
            ending = self.context.stopped or "interrupted"
            raise
        except Exception as error:
            self._recorder.put(Error(message=f"the loop broke: {error!r}", code="internal_error"))
            raise
        finally:
            self._tools.of_run.kill()  # also when what was stopped has not ended
            if self._tools.owns_resources:
                self._tools.resources.kill()
            if not self.has_begun:  # stopped before it began: the log still has its start
                announce()
            last = self._suspend() if ending == "suspended" else self._finish(ending)
        return last

    def _grace_s(self) -> float:
        """Calls that are stopped have a grace period of their own, within that of the run."""
        grace_s = GRACE_S / (1 + self.depth)
        return grace_s if not self._tools.open_ids else 2 * grace_s

    def _suspend(self) -> Suspended:
        """Release everything, and store what is needed to continue."""
        self._close_inbox()
        relay = self._tools.relay
        assert relay is not None, "a suspended run has asked"
        question = self._recorder.put_now(relay)
        self._recorder.put(Suspended())
        self._recorder.channel.close()
        paused, steps = self._transcript.pause(self._tools.ended), self._loop.steps
        own = f"{self.run_id}/"
        started_ids = frozenset(call_id.removeprefix(own) for call_id in self._tools.open_ids)
        self.pending = SuspendedRun(
            run_id=self.run_id,
            relays=(question if isinstance(question, Relay) and question.id == relay.id else relay,),
            calls=paused.calls,
            message_id=paused.message_id,
            results=paused.results,
            started=started_ids,
            answers={id: replies for id, replies in self._tools.answered.items() if id in started_ids},
            additions=paused.additions,
            steps=steps.count,
            used=steps.used,
            text=steps.text,
            started_ms=self._started_ms,
        )
        return Suspended()

    def _finish(self, outcome: Outcome) -> Result:
        """Close everything that is open, and say how the run ended."""
        steps = self._loop.steps
        self._tools.close()
        steps.end("cancelled")
        self._transcript.close_calls(self._tools.ended)
        self._close_inbox()
        duration_ms = max(0, self.context.hub.clock() - self._started_ms)
        result = self.result = steps.result(outcome, duration_ms)
        self._recorder.put(result)
        self._recorder.channel.close()
        return result

    def _close_inbox(self) -> None:
        self._recorder.close_inbox(self.inbox, has_next_run=self._is_in_conversation)
