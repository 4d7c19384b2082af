"""What the keys do. Every `do_…` is named in `keys.py`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from textual import events
from textual.widgets import TextArea

from harness.clients.commands import Cancel, Command, Steer, Submit
from harness.clients.inbox.key_answers import (
    AskKey,
    answer_words,
    command_of,
    has_marks,
    key_of,
    reply_to_key,
)
from harness.clients.inbox.typed_answers import TypedReply
from harness.errors import HarnessError
from harness.folds.inbox.row import NEEDS_YOU, WORKS, InboxRow, RowAsk
from harness.tui import composer as modes
from harness.tui.ask import inline_keys
from harness.tui.composer import ComposerMode, ComposerText, edited
from harness.tui.fleet_screen import FleetScreen
from harness.tui.inbox_list import Held
from harness.tui.inbox_screen import CHANGED, HELD_S
from harness.tui.keys import ACTIONS
from harness.tui.lines import TextLine
from harness.tui.screens import (
    AlikeAnswer,
    AlikeScreen,
    ConversationStart,
    Pager,
    StartScreen,
    call_lines,
    change_lines,
    help_lines,
)
from harness.tui.undo_view import UndoingView

_AGAIN_S = 5.0
"""How long a key that asks "again?" waits for the second press."""


class InboxScreen(UndoingView):
    """Contract: an answer is bound to the ask that was on the screen when its key was typed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._answered: AskKey | None = None
        """What the field at the bottom is the answer to."""
        self._again: tuple[str, float] = ("", 0.0)
        """What a second press would do, and until when."""
        self._start_draft = ""
        self._before_search = ""
        """The row at the cursor then."""

    def on_key(self, event: events.Key) -> None:
        if self.composer.is_open and isinstance(self.focused, TextArea):
            return
        key = ACTIONS.get(event.key)
        if key is not None and (key.where != "conversation" or self.focused is self.pane):
            event.stop()
            getattr(self, f"do_{key.action}")(event)

    # Moving

    @property
    def _is_in_list(self) -> bool:
        return self.focused is not self.pane

    def _move(self, by: int) -> None:
        if self._is_in_list:
            self.list.move(by)
            self.selection_changed()
        else:
            self.pane.move_cursor(by)

    def do_down(self, _event: events.Key) -> None:
        self._move(1)

    def do_up(self, _event: events.Key) -> None:
        self._move(-1)

    def do_first(self, _event: events.Key) -> None:
        if self._is_in_list:
            self._move(-len(self.rows))
        else:
            self.pane.place_cursor(0)

    def do_last(self, _event: events.Key) -> None:
        if self._is_in_list:
            self._move(len(self.rows))
        else:
            self.pane.to_end()

    def do_page_down(self, _event: events.Key) -> None:
        self._page(1)

    def do_page_up(self, _event: events.Key) -> None:
        self._page(-1)

    def _page(self, by: int) -> None:
        if self._is_in_list:
            self._move(by * max(self.list.size.height - 4, 1))
        else:
            self.pane.scroll_lines(by * (self.pane.size.height - 1))

    def do_turn_up(self, _event: events.Key) -> None:
        self.pane.turn(-1)

    def do_turn_down(self, _event: events.Key) -> None:
        self.pane.turn(1)

    def do_pane(self, _event: events.Key) -> None:
        if self.is_narrow:
            self.open_pane(not self.is_opened)
        else:
            (self.pane if self._is_in_list else self.list).focus()

    def do_back(self, _event: events.Key) -> None:
        if self.clear_message():
            return
        if not self._is_in_list:
            self.open_pane(False)
        elif self.found is not None:
            self.found, self.words = None, ""
            self.draw()

    def do_quit(self, _event: events.Key) -> None:
        running = self.data.sessions.hosted
        if running and not self._is_again("quit"):
            noun = "conversation runs" if running == 1 else "conversations run"
            self.say(f"{running} {noun} in this program: q again stops them and quits")
            return
        self.app.exit(0)

    def _is_again(self, what: str) -> bool:
        """Whether the same key asks for the same, for the second time."""
        now = time.monotonic()
        is_so = self._again[0] == what and now < self._again[1]
        self._again = ("", 0.0) if is_so else (what, now + _AGAIN_S)
        return is_so

    # Looking

    def do_open(self, _event: events.Key) -> None:
        if self.row is None:
            return
        if self._is_in_list:
            self.open_pane(True)
            return
        tag = self.pane.tag
        if tag is None:
            self.say("k goes up to a call, ↵ opens it")
        elif tag.spawns:
            self.pane.toggle(tag.spawns)
        elif tag.call_id:
            place = self.pane.text.calls[tag.run_id, tag.call_id]
            row = self.row
            self._read(lambda: call_lines(self.data, row.id, place, row.cwd), "Call")

    def do_view(self, _event: events.Key) -> None:
        row, ask = self.row, self.ask
        if row is None or ask is None:
            self.say("Nothing is asked here")
            return
        self.view_whole(row, ask)

    def do_diff(self, _event: events.Key) -> None:
        row = self.row
        if row is not None:
            self._read(
                lambda: change_lines(self.data.sessions.read(row.id), row.cwd), f"Changes: {row.title}"
            )

    def do_requests(self, _event: events.Key) -> None:
        row = self.row
        if row is not None:
            self._read(
                lambda: [[("", line)] for line in self.data.model_calls(row.id)],
                f"Sent to its model: {row.title}",
            )

    def do_usage(self, _event: events.Key) -> None:
        self._read(lambda: [[("", line)] for line in self.data.usage().split("\n")], "Usage")

    def do_fleets(self, _event: events.Key) -> None:
        source = self.data.fleets()

        def opened(session: str | None) -> None:
            source.close()
            if session is None:
                return
            if session in self.rows:
                self.found, self.words = None, ""
                self.select(session)
                self.open_pane(True)
            else:
                self.say(f"It is not among the latest sessions: harness sessions show {session}")

        self.app.push_screen(FleetScreen(source, self.palette), opened)

    def do_help(self, _event: events.Key) -> None:
        self.app.push_screen(Pager("Keys", help_lines(), self.palette))

    def _read(self, make: Callable[[], list[TextLine]], heading: str) -> None:
        """Something that has to be read first."""

        async def read() -> None:
            try:
                lines = await asyncio.to_thread(make)
            except HarnessError as error:
                self.say(error.words)
            else:
                self.app.push_screen(Pager(heading, lines, self.palette))

        self.run_worker(read(), group="reading", exclusive=True)

    # Answering

    def _current(self, event: events.Key) -> tuple[InboxRow, RowAsk] | None:
        """The ask that a key answers now; None: there is none, and a message says why."""
        row, ask = self.row, self.ask
        if row is None or ask is None:
            self.say("Nothing is asked here")
        elif not row.can.answer:
            self.say("It cannot be answered from here: answer it in the program that runs it")
        elif self.data.notice:
            self.say(f"{self.data.notice} Nothing is sent later: answer when it is back")
        elif refused := self.guard.refuses(event.key, self.place_of_ask, event.time):
            self.say(refused)
        elif self._is_only_listed and event.key not in inline_keys(ask, self.size.width):
            self.say("↵ shows all of it: look at it first")
        else:
            return row, ask
        return None

    @property
    def _is_only_listed(self) -> bool:
        """Whether nothing but two lines of the list show what is asked."""
        return self.is_narrow and not self.is_opened

    def do_answer(self, event: events.Key) -> None:
        current = self._current(event)
        if current is None:
            return
        row, ask = current
        reply = reply_to_key(ask, event.key)
        if reply is not None and reply.approved and not self.is_shown_whole(row, ask):
            self.say("Not all of it was shown: read it to the end, then answer")
            self.view_whole(row, ask)
            return
        if has_marks(ask) and event.key == "y":
            self._write(modes.CONFIRM, row, ask)
            return
        if reply is None:
            self.say(f"{event.key} is no answer to this")
        else:
            self._answer(row, ask, reply)

    def do_because(self, event: events.Key) -> None:
        if (current := self._current(event)) is not None:
            row, ask = current
            self._write(modes.DENY if ask.kind in ("permission", "plan") else modes.ANSWER, row, ask)

    def do_choose(self, event: events.Key) -> None:
        if (current := self._current(event)) is None:
            return
        row, ask = current
        if ask.kind not in ("question", "tool"):
            self.say(f"{event.key} is no answer to this")
            return
        reply = self.asking(row, ask).take(event.key)
        if reply is None or reply.answer != event.key:
            self._answer_or_next(row, ask, reply)
        else:
            self.say(f"There is no answer {event.key}")

    def _answer_or_next(self, row: InboxRow, ask: RowAsk, reply: TypedReply | None) -> None:
        """Several questions may be asked at once: without a reply, the next one is shown."""
        if reply is None:
            self.draw()
        else:
            self._answer(row, ask, reply)

    def _answer(self, row: InboxRow, ask: RowAsk, reply: TypedReply) -> None:
        key, words = key_of(row, ask), answer_words(ask, reply)
        self.sent[key] = f"{words.capitalize()} …"
        self.draw()

        def done() -> None:
            self.sent[key] = words.capitalize()
            self.held[row.id] = Held("needs", words, time.monotonic() + HELD_S)
            self.draw()

        def failed() -> None:
            self.sent.pop(key, None)
            self.draw()

        self._send(row.id, command_of(ask, reply), done, failed)

    def _send(
        self,
        session: str,
        command: Command,
        on_done: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        async def send() -> None:
            try:
                await asyncio.to_thread(self.data.sessions.send, session, command)
            except HarnessError as error:
                failed()
                self.say(error.words)
            else:
                on_done()

        self.run_worker(send(), group="sending")

    def do_alike(self, _event: events.Key) -> None:
        alike = self.alike()
        if len(alike) < 2:
            self.say("No other ask is like this one")
            return

        def answer(answers: AlikeAnswer | None) -> None:
            for row, ask in answers.chosen if answers is not None else ():
                if self._is_open(key_of(row, ask)):
                    self._answer(row, ask, TypedReply(answers is not None and answers.is_approved))

        self.app.push_screen(AlikeScreen(alike, self.palette), answer)

    def _is_open(self, key: AskKey) -> bool:
        row = self.rows.get(key.session)
        return row is not None and any(key_of(row, ask) == key for ask in row.asks) and key not in self.sent

    # Writing

    def _write(self, mode: ComposerMode, row: InboxRow, ask: RowAsk | None = None) -> None:
        self._answered = None if ask is None else key_of(row, ask)
        if self.is_narrow and not self.is_opened:
            self.open_pane(True)
        self.composer.open(mode, row.id)

    def do_steer(self, event: events.Key) -> None:
        row = self.row
        if row is None:
            return
        if row.state in WORKS | NEEDS_YOU and not row.can.steer:
            self.say("It takes no messages while it works" + (": f queues one" if row.can.submit else ""))
        else:
            self.do_write(event)

    def do_write(self, _event: events.Key) -> None:
        row = self.row
        if row is None:
            return
        if row.can.steer or row.can.submit:
            self._write(modes.WRITE, row)
        else:
            self.say("It takes no messages from here")

    def do_follow_up(self, _event: events.Key) -> None:
        row = self.row
        if row is not None and row.can.submit:
            self._write(modes.QUEUE, row)
        elif row is not None:
            self.say("It takes no messages from here")

    def do_search(self, _event: events.Key) -> None:
        if self._is_in_list:
            if self.is_narrow:
                self.open_pane(True)
            self._before_search = self.list.selected
            self.composer.open(modes.SEARCH, "")
        elif self.row is not None:
            self.composer.open(modes.FIND, self.row.id)

    def on_composer_text_sent(self, event: ComposerText.Sent) -> None:
        event.stop()
        mode, session, text = self.composer.mode, self.composer.session, event.text
        if mode is modes.FIND:
            self._find(text, is_next=True)
            return
        if mode is modes.SEARCH:
            self._leave_field()
            return
        if not text.strip():
            self.say("Nothing was written")
            return
        if mode in (modes.WRITE, modes.QUEUE):
            self.composer.sent()
            self._leave_field()
            self._send_message(session, text, is_queued=event.is_queued or mode is modes.QUEUE)
        else:
            self._reply(mode, text)

    def _send_message(self, session: str, text: str, *, is_queued: bool) -> None:
        row = self.rows.get(session)
        works = row is not None and row.state in WORKS | NEEDS_YOU
        steers = works and row is not None and row.can.steer and not is_queued
        words = "Sent to it" if steers else ("Queued for after this run" if works else "Sent")
        command: Command = Steer(message=text) if steers else Submit(prompt=text)
        self._send(
            session,
            command,
            lambda: self.say(words),
            lambda: self.composer.restore(session, modes.WRITE, text),
        )

    def _reply(self, mode: ComposerMode, text: str) -> None:
        key = self._answered
        if key is None or not self._is_open(key):
            self.say(CHANGED)
            self._leave_field()
            return
        row = self.rows[key.session]
        ask = next(ask for ask in row.asks if key_of(row, ask) == key)
        if mode is modes.CONFIRM and text.strip().lower() != "allow":
            self.say("It was not allowed: write allow, or esc")
            return
        self.composer.sent()
        self._leave_field()
        if mode is modes.CONFIRM:
            self._answer(row, ask, TypedReply(True))
        elif ask.kind == "plan":
            self._answer(row, ask, TypedReply(False, text, text, {"action": "rejected", "feedback": text}))
        elif mode is modes.DENY:
            self._answer(row, ask, TypedReply(False, reason=text))
        else:
            self._answer_or_next(row, ask, self.asking(row, ask).take(text))

    def on_composer_text_left(self, event: ComposerText.Left) -> None:
        event.stop()
        if self.composer.mode is modes.SEARCH:
            self.found, self.words = None, ""
            self.draw()
            self.select(self._before_search)
        self._leave_field()

    def _leave_field(self) -> None:
        was_searching = self.composer.mode is modes.SEARCH
        self.composer.close()
        if was_searching:
            self.open_pane(False)
        else:
            (self.pane if self.is_opened or self.composer.mode is modes.FIND else self.list).focus()
        self.draw()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        mode = self.composer.mode
        if not self.composer.is_open:
            return
        if mode is modes.SEARCH:
            self._search(self.composer.text)
        elif mode is modes.FIND:
            self._find(self.composer.text, is_next=False)
        else:
            self._offer_files()

    def _find(self, text: str, *, is_next: bool) -> None:
        count = self.pane.search(text, is_next=is_next)
        self.composer.note(f"{count} lines · ↵ next · esc done" if text.strip() else "")

    def _search(self, text: str) -> None:
        """Search the rows at once, then the messages of all sessions in the background."""
        self.words = text.strip()
        words = self.words.lower().split()
        if not words:
            self.found = None
            self.draw()
            return
        near = {row.id for row in self.rows.values() if all(word in _heading(row) for word in words)}
        self.found = near
        self.draw()

        async def look() -> None:
            wanted_text = self.words
            try:
                ids = await asyncio.to_thread(self.data.sessions.find, wanted_text)
            except HarnessError as error:
                self.say(error.words)
                return
            if self.words == wanted_text and self.found is not None:
                self.found = near | {*ids}
                self.draw()

        self.run_worker(look(), group="searching", exclusive=True)

    def _offer_files(self) -> None:
        word, row = self.composer.at_word, self.rows.get(self.composer.session)
        if word is None or row is None:
            self.composer.offer(())
            return

        async def look() -> None:
            files = await asyncio.to_thread(self.data.files, row.cwd, word)
            if self.composer.at_word == word:
                self.composer.offer(files)

        self.run_worker(look(), group="files", exclusive=True)

    def on_composer_text_completed(self, event: ComposerText.Completed) -> None:
        event.stop()
        self.composer.complete()

    def on_composer_text_editor_wanted(self, event: ComposerText.EditorWanted) -> None:
        event.stop()
        field = self.composer.field
        if field is None:
            return
        try:
            with self.app.suspend():
                text = edited(field.text, os.environ)
        except HarnessError as error:
            self.say(error.words)
        else:
            field.text = text
            field.move_cursor(field.document.end)
        self.refresh()

    # Steering

    def do_stop(self, event: events.Key) -> None:
        row = self.row
        if row is None or row.state not in WORKS | NEEDS_YOU:
            self.say("Nothing runs here")
        elif not row.can.cancel:
            self.say("It cannot be stopped from here")
        elif not self._is_again(f"{event.key} {row.id}"):
            queue = ""
            if row.queued:
                noun = "message" if row.queued == 1 else "messages"
                is_cleared = "is cleared" if event.key == "X" else "stays"
                queue = f", its queue of {row.queued} {noun} {is_cleared}"
            self.say(f"Stop “{row.title}”? {event.key} again stops it{queue}")
        else:
            self._send(
                row.id, Cancel(queue="clear" if event.key == "X" else "keep"), lambda: self.say("Stopping it")
            )

    def do_new(self, _event: events.Key) -> None:
        row = self.row
        here = os.getcwd()
        agent, folder = (row.agent_name, row.cwd or here) if row is not None else ("", here)

        screen = StartScreen(agent, folder, self._start_draft, self.palette)

        def begin(start_given: ConversationStart | None) -> None:
            self._start_draft = screen.draft if start_given is None else ""
            if start_given is not None:
                self.run_worker(self._begin(start_given), group="sending")

        async def look() -> None:
            try:
                screen.offer(await asyncio.to_thread(self.data.agents))
                screen.offer_sandbox(*await asyncio.to_thread(self.data.sandbox))
            except HarnessError as error:
                self.say(error.words)

        self.app.push_screen(screen, begin)
        self.run_worker(look(), group="reading", exclusive=True)

    async def _begin(self, start_given: ConversationStart) -> None:
        try:
            id = await asyncio.to_thread(self.data.sessions.start, start_given.setup, start_given.prompt)
        except HarnessError as error:
            self._start_draft = start_given.prompt
            self.say(error.words)
            return
        self.wanted = id
        self._take_rows()
        self.say("Started")


def _heading(row: InboxRow) -> str:
    heading = (
        row.title,
        row.agent,
        row.agent_name,
        row.model,
        row.cwd,
        row.branch,
        row.project.name,
        *row.tags,
    )
    return "\n".join(heading).lower()
