"""A conversation in the terminal: shows events, asks questions, and carries out what is typed.

     what is typed                                nothing runs       a run is in progress    a question waits
text, at a terminal                               prompt             steers it, or queued    answers it
text, from a pipe                                 prompt             waits for its end       answers it
Ctrl-C                                            how to leave       stops the turn          stops the turn
the input ends                                    leaves             waits, then leaves      refuses, then leaves
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from harness.cli.chat.link import ChatLink
from harness.cli.chat.terminal import ChatTerminal
from harness.clients.commands import Attached, Cancel, Command, Steer, Submit
from harness.clients.conversations.backend import ConversationStatus
from harness.clients.conversations.log_tail import LogTail
from harness.clients.inbox.typed_answers import Asking, answering_command, is_yes_or_no
from harness.errors import HarnessError, StoreError, UnknownSession
from harness.events import (
    Event,
    Message,
    ModeChanged,
    ModelChanged,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    SteeringQueued,
    ThreadCreated,
)
from harness.folds.page_state.shapes import relay as shape_of
from harness.formatting.escapes import single_line
from harness.log.run_tree import RunTree
from harness.native.additions.commands import CustomCommand
from harness.stage import View, feed_all
from harness.views.usage import UsageFold

if TYPE_CHECKING:
    from harness.session.mcp_servers import McpStatus

PROMPT, ANSWER = "❯ ", "? "
_SETTLED_S = 0.05
"""How long a question waits before it is shown: rules answer at once what they can answer."""
_LEAVES_AT = 3
"""So many Ctrl-C in one turn end the chat."""
_CLOSED = "the input has ended"


def is_file(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "file"


class ChatState(msgspec.Struct):
    """What is shown of a conversation. Empty: not known."""

    agent: str
    """Its display name."""
    folder: str
    model: str = ""
    mode: str = "build"
    permissions: str = ""


class Actions(Protocol):
    """What differs between an own conversation and an attached one. Both raise HarnessError."""

    def resolve_model(self, name: str) -> str:
        """The model that a name or alias means."""
        ...

    def resume(self, conversation: TerminalConversation, session: str) -> None:
        """Continue another session; without one, list the latest."""
        ...

    def rewind(self, conversation: TerminalConversation, turn: str) -> None:
        """Continue from before a turn; without one, list them."""
        ...

    def begin_anew(self, conversation: TerminalConversation) -> None:
        """Leave the session: what is typed next begins another one."""
        ...

    def undo_compaction(self, conversation: TerminalConversation) -> None:
        """Continue from before the conversation was last summed up."""
        ...

    def mcp_servers(self, conversation: TerminalConversation) -> Mapping[str, McpStatus]:
        """Those whose tools the built-in agent has, by name."""
        ...

    def commands(self) -> Mapping[str, CustomCommand]:
        """The user's own, by name, without the slash."""
        ...


class TerminalConversation:
    """Contract: `run` is called once, in the main thread. `interrupt` may be called by a signal."""

    def __init__(
        self,
        link: ChatLink,
        terminal: ChatTerminal,
        view: View,
        state: ChatState,
        actions: Actions,
        *,
        is_read_only: bool = False,
        first: str = "",
        attached: Sequence[Attached] = (),
    ) -> None:
        """`is_read_only`: until the run has ended, without asking or reading anything. `first`: as if it was typed,
        though nobody sees it yet. `attached`: files beside the next prompt.
        """
        self.link = link
        self.terminal = terminal
        self.state = state
        self.actions = actions
        self._runs = RunTree()
        self.usage = UsageFold(self._runs)
        self.last: Result | None = None
        """The latest result of the agent itself."""
        self.has_left = False
        self.attached = list(attached)
        """Files that go with the next prompt."""
        self.shown_undo = ("", "", "")
        """Which turn `/undo` has shown, the digest of its plan, and the session that it is of."""
        self._view = view
        self._is_read_only = is_read_only
        self._tail: LogTail | None = None
        self._status = ConversationStatus(can_submit=True)
        self._waiting: dict[str, tuple[Relay, float]] = {}
        self._asking: Asking | None = None
        self._shown_ids: set[str] = set()
        """The questions that were asked here."""
        self._answered: set[str] = set()
        """Those of them that were answered here."""
        self._has_lost_question = False
        """Whether the latest question was answered elsewhere before anything was typed."""
        self._typed: list[str] = []
        """What the view need not repeat."""
        self._steered: list[str] = []
        """Those of them that were typed in the middle of a turn: where it does not take them, they are sent later."""
        self._notes: list[str] = []
        """To be said after what the view shows of the same events."""
        self._lines: list[str | None] = [first] if first else []
        """Typed, and not done yet."""
        self._has_unseen_line = bool(first)
        self._interrupts = self._handled = self._stops = 0

    def interrupt(self) -> None:
        self._interrupts += 1
        self.terminal.wake()

    def leave(self) -> None:
        self.has_left = True

    def follow(self, cursor: int = 0) -> None:
        """Show the session of the link, from this place of its log on."""
        self.unfollow()
        self._tail = self.link.tail(cursor)

    def unfollow(self) -> None:
        """Until there is another session."""
        if self._tail is not None:
            self._tail.close()
        self._tail, self._waiting, self._asking = None, {}, None

    def run(self, carry_out: Callable[[TerminalConversation, str], None]) -> None:
        """`carry_out`: does what a slash command says, or raises HarnessError."""
        while not self.has_left:
            is_open, self._status = self.link.is_open, self.link.status()
            is_done = self._show()
            if is_done and (not is_open or (self._is_read_only and not self.is_running)):
                break
            self._handle_interrupts()
            self._ask()
            if self._lines and self._is_ready_for(self._lines[0]):
                self._do(self._lines.pop(0), carry_out)
                continue
            if not self._lines:
                self.terminal.prompt(self._wanted_prompt())
            reads = not self._lines and not self._is_read_only
            if self.terminal.wait(0 if not is_done else self._pause_s(), reads=reads):
                self._handle_interrupts()  # they came before what is read now
                self._lines += self.terminal.read()
                if None in self._lines and self.terminal.is_interactive and self.is_running:
                    self.terminal.say("· leaves after this turn; Ctrl-C stops it")
        if self._tail is not None:
            self._tail.close()

    # What comes

    def _show(self) -> bool:
        """What is new in the log. False: there is more."""
        if self._tail is None:
            if not self.link.log_id:
                return True
            self.follow()
        assert self._tail is not None
        self._tail.refresh()
        try:
            events = self._tail.poll()
        except (StoreError, UnknownSession) as error:
            self.terminal.say(error.words)
            self.leave()
            return True
        if events:
            self.terminal.write(feed_all(self._view, self._noted(events)))
            notes, self._notes = self._notes, []
            for note in notes:
                self.terminal.say(note)
        return not events

    def _noted(self, events: Sequence[Event]) -> list[Event]:
        """Take note of them; returns what the view is to show."""
        rest: list[Event] = []
        for event in events:
            self.usage.feed(event)
            if not isinstance(event, RelayReply):
                for unanswered in self._runs.relays:  # it ended with its run
                    self._waiting.pop(unanswered.id, None)
            match event:
                case Relay() if not self._is_read_only:
                    self._waiting[event.id] = (event, time.monotonic())
                    continue
                case RelayReply():
                    relay, _ = self._waiting.pop(event.id, (None, 0.0))
                    if relay is not None and event.id not in self._shown_ids:
                        rest.append(relay)  # a rule, or another person, answered it
                    if self._asking is not None and self._asking.id == event.id:
                        self._has_lost_question = event.id not in self._answered
                        self._asking = None
                        self.terminal.prompt("")
                case Message(role="user") if event.text in self._typed:
                    self._typed.remove(event.text)
                    self._say_files(event)
                    continue
                case Message(role="user") if not self._runs.run.depth:
                    self._typed.clear()  # what was typed is answered later, below something else
                case Result():
                    self.last = event
                    self._stops = 0
                    if not self._runs.run.depth:
                        self._repeat_untaken()
                case ThreadCreated() | SteeringQueued():
                    continue
                case ModeChanged():
                    self.state.mode = event.mode_id
                case ModelChanged():
                    self.state.model = event.model_id
                case SessionStart(model=model) if model and not self._runs.run.depth:
                    self.state.model = model
                case _:
                    pass
            rest.append(event)
        return rest

    def _say_files(self, message: Message) -> None:
        """Which files went with what was typed: `@path` may not have named one."""
        if names := [part.get("name") or "a file" for part in message.parts or () if is_file(part)]:
            self.terminal.say(f"· with {single_line(', '.join(names))}")

    def _repeat_untaken(self) -> None:
        """What the turn has not taken is a prompt of its own: the view shows it there, above its answer."""
        untaken, self._steered = [text for text in self._steered if text in self._typed], []
        for text in untaken:
            self._typed.remove(text)
            self._notes.append(f"· not taken in this turn, sent next: {single_line(text)}")

    # What is asked

    def _ask(self) -> None:
        if self._asking is not None and self._asking.id not in self._waiting:
            self._asking = None
        if self._asking is None and self._waiting and not self.terminal.is_typing and not self._pause_s():
            relay, _ = next(iter(self._waiting.values()))
            self._asking = Asking(shape_of(relay), self.state.folder)
            self._shown_ids.add(relay.id)
            self.terminal.say(self._asking.text())

    def _pause_s(self) -> float | None:
        """How long until something has to be done although nothing happens."""
        if self._asking is not None or not self._waiting or self.terminal.is_typing:
            return None
        _, at_s = next(iter(self._waiting.values()))
        return max(0.0, at_s + _SETTLED_S - time.monotonic())

    def _wanted_prompt(self) -> str:
        if self._asking is not None:
            return ANSWER
        return PROMPT if not self.is_running and not self._waiting and self._status.can_submit else ""

    @property
    def is_running(self) -> bool:
        return self._status.is_running

    @property
    def status(self) -> ConversationStatus:
        return self._status

    # What is typed

    def _is_ready_for(self, line: str | None) -> bool:
        """A person's line counts at once; those of a pipe come one after the other."""
        if self._asking is not None:
            return True
        is_busy = self.link.is_own and (self.is_running or bool(self._waiting))
        return not is_busy or (self.terminal.is_interactive and line is not None)

    def _do(self, line: str | None, carry_out: Callable[[TerminalConversation, str], None]) -> None:
        if line is None:
            self._end()
            return
        text = line.strip()
        try:
            if text.startswith("/") and not text.startswith("//"):
                carry_out(self, text)
            elif text:
                self._take_text(text.removeprefix("/") if text.startswith("//") else text)
        except HarnessError as error:
            self.terminal.say(error.words)
        finally:
            self._has_unseen_line = False

    def show_question(self) -> None:
        """All of it, however long it is."""
        asking = self._asking
        self.terminal.say(
            "nothing is waiting for an answer" if asking is None else asking.text(is_whole=True)
        )

    def _take_text(self, text: str) -> None:
        has_lost_question, self._has_lost_question = self._has_lost_question, False
        if self._asking is not None:
            self._answer(self._asking, text)
        elif has_lost_question and is_yes_or_no(text):
            self.terminal.say("it was answered already")
        elif self.is_running:
            self._steer_or_queue(text)
        else:
            self.send_prompt(text)

    def send_prompt(self, text: str) -> None:
        """With the files that were attached to it."""
        self._send_typed(Submit(prompt=text, attachments=tuple(self.attached)), text)
        self.attached.clear()

    def _answer(self, asking: Asking, text: str) -> None:
        reply = asking.take(text)
        if reply is None:
            self.terminal.say(asking.text())
            return
        self.link.send(answering_command(asking.relay, reply))
        self._answered.add(asking.id)
        self._waiting.pop(asking.id, None)

    def _steer_or_queue(self, text: str) -> None:
        """Send a message while the agent works: it is steered, or the message is queued."""
        try:
            self._send_typed(Steer(message=text), text)
            self._steered.append(text)
        except HarnessError:
            if not self._status.can_submit:
                raise
            self._send_typed(Submit(prompt=text), text)
            self.terminal.say("· queued: it is sent when this turn has ended")
        else:
            self.terminal.say(f"· sent to {self.state.agent}")

    def _send_typed(self, command: Command, text: str) -> None:
        is_seen = self.terminal.is_interactive and not self._has_unseen_line
        if is_seen:
            self._typed.append(text)
        try:
            self.link.send(command)
        except HarnessError:
            if is_seen:
                self._typed.remove(text)
            raise

    def _end(self) -> None:
        """No more can be typed."""
        if self._asking is None or not self.link.is_own:
            self.leave()
            return
        relay = self._asking.relay
        self._lines.append(None)
        if relay["kind"] == "permission":
            self._answer(self._asking, _CLOSED)
        else:
            self.link.send(Cancel(queue="clear"))
            self._waiting.pop(self._asking.id, None)

    def _handle_interrupts(self) -> None:
        while self._handled < self._interrupts:
            self._handled += 1
            if self.terminal.is_typing:
                self.terminal.clear()
            elif not self.link.is_own:
                self.leave()
            elif self.is_running or self._waiting:
                self.stop()
            else:
                self.terminal.say("/quit or Ctrl-D leaves; the session is stored")

    def stop(self) -> None:
        """Stop the turn; again: with more force."""
        self._stops += 1
        if self._stops >= _LEAVES_AT:
            self.leave()
            return
        try:
            self.link.send(Cancel())
        except HarnessError as error:
            self.terminal.say(error.words)
            return
        self.terminal.say("· stopping" if self._stops == 1 else "· stopping by force")
