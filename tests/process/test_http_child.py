"""A server behind the interface of a child process: requests, events, and everything that can go wrong."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.errors import AgentNotFound
from harness.process.child import OutputChunk
from harness.process.http_child import HttpChild, HttpPatience
from harness.process.invocation import Invocation

SERVER = str(Path(__file__).with_name("small_server.py"))
CONNECTED = {"event": "server.connected", "data": {"type": "server.connected", "properties": {}}}
PATIENCE = HttpPatience(pauses_s=(0.05, 0.05, 0.05))


class Peer:
    """A server and what it has said."""

    def __init__(self, behaviour: str = "plain", cwd: str = "/", patience: HttpPatience = PATIENCE) -> None:
        env = {**os.environ, "LAB_SERVER_PASSWORD": "", "LAB_SERVER_USERNAME": ""}
        argv = (sys.executable, "-I", "-S", SERVER, behaviour)
        self.child = HttpChild(Invocation(argv=argv, env=env, cwd=cwd), patience=patience)
        self.stderr = b""
        self.lines: list[dict[str, Any]] = []

    def ask(self, number: int, method: str, path: str, body: Any = None) -> None:
        record = {"id": number, "method": method, "path": path}
        self.child.write(msgspec.json.encode(record if body is None else {**record, "body": body}) + b"\n")

    def read(self) -> list[OutputChunk]:
        chunks = self.child.read(30)
        for chunk in chunks:
            if chunk.stream == "stderr":
                self.stderr += chunk.data
            else:
                assert chunk.data.endswith(b"\n")
                self.lines += [msgspec.json.decode(line) for line in chunk.data.splitlines()]
        return chunks

    def until(self, found: Any) -> dict[str, Any]:
        """Read until a line for which this holds."""
        while not (lines := [line for line in self.lines if found(line)]):
            assert self.child.exit is None, (self.lines, self.stderr)
            self.read()
        return lines[-1]

    def answer(self, number: int) -> dict[str, Any]:
        return self.until(lambda line: line.get("id") == number)

    def count(self, event: str) -> int:
        return sum(line.get("event") == event for line in self.lines)


@pytest.fixture
def peers() -> Iterator[Any]:
    made: list[Peer] = []

    def make(*args: Any, **more: Any) -> Peer:
        made.append(Peer(*args, **more))
        return made[-1]

    yield make
    for peer in made:
        peer.child.close()


def test_requests_wait_for_the_stream_of_events_and_are_answered(peers: Any) -> None:
    peer = peers()
    peer.ask(1, "POST", "/echo", {"a": ["é", None]})
    peer.ask(2, "GET", "/some?x=1")
    peer.ask(0, "POST", "/nothing")
    peer.ask(4, "POST", "/nowhere", 7)

    assert peer.answer(1) == {"id": 1, "status": 200, "body": {"a": ["é", None]}}
    assert peer.answer(2)["body"] == {"path": "/some?x=1"}
    assert peer.answer(0) == {"id": 0, "status": 204, "body": None}
    assert peer.answer(4) == {"id": 4, "status": 404, "body": 7}
    assert peer.lines[0] == CONNECTED


def test_events_come_as_lines_with_their_names_first_and_heartbeats_do_not(peers: Any) -> None:
    peer = peers()
    peer.ask(1, "POST", "/say", {"id": "evt", "type": "session.idle", "properties": {"a": 1}})
    peer.ask(2, "POST", "/say", "no JSON {")

    idle = peer.until(lambda line: line.get("event") == "session.idle")
    assert idle == {
        "event": "session.idle",
        "data": {"id": "evt", "type": "session.idle", "properties": {"a": 1}},
    }
    assert peer.until(lambda line: line.get("event") == "")["data"] == "no JSON {"
    assert peer.count("server.heartbeat") == 0


def test_what_the_server_itself_writes_is_stderr(peers: Any) -> None:
    peer = peers()
    peer.ask(1, "GET", "/some")
    peer.answer(1)

    assert peer.stderr.startswith(b"warming up\nlistening on http://192.0.2.1:80 is not here\nsmall server")


def test_each_server_has_a_password_of_its_own_that_is_not_shown(
    peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    real = secrets.token_urlsafe

    def token(size: int) -> str:
        made.append(real(size))
        return made[-1]

    monkeypatch.setattr(secrets, "token_urlsafe", token)
    for peer in (peers(), peers()):
        peer.ask(1, "GET", "/some")
        peer.answer(1)
        shown = peer.stderr + msgspec.json.encode(peer.lines)
        assert not [password for password in made if password.encode() in shown]

    assert len({password for password in made if len(password) > 30}) == 2


@pytest.mark.parametrize("path", ["/garbage", "/half"])
def test_an_answer_that_cannot_be_read_fails_this_request_only(peers: Any, path: str) -> None:
    peer = peers()
    peer.ask(1, "POST", path, {})

    assert peer.answer(1)["status"] == 0
    assert "the agent's server failed" in peer.answer(1)["error"]
    peer.ask(2, "POST", "/echo", 1)
    assert peer.answer(2)["body"] == 1


def test_a_request_that_is_never_answered_fails_in_the_end(peers: Any) -> None:
    peer = peers(patience=HttpPatience(answer_s=1.5))
    peer.ask(1, "POST", "/never", {})

    assert peer.answer(1)["error"].endswith("it did not answer in time")


def test_a_stream_that_breaks_off_is_opened_again(peers: Any) -> None:
    peer = peers()
    peer.ask(1, "POST", "/cut", {})
    peer.until(lambda _: peer.count("server.connected") == 2)

    peer.ask(2, "POST", "/say", {"type": "again"})
    assert peer.until(lambda line: line.get("event") == "again")


def test_a_silent_stream_is_opened_again(peers: Any) -> None:
    peer = peers(patience=HttpPatience(silence_s=0.2, pauses_s=(0.05,) * 3, lasting_s=0.1))

    peer.until(lambda _: peer.count("server.connected") == 4)


@pytest.mark.parametrize(
    ("behaviour", "patience", "words"),
    [
        ("silent", HttpPatience(address_s=0.3), "did not print its address"),
        ("refuses", PATIENCE, "with status 401"),
        ("flaps", PATIENCE, "closed"),
        ("deaf", PATIENCE, "refused"),
    ],
)
def test_a_server_that_cannot_be_reached_is_reported(
    peers: Any, behaviour: str, patience: HttpPatience, words: str
) -> None:
    peer = peers(behaviour, patience=patience)
    is_flapping = behaviour == "flaps"
    if not is_flapping:
        peer.ask(1, "POST", "/session", {})

    lost = peer.until(lambda line: line.get("event") == "transport.lost")
    assert words in lost["data"]["error"]
    if not is_flapping:
        assert peer.answer(1) == {"id": 1, "status": 0, "error": lost["data"]["error"]}
    peer.ask(2, "GET", "/permission")
    assert peer.answer(2)["status"] == 0


def test_a_server_that_dies_shows_as_the_end_of_its_process(peers: Any) -> None:
    peer = peers()
    peer.ask(1, "POST", "/die", {})
    while peer.child.exit is None:
        peer.read()

    assert peer.child.exit.code == 3
    assert b"dying" in peer.stderr


def test_at_the_end_of_its_input_the_server_answers_and_ends(peers: Any) -> None:
    peer = peers()
    peer.ask(1, "POST", "/echo", "last")
    peer.answer(1)
    peer.ask(2, "POST", "/echo", "very last")
    peer.child.close_stdin()
    while peer.child.exit is None:
        peer.read()

    assert peer.answer(2)["body"] == "very last"
    assert peer.child.exit.tree_empty


def test_a_server_that_is_not_reached_yet_ends_at_once(peers: Any) -> None:
    peer = peers("silent")
    peer.ask(1, "GET", "/x")
    peer.child.close_stdin()
    while peer.child.exit is None:
        peer.read()

    assert peer.lines == []


def test_a_wake_from_another_thread_ends_the_wait(peers: Any) -> None:
    peer = peers()
    peer.until(lambda line: line == CONNECTED)
    while peer.child.read(0.05):
        pass
    threading.Timer(0.1, peer.child.wake).start()
    begun = time.monotonic()

    assert peer.child.read(30) == []
    assert time.monotonic() - begun < 10


def test_the_wait_ends_with_its_time(peers: Any) -> None:
    peer = peers("silent")

    begun = time.monotonic()
    assert peer.child.read(0.1) == []
    assert 0.1 <= time.monotonic() - begun < 10


def test_a_long_answer_and_a_long_event_arrive_whole(peers: Any) -> None:
    peer = peers()
    text = "x" * 3_000_000
    peer.ask(1, "POST", "/say", {"type": "long", "text": text})
    peer.ask(2, "POST", "/echo", text)

    assert peer.until(lambda line: line.get("event") == "long")["data"]["text"] == text
    assert peer.answer(2)["body"] == text


def test_a_program_that_is_missing_is_an_error() -> None:
    env = {"PATH": "/nonexistent", "LAB_SERVER_PASSWORD": ""}
    with pytest.raises(AgentNotFound):
        HttpChild(Invocation(argv=("no-such-server",), env=env, cwd="/"))


def test_a_server_without_a_variable_for_its_password_is_never_started() -> None:
    with pytest.raises(AssertionError, match="password"):
        HttpChild(Invocation(argv=(sys.executable, SERVER, "plain"), env={}, cwd="/"))


def test_nothing_stays_open_after_the_end(peers: Any) -> None:
    peer = peers()
    peer.until(lambda line: line == CONNECTED)
    before = set(os.listdir("/dev/fd"))
    second = peers()
    second.ask(1, "POST", "/never", {})
    second.until(lambda line: line == CONNECTED)
    second.child.close()

    assert set(os.listdir("/dev/fd")) == before
