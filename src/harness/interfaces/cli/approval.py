"""What a person at a terminal is asked, and what the answer means: the same for `harness run` and `harness attach`.

A question has the shape that it has in a state (`views/page_state/shapes.py`). `Questions` asks those of a run, one
after the other.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from harness.errors import UsageError
from harness.events import Event, Relay, RelayReply
from harness.interfaces.cli.console import Console
from harness.sources.run import Run
from harness.views.formatting.approval import bounded, is_short, lines_of, title
from harness.views.formatting.escapes import neutralised
from harness.views.page_state.shapes import relay as shape_of

Data = dict[str, Any]

SHOW = "/show"
_MOST_LINES = 20
_KEYS = {"once": "y", "always": "a", "pattern": "p"}
"""The option's id → what is typed for it."""
_WORDS = {"y": "once", "yes": "once", "a": "always", "always": "always", "p": "pattern", "pattern": "pattern"}
_NO = ("n", "no")


class TypedReply(NamedTuple):
    approved: bool
    choice: str = ""
    """The id of an option; empty: once, or not at all."""
    reason: str = ""
    answer: Any = None


def is_yes_or_no(text: str) -> bool:
    """Whether it can only be meant for a question."""
    return text.lower() in _WORDS or text.lower() in _NO


def question_text(relay: Data, *, is_whole: bool = False) -> str:
    """What is asked; `is_whole`: however long it is."""
    most = 10**9 if is_whole else _MOST_LINES
    who = f"{neutralised(relay['subagent'])} asks: " if relay.get("subagent") else ""
    if relay["kind"] == "permission":
        return "\n".join([f"? {who}{_permission(relay, most, is_whole=is_whole)}", _keys(relay)])
    if relay["kind"] == "plan":
        plan = relay["payload"].get("plan", "") if isinstance(relay["payload"], dict) else ""
        shown = bounded(neutralised(str(plan)).split("\n"), most, f"{SHOW} shows all of it")
        return "\n".join([f"? {who}{neutralised(relay['question'])}", *shown, "  [y]es, or what to change"])
    choices = f" ({', '.join(map(neutralised, relay['options']))})" if relay["options"] else ""
    return f"? {who}{neutralised(relay['question'])}{choices}"


def reply_to(relay: Data, text: str) -> TypedReply:
    """What a person answers to a question that was shown."""
    word = text.lower()
    if relay["kind"] in ("permission", "plan"):
        choice = _WORDS.get(word, "")
        if relay["kind"] == "plan" and choice == "once":
            return TypedReply(True, answer={"action": "approved"})
        if relay["kind"] == "plan":
            feedback = {} if word in _NO else {"feedback": text}
            return TypedReply(False, answer={"action": "rejected", **feedback})
        if choice in _offered(relay):
            return TypedReply(True, choice if choice != "once" else "")
        return TypedReply(False, reason="" if word in _NO else text)
    return TypedReply(True, answer=_answer(relay, text))


def _permission(relay: Data, most: int, *, is_whole: bool) -> str:
    arguments, preview = relay["input"], relay.get("preview")
    if is_short(arguments) and not preview:
        return f"may it: {title(relay['toolName'], arguments)}"
    hint = f"{SHOW} shows all of it"
    lines = lines_of(arguments, preview)
    shown = lines if is_whole else bounded(lines, most, hint)
    return "\n".join([f"may it: {title(relay['toolName'], None)}", *(f"  {line}" for line in shown)])


def _offered(relay: Data) -> dict[str, str]:
    """The ids of what can be allowed, with what each grants."""
    options = relay["options"] or [{"id": "once", "kind": "allow-once", "label": "Allow once"}]
    return {one["id"]: one["label"] for one in options if one["kind"] != "reject-once"}


def _keys(relay: Data) -> str:
    keys = [f"[{_KEYS[id]}] {label}" for id, label in _offered(relay).items() if id in _KEYS]
    return f"  {'   '.join(keys)}   or why not"


def _answer(relay: Data, text: str) -> Any:
    """As text, unless only something else is an answer."""
    from harness.sources.loop.approvals import problems_of

    schema = relay["resumeSchema"]
    if schema is None or not list(problems_of(text, schema)):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


class Questions:
    def __init__(self, run: Run, console: Console) -> None:
        self.noted: dict[type[Event], Callable[[Any], None]] = {
            Relay: self._asked,
            RelayReply: self._answered,
        }
        """What it wants to see of the run."""
        self._run = run
        self._console = console
        self._waiting: deque[Relay] = deque()
        self._is_listening = False

    def _asked(self, relay: Relay) -> None:
        self._waiting.append(relay)
        if len(self._waiting) == 1:
            self._tell(relay)
        if not self._is_listening:
            self._is_listening = True
            threading.Thread(target=self._listen, daemon=True).start()

    def _answered(self, reply: RelayReply) -> None:
        """Answered, by the person or by the deadline."""
        first = self._waiting[0] if self._waiting else None
        self._waiting = deque(relay for relay in self._waiting if relay.id != reply.id)
        if first is not None and first.id == reply.id:
            if reply.by == "timeout":
                self._console.say(f"{reply.reason}: the call was refused")
            if self._waiting:
                self._tell(self._waiting[0])

    def _tell(self, relay: Relay) -> None:
        self._console.say(question_text(shape_of(relay)))

    def _listen(self) -> None:
        for text in _lines():
            if text == SHOW and self._waiting:
                self._console.say(question_text(shape_of(self._waiting[0]), is_whole=True))
            elif text and self._waiting:
                self._reply(self._waiting[0], text)
        while self._waiting:  # standard input was closed
            relay = self._waiting.popleft()
            self._run.reply(relay.id, approved=False, reason="standard input was closed")

    def _reply(self, relay: Relay, text: str) -> None:
        try:
            self._run.reply(relay.id, **reply_to(shape_of(relay), text)._asdict())
        except UsageError as error:
            self._console.say(error.words)


def _lines() -> Iterator[str]:
    """What is typed. Not from `sys.stdin`, whose lock a thread that waits there would hold when the program ends."""
    rest = b""
    while True:
        try:
            block = os.read(0, 4096)
        except OSError:
            return
        if not block:
            return
        *lines, rest = (rest + block).split(b"\n")
        yield from (line.decode("utf-8", "replace").strip() for line in lines)
