"""Every key, in one table: what it does, where, and its help text."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Where: TypeAlias = Literal["everywhere", "list", "conversation", "fleet", "text"]


class Key(NamedTuple):
    names: tuple[str, ...]
    """As Textual calls them."""
    label: str
    """As a person calls it."""
    words: str
    where: Where
    action: str
    """A method `do_…` of the screen; empty: the text field, or the screen of fleets, does it itself."""


KEYS: tuple[Key, ...] = (
    Key(("j", "down"), "j ↓", "down", "everywhere", "down"),
    Key(("k", "up"), "k ↑", "up", "everywhere", "up"),
    Key(("g", "home"), "g", "to the beginning", "everywhere", "first"),
    Key(("G", "end"), "G", "to the end; a conversation is followed again", "everywhere", "last"),
    Key(("pagedown", "space", "ctrl+d"), "space", "a page down", "everywhere", "page_down"),
    Key(("pageup", "ctrl+u", "b"), "b", "a page up", "everywhere", "page_up"),
    Key(("tab",), "tab", "the other pane", "everywhere", "pane"),
    Key(
        ("enter",),
        "↵",
        "open; in a conversation: the call at the cursor, or fold a sub-agent",
        "everywhere",
        "open",
    ),
    Key(("escape",), "esc", "back; a message below is removed", "everywhere", "back"),
    Key(("slash",), "/", "search in all sessions; in a conversation: find", "everywhere", "search"),
    Key(("question_mark",), "?", "these keys", "everywhere", "help"),
    Key(("q", "ctrl+c"), "q", "quit; what runs elsewhere is not stopped", "everywhere", "quit"),
    Key(("y",), "y", "allow once; approve a plan", "everywhere", "answer"),
    Key(("a",), "a", "allow always, as it is printed", "everywhere", "answer"),
    Key(("p",), "p", "the wider “always”, where there are two", "everywhere", "answer"),
    Key(("n",), "n", "deny", "everywhere", "answer"),
    Key(("e",), "e", "no, because …; to a question: your own words", "everywhere", "because"),
    Key(("v",), "v", "view what it asks in full", "everywhere", "view"),
    Key(tuple("123456789"), "1–9", "choose an answer", "everywhere", "choose"),
    Key(("Y",), "Y", "answer all that ask the same, after a look at the list", "everywhere", "alike"),
    Key(("s",), "s", "steer: write to it while it works", "everywhere", "steer"),
    Key(("f",), "f", "follow up: a message for after this run", "everywhere", "follow_up"),
    Key(("m",), "m", "write, without leaving the conversation", "everywhere", "write"),
    Key(("x",), "x", "stop the run: once more, after the question", "everywhere", "stop"),
    Key(("X",), "X", "the same, and clear its queue", "everywhere", "stop"),
    Key(("d",), "d", "what it has changed", "everywhere", "diff"),
    Key(
        ("z",),
        "z",
        "undo the last turn, commands included: shown first, once more to do it",
        "everywhere",
        "undo",
    ),
    Key(("Z",), "Z", "redo what was undone last", "everywhere", "redo"),
    Key(("r",), "r", "requests: what its model was sent, and what is new in each", "everywhere", "requests"),
    Key(("c",), "c", "a new conversation", "everywhere", "new"),
    Key(("u",), "u", "usage: tokens and cost", "everywhere", "usage"),
    Key(("F",), "F", "fleets: tasks × agents, while they run", "everywhere", "fleets"),
    Key(("left_square_bracket",), "[", "the previous turn", "conversation", "turn_up"),
    Key(("right_square_bracket",), "]", "the next turn", "conversation", "turn_down"),
    Key(("h", "j", "k", "l"), "h j k l", "another case; arrows do the same", "fleet", ""),
    Key(("enter",), "↵", "the conversation of the case", "fleet", ""),
    Key(("equals_sign",), "=", "compare two variants", "fleet", ""),
    Key(("x",), "x", "stop it after the cases that run: once more, after the question", "fleet", ""),
    Key(("X",), "X", "the same, at once", "fleet", ""),
    Key(("enter",), "↵", "send; while it works: steer", "text", ""),
    Key(("alt+enter",), "alt-↵", "send after this run", "text", ""),
    Key(("shift+enter", "ctrl+j"), "ctrl-j", "a new line", "text", ""),
    Key(("up",), "↑", "what was written before, in an empty field", "text", ""),
    Key(("tab",), "tab", "the file after @", "text", ""),
    Key(("ctrl+g",), "ctrl-g", "write it in $EDITOR", "text", ""),
    Key(("escape",), "esc", "leave the field; what was written stays with its session", "text", ""),
)
ACTIONS: dict[str, Key] = {name: key for key in reversed(KEYS) if key.action for name in key.names}
SHORT: tuple[tuple[str, str], ...] = (
    ("j k", "move"),
    ("↵", "open"),
    ("y n a e", "answer"),
    ("s", "steer"),
    ("f", "follow up"),
    ("x", "stop"),
    ("d", "diff"),
    ("c", "new"),
    ("u", "usage"),
    ("F", "fleets"),
    ("tab", "pane"),
)
"""The line at the bottom."""
