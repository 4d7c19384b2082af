"""Conversations with an agent that runs a server: real runs over HTTP, with a small agent in place of a real one."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.request import Request
from harness.events import (
    Error,
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    ToolEnd,
    ToolStart,
    Unknown,
)
from harness.log.stores.files import FileStore
from harness.runs.audit import check
from harness.runs.program_conversation import ProgramConversation
from harness.runs.run import Run, start
from python_programs import PYTHON

AGENT = Path(__file__).with_name("served_agent.py")
Act = Callable[[Run, Event], object]


class Talk:
    """Runs on one line, each with its proof from the raw record."""

    def __init__(self, folder: Path, **options: Any) -> None:
        program = folder / "opencode"
        program.write_text(f'#!/bin/sh\nexec {PYTHON} -I -S {shlex.quote(str(AGENT))} "$@"\n')
        program.chmod(0o755)
        self.store = FileStore(str(folder / "store"))
        self.conversation = ProgramConversation()
        common = {"agent": "opencode", "binary": str(program), "cwd": str(folder), "two_way": True}
        self.options = {**common, "permissions": "ask", **options}

    def run(self, prompt: str, act: Act | None = None) -> tuple[list[Event], Result]:
        run = start(Request(prompt=prompt, **self.options), store=self.store, conversation=self.conversation)
        events: list[Event] = []
        for event in run:
            events.append(event)
            if act is not None:
                act(run, event)
        audit = check(self.store, run.log_id)
        assert audit.problems == []
        assert not [event for event in events if isinstance(event, Unknown)]
        return events, run.wait()

    @property
    def pid(self) -> int:
        line = self.conversation.line
        assert line is not None
        return line.child.pid


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    made = Talk(tmp_path)
    yield made
    made.conversation.close()


def of(kind: type[Any], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def replying(**reply: Any) -> Act:
    return lambda run, event: isinstance(event, Relay) and run.reply(event.id, **reply)


def test_one_server_answers_one_prompt_after_the_other(talk: Talk) -> None:
    _, first = talk.run("hello")
    pid = talk.pid
    _, second = talk.run("again")

    assert (first.text, second.text) == ("You said: hello", "You said: again")
    assert talk.pid == pid
    assert first.usage is not None
    assert second.usage == first.usage


def test_a_call_runs_once_it_is_approved(talk: Talk) -> None:
    events, result = talk.run("run make", replying(approved=True))

    [relay] = of(Relay, events)
    assert (relay.tool_name, relay.input) == ("bash", {"command": "make"})
    assert [reply.approved for reply in of(RelayReply, events)] == [True]
    assert [end.success for end in of(ToolEnd, events)] == [True]
    assert result.text == "Done."


def test_the_reason_of_a_refusal_reaches_the_agent(talk: Talk) -> None:
    events, result = talk.run("run rm x", replying(approved=False, reason="Not that."))

    [end] = of(ToolEnd, events)
    assert end.output.endswith("feedback: Not that.")
    assert result.success


def test_a_message_in_the_middle_of_a_turn_is_taken(talk: Talk) -> None:
    def act(run: Run, event: Event) -> None:
        if isinstance(event, Relay):
            run.steer("look")
            run.reply(event.id, approved=True)

    _, result = talk.run("run make", act)

    assert result.text == "Done. Also look."


def test_an_interrupt_ends_the_turn_and_not_the_server(talk: Talk) -> None:
    talk.run("hello")
    pid = talk.pid

    def act(run: Run, event: Event) -> None:
        if isinstance(event, Relay):
            run.reply(event.id, approved=True)
        elif isinstance(event, RelayReply):
            run.cancel()

    events, result = talk.run("run sleep 60", act)

    assert result.outcome == "interrupted"
    assert [type(event) for event in events if isinstance(event, ToolStart | ToolEnd)] == [ToolStart, ToolEnd]
    assert not of(Error, events)
    assert talk.run("still here")[1].text == "You said: still here"
    assert talk.pid == pid


def test_an_interrupt_while_it_asks_refuses_the_call(talk: Talk) -> None:
    def act(run: Run, event: Event) -> None:
        if isinstance(event, Relay):
            run.cancel()

    events, result = talk.run("run make", act)

    assert result.outcome == "interrupted"
    assert [reply.approved for reply in of(RelayReply, events)] == [False]


def test_a_server_that_is_killed_while_it_asks_fails_the_run_and_the_next_one_starts_another(
    talk: Talk,
) -> None:
    talk.run("hello")
    pid = talk.pid

    def act(_: Run, event: Event) -> None:
        if isinstance(event, Relay):
            os.kill(pid, signal.SIGKILL)

    events, result = talk.run("run make", act)

    assert result.outcome == "failed"
    assert [reply.approved for reply in of(RelayReply, events)] == [False]
    assert talk.run("hello")[1].success
    assert talk.pid != pid


@pytest.mark.parametrize(("permissions", "is_run"), [("full-access", True), ("read-only", False)])
def test_without_a_person_the_permissions_decide(tmp_path: Path, permissions: Any, is_run: bool) -> None:
    talk = Talk(tmp_path, permissions=permissions)
    try:
        events, _ = talk.run("run touch x")
    finally:
        talk.conversation.close()

    assert [end.success for end in of(ToolEnd, events)] == [is_run]
    assert not of(Relay, events)


def test_the_password_is_in_no_record(talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password = "the-password-of-this-server"
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _: password)
    talk.run("run make", replying(approved=True))

    files = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert any(b"session.idle" in data for data in files)
    encoded = b64encode(f"harness:{password}".encode())
    assert not [data for data in files if password.encode() in data or encoded in data]


def test_what_the_user_said_is_in_the_log_once(talk: Talk) -> None:
    events, _ = talk.run("hello")

    assert [message.text for message in of(Message, events) if message.role == "user"] == ["hello"]
