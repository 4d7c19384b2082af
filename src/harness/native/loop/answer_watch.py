"""Notices an answer that does not end: small models repeat themselves for ever, and no server stops them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Error
from harness.native.loop.loop_context import AgentOptions

EVERY = 4_096
"""Pieces: so seldom is an answer looked at, for each look costs what a few hundred pieces do."""
_LONGEST_PASSAGE = 1_000
_REPEATED = 6_000
"""Characters at the end of an answer that say nothing but one passage again and again."""
_REPEATED_INPUT = 30_000
"""Of the arguments of a call, for a file may well be full of zeros."""
_CHARACTERS_PER_TOKEN = 8
"""More than in any language."""


class EndlessAnswer(Exception):
    """The model call is over: `error` says why."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.error = Error(
            message=f"{why}; it was stopped: say it in other words, or choose another model",
            code="endless_answer",
        )


class AnswerWatch:
    """Of one model call."""

    def __init__(self, window: int | None) -> None:
        """`window`: how many tokens the model can hold; None: every answer may go on."""
        self._most = None if window is None else _CHARACTERS_PER_TOKEN * window
        self._length = 0

    def look(self, pieces: Sequence[str], *, is_input: bool = False) -> None:
        """With every `EVERY`-th piece. Raises EndlessAnswer."""
        if self._most is None:
            return
        self._length += sum(map(len, pieces[-EVERY:]))
        if repeats(pieces, _REPEATED_INPUT if is_input else _REPEATED):
            raise EndlessAnswer("the model repeats itself and does not end")
        if self._length > self._most:
            raise EndlessAnswer(f"the answer does not end: it has more than {self._most:,} characters")


NO_WATCH = AnswerWatch(None)


def watch_of(options: AgentOptions) -> AnswerWatch:
    return AnswerWatch(options.window()) if options.stops_repeats else NO_WATCH


def repeats(pieces: Sequence[str], shortest: int) -> bool:
    """Whether the end of it is one passage again and again, over so many characters."""
    end = "".join(pieces[-shortest:])[-shortest:]
    if len(end) < shortest:
        return False
    probe = end[-_LONGEST_PASSAGE // 5 :]
    before = end.rfind(probe, 0, len(end) - 1)
    period = len(end) - len(probe) - before
    return before >= 0 and period <= _LONGEST_PASSAGE and end[period:] == end[:-period]
