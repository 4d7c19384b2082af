"""`harness attach`: what is shown of a question, whom an answer is for, and what is always allowed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.clients.client.client import PlainClient
from harness.clients.commands import Approve
from live_server import TIMEOUT_S, LiveServer


def bash(command: str, id: str) -> dict[str, Any]:
    return {"type": "tool_call", "name": "bash", "id": id, "input": {"command": command}}


class Attached:
    """The program, and its messages."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._said = ""
        self._seen = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def type(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def until(self, text: str) -> str:
        """What came since the last time, up to a text."""
        with self._changed:
            found = self._changed.wait_for(lambda: text in self._said[self._seen :], TIMEOUT_S)
            news = self._said[self._seen :]
            assert found, f"{text!r} is not in {news!r}"
            end = news.index(text) + len(text)
            self._seen += end
            return news[:end]

    def ask_until(self, command: str, text: str) -> None:
        """Say it again until it is answered so: the program may not have heard yet what others have."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            self.type(command)
            with self._changed:
                if self._changed.wait_for(lambda: text in self._said[self._seen :], 0.3):
                    self._seen = len(self._said)
                    return
        raise AssertionError(f"{command} was never answered with {text!r}")

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._changed:
                self._said += line
                self._changed.notify_all()


@contextmanager
def attached(live: LiveServer, session: str) -> Iterator[Attached]:
    token = live.folder / "server" / "token"
    words = ["attach", session, "--url", live.url, "--token-file", str(token)]
    program = [sys.executable, "-c", "from harness.cli.main import entry; entry()", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        program, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, env=os.environ, text=True
    ) as process:
        try:
            seen = Attached(process)
            yield seen
            seen.type("/quit")
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()


def test_what_is_always_allowed_is_shown_before_and_listed_and_revoked_after(live: LiveServer) -> None:
    model = live.script(
        [bash("/bin/echo one", "a")],
        [bash("/bin/echo one", "b")],
        [bash("/bin/echo one; echo two", "c")],
        "Done.",
    )
    session = live.create(model=model)
    with attached(live, session["id"]) as terminal:
        terminal.type("go")
        assert "? may it call bash: /bin/echo one" in terminal.until("or why not")
        terminal.type("/grants")
        terminal.until("nothing is always allowed in this session")
        terminal.type("a")
        terminal.until("always allowed: exactly: /bin/echo one\n")
        # The second `/bin/echo one` is not asked about; the line of two commands does, and offers no pattern.
        question = terminal.until("or why not")
        assert "? may it call bash: /bin/echo one; echo two" in question
        assert "[a] Always allow exactly: /bin/echo one; echo two" in question
        assert "[p]" not in question
        terminal.type("/grants")
        terminal.until("grant-1  exactly: /bin/echo one\n")
        terminal.type("/revoke grant-1")
        terminal.until("no longer always allowed: exactly: /bin/echo one\n")
        terminal.type("/grants")
        terminal.until("nothing is always allowed in this session")
        terminal.type("n")


def test_what_is_typed_answers_what_was_shown_and_nothing_else(live: LiveServer) -> None:
    session = live.create(model=live.script([bash("/bin/echo one", "a")], "Done."))
    with (
        attached(live, session["id"]) as terminal,
        PlainClient(live.url, token=live.access.token, session=session["id"]) as other,
    ):
        terminal.type("y")
        terminal.until("nothing is waiting for an answer")
        terminal.type("go")
        terminal.until("or why not")
        state = other.until(lambda state: state["relays"], TIMEOUT_S)
        other.send(Approve(relay_id=state["relays"][0]["id"]))
        other.until(lambda state: state["status"] == "idle" and state["messages"], TIMEOUT_S)
        terminal.ask_until("/show", "nothing is waiting for an answer")
        terminal.type("y")  # too late: it must not become a prompt
        terminal.until("nothing is waiting for an answer")
        assert [one["content"] for one in other.state["messages"] if one["role"] == "user"] == ["go"]


def test_hidden_parts_of_a_command_are_counted_and_can_be_seen(live: LiveServer) -> None:
    command = "echo safe \u202e; true" + "\n" * 60 + "echo HIDDEN-PART"
    session = live.create(model=live.script([bash(command, "a")], "Done."))
    with attached(live, session["id"]) as terminal:
        terminal.type("go")
        shown_text = terminal.until("/show shows all of it")
        assert "echo safe <U+202E>; true" in shown_text
        assert "41 more lines" in shown_text
        terminal.until("or why not")
        terminal.type("/show")
        terminal.until("  echo HIDDEN-PART")
        terminal.type("n")
