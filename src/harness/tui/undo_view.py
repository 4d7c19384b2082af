"""The keys of undo: what a turn changed is shown first, and taken back by the second press."""

from __future__ import annotations

import asyncio
from typing import Any

from textual import events

from harness.clients.changes.undo_lines import count_of, lines_of, summary_of
from harness.errors import HarnessError
from harness.folds.inbox.row import InboxRow
from harness.tui.inbox_screen import InboxView
from harness.tui.lines import TextLine
from harness.tui.screens import Pager


class UndoingView(InboxView):
    """Contract: what is carried out is what was shown; if the files have changed since, nothing is done."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._shown_undo: tuple[str, str, str] | None = None
        """Key, session and digest of the undo that was shown last."""

    def do_undo(self, event: events.Key) -> None:
        row, undo_shown = self.row, self._shown_undo
        if row is None:
            return
        self._shown_undo = None
        is_same = undo_shown is not None and undo_shown[:2] == (event.key, row.id)
        self._undo(
            row, undo_shown[2] if undo_shown is not None and is_same else None, is_redo=event.key == "Z"
        )

    do_redo = do_undo

    def _undo(self, row: InboxRow, expect: str | None, *, is_redo: bool) -> None:
        async def act() -> None:
            try:
                answer = await asyncio.to_thread(self.data.undo, row.id, expect, is_redo=is_redo)
            except HarnessError as error:
                self.say(error.words)
                return
            if answer.is_done:
                self.say(summary_of(answer, is_redo=is_redo, redo="Z"))
                return
            key, verb = ("Z", "brings them back") if is_redo else ("z", "takes them back")
            ending = "There is nothing to do."
            if count_of(answer):
                self._shown_undo = (key, row.id, answer.digest)
                ending = f"esc, then {key} again {verb}"
            lines: list[TextLine] = [[("", line)] for line in [*lines_of(answer), "", ending]]
            self.app.push_screen(Pager(f"{'Redo' if is_redo else 'Undo'}: {row.title}", lines, self.palette))

        self.run_worker(act())
