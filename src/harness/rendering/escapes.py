"""Text of agents made safe for a terminal: what could move, hide or command is shown instead of obeyed.

Characters are replaced one by one, so nothing depends on where a text was cut: an escape
sequence that arrives in two pieces is as harmless as a whole one.
"""

from __future__ import annotations

import re

_COMMANDING = re.compile(
    "\r\n"
    "|[\x00-\x08\x0b-\x1f\x7f]"  # C0 but for tab and line feed
    "|[\x80-\x9f]"  # C1: one character, and still an escape sequence for many terminals
    "|[\u202a-\u202e\u2066-\u2069]"  # direction overrides, which make a line read as another one
    "|[\ud800-\udfff]"  # half a character: no terminal can be sent it
)
_CONTROL_PICTURES = 0x2400


def neutralised(text: str) -> str:
    """The same text with every commanding character made visible: ESC becomes ␛."""
    return _COMMANDING.sub(_shown, text)


def single_line(text: str) -> str:
    """Neutralised, and with line ends and tabs as spaces."""
    return " ".join(neutralised(text).replace("\t", " ").split("\n"))


def _shown(match: re.Match[str]) -> str:
    found = match.group()
    if found == "\r\n":
        return "\n"
    code = ord(found)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == 0x7F:
        return "␡"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"
