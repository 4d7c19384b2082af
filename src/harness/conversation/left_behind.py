"""What calls have left in the process that carried them out, and what is therefore gone with it.

Commands in the background and the state of a shell are in no log: they end with their process, however it ends. But a model
goes on believing what the results of its calls have said. So what they say is read here, from the words that the tools use,
and a conversation that goes on in another process begins by saying what no longer holds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from harness.events import Message, ToolEnd

RUNNING = "is running in the background"
ENDED, STOPPED = "has ended", "was stopped"
NEXT_BEGINS = "the next command begins in"
_BASH, _BASH_OUTPUT = "bash", "bash_output"
_STARTED = re.compile(rf"^(b\d+) {RUNNING}", re.MULTILINE)
_OVER = re.compile(rf"^(b\d+) (?:{ENDED}|{STOPPED}), exit code", re.MULTILINE)
_MOVED = re.compile(rf"^\[{NEXT_BEGINS} ", re.MULTILINE)
_TOLD = "The process that carried out your commands until now has ended."
_LONGEST = 300
"""Characters of a command line: it is to be known again, not to be read."""


class LeftBehind(msgspec.Struct):
    commands: dict[str, str] = msgspec.field(default_factory=dict)
    """Id → command line of what was started in the background and not seen to end."""
    has_moved: bool = False
    """Whether commands have changed the directory or exported variables for later ones."""

    def copy(self) -> LeftBehind:
        return LeftBehind(dict(self.commands), self.has_moved)

    def see_end(self, arguments: Any, end: ToolEnd) -> None:
        """A call has ended; `arguments`: what it was given."""
        given: Mapping[str, Any] = arguments if isinstance(arguments, dict) else {}
        text = end.output or ""
        if end.tool_name == _BASH:
            self.has_moved |= bool(given.get("environment")) or _MOVED.search(text) is not None
            if end.exit_code is None and end.success:
                line = " ".join(str(given.get("command", "")).split())[:_LONGEST]
                self.commands |= {found[1]: line for found in _STARTED.finditer(text)}
        elif end.tool_name == _BASH_OUTPUT:
            for found in _OVER.finditer(text):
                self.commands.pop(found[1], None)

    def see_message(self, message: Message) -> None:
        if message.role == "system" and message.text.startswith(_TOLD):
            self.forget()

    def forget(self) -> None:
        self.commands.clear()
        self.has_moved = False

    def words(self, still_there: Collection[str], *, keeps_shell: bool) -> str:
        """What the model must be told; empty: nothing is gone. `still_there`: ids of commands that this process has;
        `keeps_shell`: whether it has the shell of before.
        """
        lost = [f"- {id}: {line}" for id, line in self.commands.items() if id not in still_there]
        moved = self.has_moved and not keeps_shell
        parts = [
            "\n".join(["These commands in the background ended with it, start again what you need:", *lost])
            if lost
            else "",
            "Commands begin in the folder of the workspace again, without what earlier ones had exported."
            if moved
            else "",
        ]
        return "\n".join([_TOLD, *filter(None, parts)]) if lost or moved else ""
