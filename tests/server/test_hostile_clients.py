"""Clients that stall, flood and send nonsense to a real `harness serve`: its memory stays, and others notice nothing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from live_server import TIMEOUT_S, LiveServer, Watcher, is_done, run
from serve_program import ServeProgram, serve_program

MOST_GROWTH_BYTES = 32 * 1024 * 1024
_OPENING = b'{"type":"commands","commands":[{"type":"answer","relayId":"x","answer":'
_CHUNK = b"x" * (1 << 20)


def frame(payload: bytes, size: int | None = None) -> bytes:
    """A frame of a client's, masked with zeros; `size`: the length in its header."""
    return b"\x81\xff" + (len(payload) if size is None else size).to_bytes(8, "big") + b"\0\0\0\0" + payload


async def sent_until_closed(server: ServeProgram, session: str, *frames: bytes) -> int | None:
    """The code with which the server ends a client that sends all this as fast as it can, whatever is answered;
    None when the connection was cut while there was still more to send.
    """
    async with server.connect(session) as client:
        await client.recv()
        with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
            for data in frames:
                if client.transport.is_closing():
                    break
                client.transport.write(data)
                await asyncio.sleep(0)
            while True:
                await asyncio.wait_for(client.recv(), TIMEOUT_S)
        return closed.value.rcvd.code if closed.value.rcvd is not None else None


async def a_gigabyte(server: ServeProgram, session: str) -> set[int | None]:
    return {await sent_until_closed(server, session, frame(b"", 1 << 30), *([_CHUNK] * 1024))}


async def deep_nesting(server: ServeProgram, session: str) -> set[int | None]:
    deep = frame(_OPENING + b"[" * 100_000)
    return {await sent_until_closed(server, session, deep) for _ in range(10)}


async def ten_thousand_commands(server: ServeProgram, session: str) -> set[int | None]:
    refused = {"type": "withdraw", "followUpId": "nobody"}
    command = frame(json.dumps({"type": "commands", "commands": [refused]}).encode())
    return {await sent_until_closed(server, session, *([command * 100] * 100)) for _ in range(5)}


Attack = Callable[[ServeProgram, str], Awaitable[set[int | None]]]
ATTACKS: dict[Attack, int] = {a_gigabyte: 1009, deep_nesting: 1008, ten_thousand_commands: 1008}


async def attack_until_noticed(
    attack: Attack, code: int, server: ServeProgram, other: Watcher, session: str
) -> None:
    """Attack again and again until another client has seen something new. With two attackers there is always one at it,
    so that a client who is served only after an attack is never served.
    """
    seen = other.state["seq"]
    while True:
        assert await attack(server, session) <= {code, None}
        if other.state["seq"] > seen or is_done(other.state):
            return


def test_memory_is_bounded_under_attack_without_effect_on_others(tmp_path: Path) -> None:
    async def work(server: ServeProgram) -> None:
        words = [{"type": "text", "content": "word " * 2_000, "pieces": 1_000}]
        model = LiveServer(tmp_path).script(words, pause_ms=5)
        session = server.create(model=model)
        async with server.connect(session) as other:
            client = Watcher(other)
            await client.command("submit", prompt="go")
            await client.until(lambda state: len(state["messages"]) > 1)
            before_bytes = server.memory_bytes
            watching = asyncio.ensure_future(client.until(is_done))
            for attack, code in ATTACKS.items():
                attackers = [attack_until_noticed(attack, code, server, client, session) for _ in range(2)]
                async with asyncio.timeout(TIMEOUT_S):
                    await asyncio.gather(*attackers)
            await watching
        assert server.peak_memory_bytes - before_bytes <= MOST_GROWTH_BYTES
        assert client.state["messages"][1]["content"] == "word " * 2_000

    with serve_program(tmp_path) as server:
        run(work(server))


def test_a_client_that_stalled_gets_a_snapshot_instead_of_everything_it_missed(live: LiveServer) -> None:
    """It reads nothing while more is written than the server keeps for those who are behind."""

    async def work() -> None:
        text = [{"type": "text", "content": "x" * 12_000_000, "pieces": 400}]
        model = live.script(text, pause_ms=2)
        session = live.create(model=model)["id"]
        async with narrow(live, session) as stalled, live.connect(session) as other:
            behind, client = Watcher(stalled), Watcher(other)
            await behind.receive()
            stalled.transport.pause_reading()
            await client.command("submit", prompt="go")
            final = await client.until(is_done)
            stalled.transport.resume_reading()
            await behind.until(lambda state: state["seq"] == final["seq"] and is_done(state))
            assert behind.state["messages"] == final["messages"]
            kinds = [message["type"] for message in behind.messages]
            assert kinds.count("state") == 2
            assert len(kinds) < len(client.messages) / 2

    run(work())


def narrow(live: LiveServer, session: str) -> connect:
    """A connection that takes little at once."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    plain.connect(("127.0.0.1", live.port))
    return live.connect(session, sock=plain)
