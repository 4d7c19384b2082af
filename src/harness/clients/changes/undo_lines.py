"""An undo in words, the same in the terminal, a chat and the inbox. Names are cleaned of what could command a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from harness.clients.changes.undo import UndoableTurn, UndoAnswer, UndoFile, UndoneTurn
from harness.formatting.escapes import single_line

_MOST_NOT_COVERED = 5
_WORDS = {
    "back": "back",
    "create": "back",
    "merge": "back",
    "mode": "back",
    "remove": "remove",
    "keep": "keep",
}


def lines_of(answer: UndoAnswer) -> list[str]:
    """What it does, or has done, path by path."""
    lines = [f"Turn {turn.number}, {_when(turn)}: “{single_line(turn.title)[:80]}”" for turn in answer.turns]
    width = min(48, max((len(single_line(file.path)) for file in answer.files), default=0))
    lines += [
        f"  {_WORDS[file.act]:<7} {single_line(file.path):<{width}}  {_detail(file)}".rstrip()
        for file in answer.files
    ]
    if answer.not_covered:
        names = ", ".join(map(single_line, answer.not_covered[:_MOST_NOT_COVERED]))
        more = len(answer.not_covered) - _MOST_NOT_COVERED
        lines.append(f"Not covered: {names}{f' and {more} more' if more > 0 else ''}")
    if answer.git:
        lines.append(f"git: {answer.git}")
    return lines


def count_of(answer: UndoAnswer) -> int:
    """How many paths it changes, or has changed."""
    return sum(file.act != "keep" for file in answer.files)


def summary_of(answer: UndoAnswer, *, is_redo: bool = False, redo: str = "`harness redo`") -> str:
    """What was done, in one line. `redo`: what brings it back, where this is read."""
    count, kept_count = count_of(answer), sum(file.act == "keep" for file in answer.files)
    files = "1 file" if count == 1 else f"{count} files"
    stays = f"; {kept_count} kept as {'it is' if kept_count == 1 else 'they are'}" if kept_count else ""
    if is_redo:
        return f"Brought back: {files}{stays}."
    return f"Taken back: {files}{stays}. {redo} brings them again."


def turn_lines(turns: Sequence[UndoableTurn]) -> list[str]:
    words = {"undoable": "", "undone": "undone", "unchanged": "no files", "not recorded": "not recorded"}
    return [
        f"{turn.number:>4}  {_when(turn)}  {turn.files:>5} {'file ' if turn.files == 1 else 'files'}  {words[turn.state]:<12}  "
        f"{single_line(turn.title)[:60]}{f'  ({single_line(turn.why)})' if turn.why else ''}".rstrip()
        for turn in turns
    ]


def _detail(file: UndoFile) -> str:
    if file.act == "keep":
        return single_line(file.why)
    if file.act == "mode":
        return f"mode {file.mode}"
    if file.kind != "file":
        return f"{file.kind} that was deleted" if file.act == "create" else file.kind
    if file.act == "create":
        return "it was deleted"
    lines = f"{file.lines} lines" if file.lines != 1 else "1 line"
    if file.act == "merge":
        return f"{lines}; what was changed since stays"
    return lines if file.lines else ""


def _when(turn: UndoneTurn) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(turn.started_ms / 1000))
