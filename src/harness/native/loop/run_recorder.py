"""Puts what belongs to the conversation of a run into its log and its transcript in one step: both have one order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from harness.contracts.model import UserTurn
from harness.conversation.inbox import Inbox, InboxMessage, not_taken
from harness.conversation.turns import turn_of, user_message
from harness.events import Event, Message, Signal
from harness.native.loop.loop_context import LoopContext
from harness.native.loop.transcript import LoopTranscript

_ADDRESSED = frozenset(("user", "notification"))
"""Categories of signals that ask for an answer: a run that would have ended makes another step."""


class RunRecorder:
    def __init__(self, context: LoopContext, run_id: str, transcript: LoopTranscript) -> None:
        self.run_id = run_id
        self.channel = context.outbox.channel(run_id)
        self.put: Callable[[Event], bool] = partial(context.outbox.put, self.channel)
        """One event into the log; true when others should have their turn."""
        self._outbox = context.outbox
        self._transcript = transcript
        if transcript.is_recorded:
            self.channel.on_stamped = transcript.note

    def add_message(self, message: InboxMessage) -> None:
        """A message of the user."""
        turn = UserTurn(message.text, message.attachments)
        self._transcript.add(turn)
        self.put(user_message(turn, message.message_id))

    def add_reminder(self, reminder: str | Signal) -> None:
        """A signal, or a text of the system, to which the model is to react."""
        event = reminder if isinstance(reminder, Signal) else Message(role="system", text=reminder)
        self._transcript.add(turn_of(event))
        self.put(event)

    def add_event(self, event: Signal | Message, *, at_once: bool = False) -> None:
        """The model sees it with its next step. `at_once`: it is an entry when this returns, unless a model call or
        tool calls are under way, whose turns must stay together.
        """
        wants_answer = event.category in _ADDRESSED if isinstance(event, Signal) else event.role == "user"
        self._transcript.add(turn_of(event), wants_answer=wants_answer)
        self.put(event)
        if at_once:
            self._outbox.flush()

    def put_now(self, event: Event) -> Event | None:
        """Put it into the log before this returns; the last event as the log has it."""
        self.put(event)
        self._outbox.flush()
        return self._outbox.last

    def close_inbox(self, inbox: Inbox, *, has_next_run: bool) -> None:
        """Messages that the run did not take: the next run of the conversation sees them, if there is one."""
        messages_left = inbox.close()
        if has_next_run:
            for message in messages_left:
                turn = UserTurn(message.text, message.attachments)
                self.add_event(user_message(turn, message.message_id))
        elif messages_left:
            self.put(not_taken(messages_left))
