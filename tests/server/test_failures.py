"""An internal error of the server is reported to its operator, without secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from harness.clients.commands import Command
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.server.access.responses import Failures
from live_server import LiveServer, Watcher, run

SECRET = "sk-ant-api03-a-secret-that-nobody-may-read"


class Broken(LocalBackend):
    """Has a mistake in it."""

    async def create(self, setup: Setup, log_id: str = "") -> str:
        raise ZeroDivisionError(f"{SECRET} {setup.title}")

    async def carry_out(self, log_id: str, command: Command) -> None:
        raise KeyError(SECRET)


def test_a_mistake_in_a_route_is_one_line_with_its_kind_and_the_route_and_a_traceback(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    with live.serving_now(Broken), live.http() as http:
        answer = http.post(f"/api/sessions?token={SECRET}", json={"title": SECRET})
        assert (answer.status_code, SECRET in answer.text) == (500, False)
        assert http.get("/api/sessions").status_code == 200
        line, trace = live.failures
        assert line == "harness: ZeroDivisionError in POST /api/sessions: an internal error"
        assert "test_failures.py" in trace
        assert SECRET not in trace
        live.failures.clear()


def test_an_error_in_a_socket_is_reported_and_the_client_is_disconnected(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    with live.serving_now():
        session = live.create(model=live.script("x"))["id"]

    async def work() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt=SECRET)
            with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
                while True:
                    await client.receive()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1011

    with live.serving_now(Broken):
        run(work())
        assert live.failures[0] == "harness: KeyError in WEBSOCKET /ws: an internal error"
        assert SECRET not in "".join(live.failures)
        live.failures.clear()


def test_an_error_in_the_background_is_reported_and_without_verbose_there_is_no_traceback() -> None:
    shown_text: list[str] = []

    async def broken_work() -> None:
        raise LookupError(SECRET)

    async def work() -> None:
        Failures(shown_text.append).listen(asyncio.get_running_loop())
        task = asyncio.ensure_future(broken_work())
        await asyncio.wait((task,))
        del task

    asyncio.run(work())
    assert len(shown_text) == 1
    assert shown_text[0].startswith("harness: LookupError in ")
    assert SECRET not in shown_text[0]
