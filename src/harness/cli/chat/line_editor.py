"""What is typed, as lines: `LineEditor` for a terminal that sends every key, `LineSplitter` for everything else.

Both are fed with bytes and do no I/O.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable
from functools import partial

from harness.formatting.columns import columns
from harness.formatting.escapes import revealed

END = None
"""In place of a line: the person has ended the input."""
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_TEXT = re.compile(r"[^\x00-\x1f\x7f]+")
_PASTED_TEXT = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
"""With the line ends and tabs of what is pasted."""
_MOST_HISTORY = 500


class LineSplitter:
    """Lines of a pipe, or of a terminal that edits them itself."""

    text = ""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str | None]:
        """Empty data is the end of the input."""
        if not data:
            rest, self._rest = self._rest, b""
            return [*([_decoded(rest)] if rest else []), END]
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [_decoded(line) for line in lines]

    def clear(self) -> None:
        """What was typed and not ended is the terminal's own."""


class LineEditor:
    """One line that is being typed, with a cursor and a history. Pasted text may have several lines."""

    def __init__(self) -> None:
        self.text = ""
        self._cursor = 0
        self._history: list[str] = []
        self._place = 0
        """In the history; its end is the line that is being typed."""
        self._is_pasting = False
        self._unread = ""
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        home, end = partial(self._move, -(10**9)), partial(self._move, 10**9)
        self._keys: dict[str, Callable[[], None]] = {
            **dict.fromkeys(("\x7f", "\x08"), self._backspace),
            **dict.fromkeys(("\x04", "\x1b[3~"), self._delete_next),
            **dict.fromkeys(("\x01", "\x1b[H", "\x1bOH"), home),
            **dict.fromkeys(("\x05", "\x1b[F", "\x1bOF"), end),
            "\x15": self._delete_before,
            "\x0b": self._delete_after,
            "\x17": self._delete_word,
            "\x1b[C": partial(self._move, 1),
            "\x1b[D": partial(self._move, -1),
            "\x1b[A": partial(self._recall, -1),
            "\x1b[B": partial(self._recall, 1),
        }

    def feed(self, data: bytes) -> list[str | None]:
        """The lines that are complete now. Empty data is the end of the input."""
        if not data:
            return [END]
        lines: list[str | None] = []
        typed, self._unread = self._unread + self._decode(data), ""
        at = 0
        while at < len(typed):
            # All of it at once: key by key, a large text that is pasted would take minutes.
            if text := (_PASTED_TEXT if self._is_pasting else _TEXT).match(typed, at):
                self._insert(text.group().replace("\r", "\n"))
                at = text.end()
                continue
            key = self._key(typed, at)
            if not key:
                self._unread = typed[at:]
                break
            at += len(key)
            if self._is_pasting:
                self._is_pasting = (
                    key != _PASTED
                )  # any other key in it is part of a text, and obeyed by nobody
            elif key in ("\r", "\n"):
                lines.append(self._enter())
            elif key == "\x04" and not self.text:
                lines.append(END)
            else:
                self._press(key)
        return lines

    def _key(self, typed: str, at: int) -> str:
        """The key that begins there; empty: the rest of it is still to come."""
        if typed[at] != "\x1b":
            return typed[at]
        if self._is_pasting:
            rest = typed[at : at + len(_PASTED)]
            return rest if rest == _PASTED else "" if _PASTED.startswith(rest) else typed[at]
        if _UNFINISHED.match(typed, at):
            return ""
        escape = _ESCAPE.match(typed, at)
        return escape.group() if escape is not None else typed[at]

    def clear(self) -> None:
        self.text, self._cursor, self._place = "", 0, len(self._history)

    def drawn(self, width: int) -> tuple[str, int]:
        """The part of the line around the cursor that fits, and the column of the cursor in it."""
        before = revealed(self.text[: self._cursor][-2 * width :], is_line=True)
        after = revealed(self.text[self._cursor :][: 2 * width], is_line=True)
        while columns(before) >= max(1, width - 1):
            before = before[1:]
        while after and columns(before + after) >= width:
            after = after[:-1]
        return before + after, columns(before)

    def _enter(self) -> str:
        text = self.text
        if text.strip() and self._history[-1:] != [text]:
            self._history = [*self._history, text][-_MOST_HISTORY:]
        self.clear()
        return text

    def _press(self, key: str) -> None:
        if key == _PASTE:
            self._is_pasting = True
        elif (act := self._keys.get(key)) is not None:
            act()

    def _insert(self, text: str) -> None:
        self.text = self.text[: self._cursor] + text + self.text[self._cursor :]
        self._cursor += len(text)

    def _delete(self, start: int, end: int) -> None:
        start = max(0, start)
        self.text, self._cursor = self.text[:start] + self.text[end:], start

    def _backspace(self) -> None:
        self._delete(self._cursor - 1, self._cursor)

    def _delete_next(self) -> None:
        self._delete(self._cursor, self._cursor + 1)

    def _delete_word(self) -> None:
        self._delete(len(re.sub(r"\S*\s*\Z", "", self.text[: self._cursor])), self._cursor)

    def _delete_before(self) -> None:
        self._delete(0, self._cursor)

    def _delete_after(self) -> None:
        self.text = self.text[: self._cursor]

    def _move(self, steps: int) -> None:
        self._cursor = min(max(0, self._cursor + steps), len(self.text))

    def _recall(self, steps: int) -> None:
        place = self._place + steps
        if 0 <= place <= len(self._history):
            self._place = place
            self.text = self._history[place] if place < len(self._history) else ""
            self._cursor = len(self.text)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
