"""Connections without a token: they are few and short, and do not affect others."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from harness.server.access import guard as guard_module
from harness.server.access.connections import Connections
from harness.server.serving import _Acceptor
from live_server import TIMEOUT_S, LiveServer, Watcher, is_done, run
from serve_program import serve_program

_HALF = b"GET / HTTP/1.1\r\nHost: 127"
_STRANGERS = 1_300
_CONVERSATIONS = 160


@contextmanager
def many_files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"this process may have {hard} files open, and the test needs {count}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def half_open(port: int, texts: bytes = _HALF) -> socket.socket:
    stranger = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    stranger.sendall(texts)
    return stranger


def is_cut_off(stranger: socket.socket) -> bool:
    """Whether the server has ended it; waits for that."""
    stranger.settimeout(TIMEOUT_S)
    try:
        while stranger.recv(4096):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_more_strangers_than_files_hurt_neither_a_running_agent_nor_an_honest_request(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    call = [{"type": "tool_call", "name": "bash", "input": {"command": "/bin/echo alive"}}]
    model = live.script(call, call, [{"type": "text", "content": "word " * 300, "pieces": 300}], pause_ms=2)
    strangers: list[socket.socket] = []

    async def work() -> None:
        session = server.create(model=model, permissionMode="fullAuto")
        async with server.connect(session) as connection:
            client = Watcher(connection)
            await client.command("submit", prompt="go")
            await client.until(lambda state: len(state["messages"]) > 1)
            strangers.extend(await asyncio.to_thread(lambda: [half_open(port) for _ in range(_STRANGERS)]))
            for _ in range(5):
                answer = await asyncio.to_thread(
                    httpx.get, f"{server.url}/api/server", headers=server.bearer, timeout=TIMEOUT_S
                )
                assert answer.status_code == 200
            other = server.create(model=model, permissionMode="fullAuto", prompt="again")
            async with server.connect(other) as another:
                for state in (await client.until(is_done), await Watcher(another).until(is_done)):
                    calls = state["messages"][1]["toolCalls"]
                    assert ["alive" in call["output"] for call in calls] == [True, True], calls
                    assert state["messages"][1]["content"] == "word " * 300

    with many_files(_STRANGERS + 200), serve_program(tmp_path, most_files=1024) as server:
        port = int(server.url.rpartition(":")[2])
        try:
            run(work())
            assert server.open_files < 500
            assert all(map(is_cut_off, strangers[:1_000]))
        finally:
            for stranger in strangers:
                stranger.close()


def test_many_more_conversations_than_files_are_started_and_finished(tmp_path: Path) -> None:
    model = LiveServer(tmp_path).script("done")

    with serve_program(tmp_path, most_files=128) as server:
        place = {"base_url": server.url, "headers": server.bearer, "timeout": TIMEOUT_S}
        with httpx.Client(**place) as client:  # type: ignore[arg-type]
            for _ in range(_CONVERSATIONS):
                answer = client.post("/api/sessions", json={"model": model, "prompt": "go"})
                while answer.status_code == 429:
                    time.sleep(0.1)
                    answer = client.post("/api/sessions", json={"model": model, "prompt": "go"})
                assert answer.status_code == 201, answer.text
            query = {"limit": 500}
            deadline_s = time.monotonic() + TIMEOUT_S
            while any(one["isLive"] for one in client.get("/api/sessions", params=query).json()["sessions"]):
                assert time.monotonic() < deadline_s
            listed = client.get("/api/sessions", params=query).json()
            assert listed["total"] == _CONVERSATIONS
            assert {one["outcome"] for one in listed["sessions"]} == {"completed"}
        assert server.open_files < 100


def with_connections(live: LiveServer, connections: Connections) -> None:
    assert live.guard is not None
    live.guard.connections.__dict__.update(connections.__dict__)


@pytest.mark.parametrize(
    "texts",
    [
        b"",
        _HALF,
        b"POST /api/login HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        b"POST /api/sessions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        b"GET /login HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HT",
        b"GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
    ids=["silence", "half a request", "half a login", "half a change", "one and a half", "half a handshake"],
)
def test_what_a_stranger_does_not_finish_ends(live: LiveServer, texts: bytes) -> None:
    with_connections(live, Connections(1024, unasked_s=0.1, stranger_s=0.3))
    with half_open(live.port, texts.replace(b"{host}", live.host.encode())) as stranger:
        assert is_cut_off(stranger)


def test_who_is_let_in_stays_as_long_as_he_likes(live: LiveServer) -> None:
    with_connections(live, Connections(1024, unasked_s=0.1, stranger_s=0.1))

    async def work() -> None:
        session = live.create(model=live.script("x"))
        async with live.connect(session["id"]) as connection:
            client = Watcher(connection)
            await client.receive()
            await asyncio.sleep(1.5)  # strangers are looked at every second
            await client.command("submit", prompt="still there?")
            await client.until(is_done)

    run(work())


def test_a_body_that_does_not_come_is_refused(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "_BODY_PAUSE_S", 0.2)
    head = (
        f"POST /api/sessions HTTP/1.1\r\nHost: {live.host}\r\nAuthorization: Bearer {live.access.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with half_open(live.port, head.encode()) as client:
        client.settimeout(TIMEOUT_S)
        assert client.recv(4096).split()[1] == b"408"


def test_too_many_logged_in_clients_are_refused(live: LiveServer) -> None:
    connections = Connections(1024)
    connections.most_trusted = 1
    with_connections(live, connections)

    async def work() -> None:
        session = live.create(model=live.script("x"))
        async with live.connect(session["id"]) as connection:
            await connection.recv()
            answer = await asyncio.to_thread(httpx.get, f"{live.url}/api/server", headers=live.bearer)
            assert answer.status_code == 503
            assert "too many connections" in answer.json()["error"]["message"]

    run(work())


def test_when_there_is_no_file_for_a_connection_one_does_not_try_without_end() -> None:
    class Full:
        tried = 0

        def accept(self) -> None:
            self.tried += 1
            raise OSError(24, "Too many open files")

        def __getattr__(self, name: str) -> object:
            return getattr(listening, name)

    async def work() -> None:
        full = Full()
        acceptor = _Acceptor(full, asyncio.Protocol, Connections(1024))  # type: ignore[arg-type]
        threading.Thread(target=lambda: socket.create_connection(listening.getsockname()).close()).start()
        await asyncio.sleep(1.0)
        acceptor.close()
        assert 1 <= full.tried <= 10

    with socket.create_server(("127.0.0.1", 0)) as listening:
        run(work())


def test_one_stranger_more_costs_the_one_that_was_there_longest_and_rather_one_that_asks_nothing() -> None:
    aborted: list[int] = []

    class Transport:
        def __init__(self, number: int) -> None:
            self.number = number

        def abort(self) -> None:
            aborted.append(self.number)

    async def work() -> None:
        connections = Connections(128)
        assert connections.most_strangers == 16
        for number in range(18):
            connections.opened(("x", number), Transport(number))  # type: ignore[arg-type]
            if number == 0:
                connections.asked(("x", 0))
        assert aborted == [1, 2]
        assert connections.trust(("x", 5))
        assert connections.trust(("x", 5))
        assert (connections.strangers, connections.trusted) == (15, 1)
        connections.closed(("x", 5))
        connections.closed(("x", 0))
        assert (connections.strangers, connections.trusted) == (14, 0)

    run(work())
