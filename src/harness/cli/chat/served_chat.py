"""`harness attach` to a session of a server: what is new in its state as lines, and what is typed as commands."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial
from operator import is_not
from typing import Any

from harness.cli.console import Console
from harness.cli.output import write_text
from harness.clients.client.client import PlainClient
from harness.clients.commands import Cancel, Command, Continue, Revoke, Steer, Submit
from harness.clients.inbox.typed_answers import SHOW, Asking, answering_command, is_yes_or_no
from harness.formatting.approval import title
from harness.formatting.escapes import neutralised, single_line

_LONGEST_LINE = 200
_MOST_LINES = 6
_SIGNS = {"complete": "✓", "error": "✗"}


class TerminalTranscript:
    """Messages and calls of a state as lines. `news` returns what is new since the last call, each thing once."""

    def __init__(self) -> None:
        self._lengths: dict[tuple[int, int], int] = {}
        """How much was shown of each part of each message."""
        self._ended_calls: set[str] = set()
        self._is_line_open = False

    def news(self, state: dict[str, Any]) -> str:
        out: list[str] = []
        for at, message in enumerate(state["messages"]):
            if message["role"] == "user":
                if message["status"] == "complete" and (at, -1) not in self._lengths:
                    self._lengths[at, -1] = 0
                    self._line(out, f"\n> {neutralised(message['content'])}")
                continue
            calls = {call["id"]: call for call in message.get("toolCalls") or ()}
            for number, part in enumerate(message.get("parts", ())):
                self._part(out, (at, number), part, calls)
        if state["status"] != "running":
            self._end_line(out)
        return "".join(out)

    def _part(
        self, out: list[str], place: tuple[int, int], part: dict[str, Any], calls: dict[str, dict[str, Any]]
    ) -> None:
        if part["type"] == "text":
            length = self._lengths.get(place, 0)
            if len(part["text"]) > length:
                if not length:
                    self._end_line(out)
                out.append(neutralised(part["text"][length:]))
                self._is_line_open = not out[-1].endswith("\n")
                self._lengths[place] = len(part["text"])
        elif part["type"] == "tool":
            self._call(out, place, calls.get(part["callId"]))
        elif part["type"] == "notice" and place not in self._lengths:
            self._lengths[place] = 0
            self._line(out, f"[{part['level']}] {neutralised(part['text'])}")

    def _call(self, out: list[str], place: tuple[int, int], call: dict[str, Any] | None) -> None:
        if call is None:
            return
        if place not in self._lengths and call["input"] is not None:
            self._lengths[place] = 0
            self._line(out, f"· {title(call['name'], call['input'])}")
        if call["status"] != "running" and call["id"] not in self._ended_calls:
            self._ended_calls.add(call["id"])
            code = "" if call["exitCode"] in (None, 0) else f" (exit code {call['exitCode']})"
            self._line(out, f"  {_SIGNS[call['status']]} {single_line(call['name'])}{code}")
            if call["status"] == "error" or any(
                operation["kind"] == "command" for operation in call.get("operations", ())
            ):
                self._last_lines(out, call.get("output", ""))

    def _last_lines(self, out: list[str], output: str) -> None:
        """The part of a command's output that matters, and why a call failed."""
        lines = [line for line in output.split("\n") if line.strip()]
        if len(lines) > _MOST_LINES:
            lines = [f"… {len(lines) - _MOST_LINES} more lines before", *lines[-_MOST_LINES:]]
        for line in lines:
            text = single_line(line)
            excess = len(text) - _LONGEST_LINE
            more = f"… ({excess:,} more characters)" if excess > 0 else ""
            self._line(out, f"    {text[:_LONGEST_LINE]}{more}")

    def _line(self, out: list[str], text: str) -> None:
        self._end_line(out)
        out.append(f"{text}\n")

    def _end_line(self, out: list[str]) -> None:
        if self._is_line_open:
            out.append("\n")
        self._is_line_open = False


class ServedChat:
    """A session of a server in this terminal."""

    def __init__(self, client: PlainClient, console: Console, *, is_read_only: bool) -> None:
        self._client = client
        self._console = console
        self._is_read_only = is_read_only
        self._transcript = TerminalTranscript()
        self._shown_question: Asking | None = None
        """The question that was shown last: what is typed is the answer to it, and to no other."""
        self._grants: dict[str, str] = {}
        """What is always allowed, by id, as it was shown."""
        self._printed_errors = 0
        self._has_left = threading.Event()
        self._is_input_over = threading.Event()

    def follow(self) -> None:
        if not self._is_read_only:
            threading.Thread(target=self._listen, daemon=True).start()
        for state in self._states():
            if news := self._transcript.news(state):
                write_text(news, is_styled=True)
            self._print_changed_grants(state)
            self._print_questions(state)
            errors = self._client.errors
            for error in errors[self._printed_errors :]:
                self._console.say(f"refused: {error}")
            self._printed_errors = len(errors)

    def _states(self) -> Iterator[dict[str, Any]]:
        """Until the person leaves. With standard input at its end: until the state has not changed for a moment."""
        last: object = None
        while not self._has_left.is_set():
            try:
                state = self._client.until(partial(is_not, last), 0.2)
            except TimeoutError:
                if self._is_input_over.is_set():
                    return
                continue
            last = state
            yield state
            if self._is_read_only and state["runs"] and not state["isLive"]:
                return

    def _print_questions(self, state: dict[str, Any]) -> None:
        """One after the other."""
        waiting = [relay for relay in state["relays"] if relay["status"] == "pending"]
        if self._shown_question is not None and any(
            relay["id"] == self._shown_question.id for relay in waiting
        ):
            return
        self._shown_question = Asking(waiting[0], state["cwd"]) if waiting else None
        if self._shown_question is not None:
            more = f"  ({len(waiting) - 1} more waiting)" if len(waiting) > 1 else ""
            self._console.say(f"{self._shown_question.text()}{more}")

    def _listen(self) -> None:
        for line in sys.stdin:
            text = line.strip()
            if text == "/quit":
                self._has_left.set()
                return
            command = self._meaning(text) if text else None
            if command is not None:
                self._client.send(command)
        if self._client.state["status"] == "running":
            self._client.until(lambda state: state["status"] != "running")
        self._is_input_over.set()

    def _meaning(self, text: str) -> Command | None:
        """None when there is nothing to send."""
        if text in ("/cancel", "/cancel all"):
            return Cancel(queue="keep" if text == "/cancel" else "clear")
        if text == "/continue":
            return Continue()
        if text.startswith("/steer "):
            return Steer(message=text.removeprefix("/steer ").strip())
        if text.startswith("/revoke "):
            grant_id = text.removeprefix("/revoke ").strip()
            return Revoke(grant_id="" if grant_id == "all" else grant_id)
        asking = self._shown_question
        if text == "/grants":
            self._print_grants()
        elif text == SHOW and asking is not None:
            self._console.say(asking.text(is_whole=True))
        elif asking is not None:
            return self._answer(asking, text)
        elif text == SHOW or is_yes_or_no(text):
            self._console.say("nothing is waiting for an answer")
        else:
            return Submit(prompt=text)
        return None

    def _answer(self, asking: Asking, text: str) -> Command | None:
        reply = asking.take(text)
        if reply is None:
            self._console.say(asking.text())
            return None
        return answering_command(asking.relay, reply)

    def _print_changed_grants(self, state: dict[str, Any]) -> None:
        now = {grant["id"]: neutralised(grant["label"]) for grant in state["grants"]}
        before, self._grants = self._grants, now
        for id, label in now.items():
            if id not in before:
                self._console.say(f"always allowed: {label}")
        for id, label in before.items():
            if id not in now:
                self._console.say(f"no longer always allowed: {label}")

    def _print_grants(self) -> None:
        for id, label in self._grants.items():
            self._console.say(f"{id}  {label}")
        self._console.say(
            "/revoke ID, or /revoke all" if self._grants else "nothing is always allowed in this session"
        )
