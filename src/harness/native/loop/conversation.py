"""Runs one after the other on one log; the model sees the whole conversation.

    conversation = AgentConversation(LoopContext(hub, cwd=…, env=…, secrets=…))
    ended = await conversation.send(options, "fix the bug")
    if isinstance(ended, Suspended):
        [relay] = conversation.pending.relays
        ended = await conversation.resume(options, {relay.id: RelayReply(id=relay.id, approved=True, answer="…")})

The log of another process is continued with what `history` reads from it.

Rules
1. One run at a time, in the thread of the event loop. Cancelling `send` or `resume` closes everything; the
   next `send` works, and its model sees a result for every call.
2. A run that waits has its `Result` when it was resumed to its end, or given up: `send` gives it up.
3. What is added while a run is active, or waits, is in the log at once. The model sees it after the results
   of the calls that it had already asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from harness.contracts.model import Attachment
from harness.conversation.inbox import Inbox, InboxMessage
from harness.conversation.suspended_run import SuspendedRun, closing_events, cut_off
from harness.conversation.turns import TranscriptEntry, turn_of
from harness.errors import UsageError
from harness.events import Message, RelayReply, Result, Signal, Suspended
from harness.native.loop.agent_run import AgentRun
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.resources import Resources
from harness.native.loop.transcript import KnownTalk, LoopTranscript
from harness.questions.open_questions import check_reply

GIVEN_UP = "the run was given up"


class AgentConversation:
    def __init__(
        self,
        context: LoopContext,
        entries: Sequence[TranscriptEntry] = (),
        *,
        pending: SuspendedRun | None = None,
        untaken: Sequence[InboxMessage] = (),
        before: KnownTalk | None = None,
        resources: Resources | None = None,
    ) -> None:
        """`entries`, `pending`, `untaken` and `before`: what `history` says of the log. `resources`: what calls leave to
        later ones, for as long as whoever gives them wants; None: for as long as the run.
        """
        self.context = context
        self._resources = resources
        self._transcript = LoopTranscript(entries)
        self._transcript.continues(before or KnownTalk())
        self.entries: list[TranscriptEntry] = self._transcript.entries
        """The conversation without the system prompt; it grows while a run is active."""
        self.pending = pending
        """The run that waits for answers, if there is one."""
        self._untaken = untaken
        self._run: AgentRun | None = None
        if pending is not None:
            self._transcript.restore(pending)

    @property
    def run_id(self) -> str:
        """Of the active run; empty when there is none."""
        return self._run.run_id if self._run is not None else ""

    async def send(
        self,
        options: AgentOptions,
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        message_id: str = "",
        run_id: str = "",
        parent_id: str = "",
        name: str = "",
    ) -> Result | Suspended:
        """Send a message, in a run of its own, until that ends or waits.

        `parent_id`: the call whose sub-agent this is; such a run is no part of the log's own history, and does
        not suspend: its calls wait where they are. Raises UsageError when a run is active.
        """
        self._check_idle()
        self.give_up()
        run = self._open(options, run_id=run_id, parent_id=parent_id, name=name)
        message = InboxMessage(text, tuple(attachments), message_id or self.context.new_id())
        return await self._follow(run, run.begin(message))

    async def wake(self, options: AgentOptions, signal: Signal, *, run_id: str = "") -> Result | Suspended:
        """The same because of a signal. Raises UsageError when a run is active."""
        self._check_idle()
        self.give_up()
        run = self._open(options, run_id=run_id)
        return await self._follow(run, run.begin(signal))

    async def compact(
        self, options: AgentOptions, focus: str = "", *, run_id: str = ""
    ) -> Result | Suspended:
        """Sum up what came before the last turns, in a run of its own; `focus`: what matters most in it.

        Raises UsageError when a run is active, or waits: its calls belong to what would be summed up.
        """
        self._check_idle()
        if self.pending is not None:
            raise UsageError("a run waits for an answer", hint="answer it first, or stop it")
        run = self._open(options, run_id=run_id)
        return await self._follow(run, run.compact(focus))

    async def resume(self, options: AgentOptions, replies: Mapping[str, RelayReply]) -> Result | Suspended:
        """Continue the run that waits. `replies` maps the id of each `Relay` to its answer.

        A permission that was being asked for when its process died may be left unanswered: the run then waits
        for it again. Raises UsageError when none of the answers is waited for (the first one counts), and for
        an answer that does not fit its question.
        """
        self._check_idle()
        pending = self.pending
        relays = pending.relays if pending is not None else ()
        replies_taken = {relay.id: replies[relay.id] for relay in relays if relay.id in replies}
        relays_left = [relay for relay in relays if relay.id not in replies_taken]
        if (
            pending is None
            or (replies and not replies_taken)
            or any(relay.kind != "permission" for relay in relays_left)
        ):
            raise UsageError(
                "nothing waits for this answer (any more)", hint="the open questions are in `pending.relays`"
            )
        for relay in relays:
            if relay.id in replies_taken:
                check_reply(relay, replies_taken[relay.id])
        self.pending = None
        run = self._open(options, run_id=pending.run_id)
        return await self._follow(run, run.resume(pending, replies_taken))

    def give_up(self, reason: str = GIVEN_UP) -> bool:
        """End the run that waits, if there is one: its questions count as refused, its calls as stopped."""
        pending, self.pending = self.pending, None
        if pending is None:
            return False
        channel = self.context.outbox.channel(pending.run_id)
        channel.on_stamped = self._transcript.note
        self._transcript.close_calls(cut_off(pending))
        for event in closing_events(pending, reason, self.context.hub.clock()):
            channel.put(event)
        channel.close()
        return True

    def leave(self) -> bool:
        """Release a run that only waits for a permission. In the log it stays suspended, and can be resumed
        with an answer. False when no run waits like that.
        """
        return self._run is not None and self._run.leave()

    def steer(self, text: str, attachments: Sequence[Attachment] = (), *, message_id: str = "") -> bool:
        """Send a message to the active run; False when none accepts input."""
        if self._run is None:
            return False
        self.context.outbox.flush()  # it is in the log at once, after what came before it
        try:
            self._run.inbox.steer(text, tuple(attachments), message_id or self.context.new_id())
        except UsageError:
            return False
        return True

    def add(self, event: Signal | Message, *, at_once: bool = False) -> None:
        """Put it into the log, and show it to the model with its next step. It starts no run.

        An active run takes it in; one that would have ended continues for a message of a user, and for a
        signal of a user or a notification. What `before_step` adds is seen in the very step that is being
        prepared; `at_once` makes it an entry right away.
        """
        if self._run is not None and self._run.has_begun:
            self._run.add(event, at_once=at_once)
            return
        waiting = self.pending
        channel = self.context.outbox.channel(
            waiting.run_id if waiting is not None else self.context.hub.log_id
        )
        channel.on_stamped = self._transcript.note
        self._transcript.add(turn_of(event))
        channel.put(event)
        channel.close()
        if waiting is not None:
            self.pending = replace(waiting, additions=self._transcript.additions())

    def _check_idle(self) -> None:
        if self._run is not None:
            raise UsageError("a run is active already", hint="steer it, or wait until it has ended")

    def _open(self, options: AgentOptions, **identity: str) -> AgentRun:
        self.context.stopped = None
        inbox, self._untaken = Inbox(self._untaken), ()
        resources = None if identity.get("parent_id") else self._resources
        run = partial(AgentRun, self.context, options, transcript=self._transcript, inbox=inbox)
        return run(resources=resources, **identity)  # type: ignore[arg-type]

    async def _follow(
        self, run: AgentRun, running: Coroutine[Any, Any, Result | Suspended]
    ) -> Result | Suspended:
        self._run = run
        task = asyncio.current_task()
        assert task is not None, "this is a coroutine"
        self.context.runs[run.run_id] = task
        try:
            return await running
        finally:
            self._run = None
            self.context.runs.pop(run.run_id, None)
            self.pending = run.pending
