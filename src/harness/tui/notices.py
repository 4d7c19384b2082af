"""The bell, notifications of the terminal, and the count in its title."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.folds.inbox.row import NEEDS_YOU, WORKS, InboxRow
from harness.formatting.columns import cut
from harness.formatting.escapes import single_line

_BELL = "\x07"
_ENDS = {"succeeded": "is done", "failed": "has failed", "lost": "was lost"}
_SAVE_TITLE, RESTORE_TITLE = "\x1b[22;0t", "\x1b[23;0t"
_LONGEST = 100


class Notices:
    """Contract: nothing of an agent reaches the terminal but a line of text. Off: nothing is written at all."""

    def __init__(self, write: Callable[[str], object], *, is_on: bool) -> None:
        self._write = write
        self._is_on = is_on
        self._count = -1
        self._has_looked = False

    def compare(self, before: Mapping[str, InboxRow], after: Mapping[str, InboxRow]) -> None:
        """Ring for what needs a person now and did not before, and for what has ended."""
        is_first, self._has_looked = not self._has_looked, True
        if not self._is_on or is_first:
            return
        news = [words for row in after.values() if (words := _news(before.get(row.id), row))]
        if news:
            more = f" (+{len(news) - 1})" if len(news) > 1 else ""
            text = cut(single_line(news[0]), _LONGEST) + more
            self._write(f"\x1b]9;{text}\x07{_BELL}")

    def title(self, count: int) -> None:
        if self._is_on and count != self._count:
            saved = _SAVE_TITLE if self._count < 0 else ""
            self._count = count
            self._write(f"{saved}\x1b]0;{f'({count}) ' if count else ''}harness\x07")

    def close(self) -> None:
        if self._is_on and self._count >= 0:
            self._write(RESTORE_TITLE)


def _news(before: InboxRow | None, row: InboxRow) -> str:
    known_asks = {ask.id for ask in before.asks} if before is not None else set()
    new = [ask for ask in row.asks if ask.id not in known_asks]
    if row.state in NEEDS_YOU and new:
        return f"{row.title}: {new[0].title or 'needs you'}"
    if before is not None and before.state in WORKS | NEEDS_YOU and row.state in _ENDS:
        return f"{row.title} {_ENDS[row.state]}"
    return ""
