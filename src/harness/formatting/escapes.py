"""Text of agents made safe for a terminal: what could move, hide or command is shown instead of obeyed.

Characters are replaced one by one, so nothing depends on where a text was cut: an escape
sequence that arrives in two pieces is as harmless as a whole one.
"""

from __future__ import annotations

import re

_FORBIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f"  # C0 but for tab and line feed
    "\x80-\x9f"  # C1: one character, and still an escape sequence for many terminals
    "\u202a-\u202e\u2066-\u2069"  # directions, which make a line read as another one
    "\u2028\u2029"  # line ends that are none for a shell
    "\u034f\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff0-\ufffb"  # takes up no columns
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff"  # half a character: cannot be sent to a terminal
)
_JOINING = "\u00ad\u061c\u200c-\u200f\ufe00-\ufe0f"
"""Invisible too, but many languages and emoji need them: they are left in messages, not in what is run."""
_BLANK = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000\u115f\u1160\u17b4\u17b5\u3164\uffa0"
"""Looks like a blank but is not one."""
_COMMANDING = re.compile(f"\r\n|[{_FORBIDDEN}]")
UNSEEN = re.compile(f"[{_FORBIDDEN}{_JOINING}{_BLANK}]")
"""Every character that does not look like what it is."""
_CONTROL_PICTURES = 0x2400


def neutralised(text: str) -> str:
    """The same text with every commanding character made visible: ESC becomes ␛."""
    return _COMMANDING.sub(_shown, text)


def revealed(text: str, *, is_line: bool = False) -> str:
    """The same for a call that needs approval: every character that does not look like what it is is spelled out.

    `is_line`: line ends and tabs as well.
    """
    visible = UNSEEN.sub(_shown, text)
    return visible.replace("\n", "␊").replace("\t", "␉") if is_line else visible


def escaped_json(document: str) -> str:
    """A JSON document that says the same, with every character that does not look like what it is as its escape.

    Such characters are only in strings, where JSON allows that.
    """
    return UNSEEN.sub(lambda match: _json_escape(match.group()), document)


def single_line(text: str) -> str:
    """Neutralised, and with line ends and tabs as spaces."""
    return " ".join(neutralised(text).replace("\t", " ").split("\n"))


def _json_escape(character: str) -> str:
    if character == "\r":
        return character  # between two values
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def _shown(match: re.Match[str]) -> str:
    character = match.group()
    if character == "\r\n":
        return "\n"
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    if code == 0x7F:
        return "␡"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"
