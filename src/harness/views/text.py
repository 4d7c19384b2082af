"""The agent's text and nothing else, streamed if the agent streams it. Runs inside the run are left out."""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Event, Message, Result, SessionStart, TextDelta
from harness.formatting.escapes import neutralised
from harness.log.run_tree import RunTree
from harness.stage import View, ViewOptions


class TextView:
    def __init__(self) -> None:
        self._tree = RunTree()
        self._open_stream: str | None = None
        """The stream whose line has no end yet."""

    def feed(self, event: Event, /) -> Sequence[bytes]:
        run = self._tree.feed(event)
        text = "" if run.depth else self._shown(event)
        return (text.encode(),) if text else ()

    def finish(self) -> Sequence[bytes]:
        end = self._end_line()
        return (end.encode(),) if end else ()

    def _shown(self, event: Event) -> str:
        if isinstance(event, TextDelta):
            return self._delta(event)
        message, withdrawn = self._tree.said, self._tree.withdrawn
        if message is not None:
            return self._message(message)
        if withdrawn is not None:
            # Printed text cannot be removed; the new answer begins on a new line.
            return self._end_line() if withdrawn == self._open_stream else ""
        return self._end_line() if isinstance(event, SessionStart | Result) else ""

    def _delta(self, event: TextDelta) -> str:
        if not event.text:
            return ""
        end = "" if event.id == self._open_stream else self._end_line()
        self._open_stream = None if event.text.endswith("\n") else event.id
        return end + neutralised(event.text)

    def _message(self, event: Message) -> str:
        rest = self._tree.rest(event)
        if rest is None:
            return self._end_line() + self._whole(event.text)
        start = "" if event.id == self._open_stream else self._end_line()
        if rest:
            self._open_stream = None if rest.endswith("\n") else event.id
        return start + neutralised(rest) + self._end_line()

    def _whole(self, text: str) -> str:
        return neutralised(text) + ("" if text.endswith("\n") else "\n") if text else ""

    def _end_line(self) -> str:
        if self._open_stream is None:
            return ""
        self._open_stream = None
        return "\n"


def open(options: ViewOptions) -> View:
    del options
    return TextView()
