"""Output of programs as a person would see it on a terminal: colours and overwritten progress cost tokens and say nothing."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-9;:<=>?]*[ -/]*[@-~]"  # colours, the cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)
_ERASED = re.compile(r"[^\x08\n]\x08")


def as_seen(text: str) -> str:
    """Without escape sequences and control characters; of what was overwritten only what stays."""
    if "\x1b" in text or _ESCAPES.search(text):
        text = _ESCAPES.sub("", text)
    while "\x08" in text and (shorter := _ERASED.sub("", text)) != text:
        text = shorter
    text = text.replace("\x08", "")
    if "\r" not in text:
        return text
    return "\n".join(map(_overwritten, text.replace("\r\n", "\n").split("\n")))


def _overwritten(line: str) -> str:
    """A carriage return goes back to the beginning; what is written then covers what was there."""
    text = ""
    for part in line.split("\r"):
        text = part + text[len(part) :] if part else text
    return text
