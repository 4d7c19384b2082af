"""The server of this machine is found by its file, and gets the token only after it has proved that it knows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from harness.clients.server_address import (
    TOKEN_VARIABLE,
    ServerCalls,
    address_of,
    forget_address,
    leave_address,
    own_server,
)
from harness.errors import HarnessError, UsageError
from harness.tui.server_data import ServerScreenData
from live_server import LiveServer


@contextmanager
def foreign_server(
    answer: object, relayed_to: str = "", status: int = 200
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A program that listens where a server was; what it is sent, in headers."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            data = json.dumps(answer).encode()
            if relayed_to:
                with urlopen(relayed_to + self.path) as real:
                    data = real.read()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_the_server_proves_that_it_knows_the_token(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, live.access.token)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    leave_address(live.url)
    assert own_server() == (live.url, live.access.token)
    monkeypatch.setenv(TOKEN_VARIABLE, "another token")
    with pytest.raises(HarnessError, match="is not the server of this machine, or has another token"):
        own_server()


@pytest.mark.parametrize(
    "answer", [{"status": "ok"}, {"proof": "0" * 64}, {"proof": 3}, [], "ok", {"proof": "ü"}]
)
@pytest.mark.parametrize("status", [200, 404])
def test_another_program_on_its_port_gets_no_token(
    answer: object, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "the token of programs")
    with foreign_server(answer, status=status) as (url, seen):
        leave_address(url)
        with pytest.raises(HarnessError, match="is not the server of this machine"):
            own_server()
    assert len(seen) == 1
    assert not any("the token" in value for headers in seen for value in headers.values())


def test_a_program_that_has_the_challenge_answered_by_the_server_gets_no_token(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, live.access.token)
    with foreign_server({}, relayed_to=live.url) as (url, _seen):
        leave_address(url)
        with pytest.raises(HarnessError, match="is not the server of this machine"):
            own_server()


def test_the_address_goes_with_the_server_that_left_it() -> None:
    leave_address("http://127.0.0.1:1")
    forget_address("http://127.0.0.1:2")
    assert address_of("") == "http://127.0.0.1:1"
    forget_address("http://127.0.0.1:1")
    with pytest.raises(UsageError, match="no server was started"):
        address_of("")


def test_a_refusal_leaves_no_connection_open() -> None:
    refusal = {"error": {"message": "no such session", "hint": "list them"}}
    with foreign_server(refusal, status=404) as (url, _), pytest.raises(UsageError) as raised:
        ServerCalls(url, "secret").get("/api/sessions/none")
    assert str(raised.value) == "no such session"
    assert isinstance(raised.value.__cause__, HTTPError)
    assert raised.value.__cause__.closed


def test_a_stream_that_is_refused_leaves_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # which is not asked for what is on this machine
    with foreign_server({}, status=404) as (url, _), pytest.raises(UsageError) as raised:
        list(ServerScreenData(url, "secret").sessions.read("none"))
    assert isinstance(raised.value.__cause__, HTTPError)
    assert raised.value.__cause__.closed
