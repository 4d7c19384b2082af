"""Aider: a chat history in Markdown, which `--restore-chat-history` reads from a file of ours. Calls become text.

A line's first characters say whose it is: `#### ` the person's, `> ` the program's, `# ` neither. Such lines of an
answer are indented, so that they stay the answer's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from harness.contracts.conversation import HandedCall, HandedConversation, HandedPrompt
from harness.contracts.writer import (
    HandoverPlace,
    HandoverWriter,
    NewFile,
    SessionText,
    iso,
    json_text,
)

_SPEAKERS = ("#", ">")
_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Everything that is a line end for aider."""
_BEGINNING = "> Main model: unknown with diff edit format"
_END = "> Tokens: 0 sent, 0 received."
"""What aider writes after an answer."""


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "aider", {})
    start_time = iso(conversation.started_ms)[:19].replace("T", " ")
    lines = ["", f"# aider chat started at {start_time}", "", _BEGINNING, ""]
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            lines += [*(f"#### {line}" for line in _lines(turn.text)), ""]
            continue
        if turn.text:
            lines += [*map(_as_answer, _lines(turn.text)), ""]
        for call in turn.calls:
            lines += _call(call, text)
        lines += [_END, ""]
    data = "\n".join([*lines, ""]).encode("utf-8", "replace")
    return [NewFile(os.path.join(place.folder, ".aider.chat.history.md"), data)]


def _call(call: HandedCall, text: SessionText) -> Iterator[str]:
    name, arguments = text.object_call(call)
    state = "failed" if call.has_failed else "done"
    yield _as_answer(" ".join(f"I called {name} with {json_text(arguments)} ({state}). It gave:".split("\n")))
    yield ""
    yield from (f"    {line}" for line in _lines(call.output))
    yield ""


def _lines(text: str) -> list[str]:
    return _LINE_END.split(text)


def _as_answer(line: str) -> str:
    return f" {line}" if line.startswith(_SPEAKERS) else line


WRITER = HandoverWriter(
    agent="aider",
    tools={},
    files=_files,
    resume_args=("--chat-history-file", "{file}", "--restore-chat-history"),
    since=(0, 86),
    proven=(0, 86, 2),
    as_text=True,
)
