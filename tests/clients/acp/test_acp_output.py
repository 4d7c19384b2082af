"""ACP to clients that read slowly: what they have not read is not kept for them, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from harness.clients.acp.connection import AcpConnection
from harness.clients.acp.host import AcpHost
from harness.clients.acp.stdio import LineOutput, MessageTooLong, ReadLine
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.shared_backend import open_backend
from harness.config import Settings
from harness.events import Message, Result, SessionStart, ToolEnd, ToolStart
from harness.log.hub import Hub
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.server.api.acp import WaitingMessages

MANY = 5_000
MEGABYTE = 1024 * 1024


def within(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


class SlowEditor:
    """Reads when it is told to."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.reads = asyncio.Event()
        self.is_asked_for_room = asyncio.Event()

    def send(self, message: dict[str, Any], /) -> None:
        self.told.append(message)
        if "id" in message:
            self.answers[message["id"]].set_result(message)

    async def room(self, _session: str, /) -> None:
        self.is_asked_for_room.set()
        await self.reads.wait()

    async def answer(self, connection: AcpConnection, method: str, **parameters: Any) -> dict[str, Any]:
        number = len(self.answers)
        answer = self.answers[number] = asyncio.get_running_loop().create_future()
        connection.take({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        return await answer


def long_session(store: FileStore, cwd: str) -> str:
    log_id = "01a1f4ed-5cd0-7b57-a22a-64aaaaaaaaaa"
    writer = store.create(Metadata(session_id=log_id, agent_name="native", cwd=cwd, kind="thread"))
    hub = Hub(store, log_id, writer)
    hub.append([SessionStart(agent="native", session_id=log_id, cwd=cwd)], {"": "t"})
    for number in range(MANY):
        call = f"c{number}"
        events = [
            ToolStart(call_id=call, tool_name="ls"),
            ToolEnd(call_id=call, tool_name="ls", success=True),
        ]
        hub.append(events, {"": "t"})
    hub.append([Message(id="m", role="assistant", text="The end."), Result(success=True)], {"": "t"})
    hub.close()
    return log_id


def test_a_long_session_is_told_as_fast_as_its_client_reads(tmp_path: Path) -> None:
    async def work() -> None:
        store, cwd = FileStore(tmp_path / "sessions"), str(tmp_path)
        log_id = long_session(store, cwd)
        default = Setup(agent="native", cwd=cwd)
        host = AcpHost(store, open_backend(store, default), default, Settings({}))
        editor = SlowEditor()
        connection = AcpConnection(host, editor)
        await editor.answer(connection, "initialize", protocolVersion=1)
        loading = asyncio.ensure_future(
            editor.answer(connection, "session/load", sessionId=log_id, cwd=cwd, mcpServers=[])
        )
        await editor.is_asked_for_room.wait()
        assert len(editor.told) < 10  # the others wait in the log
        listed = await editor.answer(connection, "session/list")  # and nothing else waits for them
        assert [one["sessionId"] for one in listed["result"]["sessions"]] == [log_id]
        editor.reads.set()
        assert "result" in await loading
        calls = [one for one in editor.told if "completed" in str(one)]
        assert len(calls) == MANY
        connection.close()
        await host.close()

    within(work())


def test_a_pipe_that_is_not_read_has_no_room(tmp_path: Path) -> None:
    async def work() -> None:
        source, target = os.pipe()
        output = LineOutput(target, lambda: None)
        for _ in range(6):
            output.send({"text": "x" * MEGABYTE})
        waiting = asyncio.ensure_future(output.room("s"))
        await asyncio.sleep(0)
        assert not waiting.done()
        read = 0
        while read < 6 * MEGABYTE:
            read += len(await asyncio.to_thread(os.read, source, MEGABYTE))
        await waiting
        await asyncio.to_thread(output.close)
        os.close(source)
        os.close(target)

    within(work())


def test_a_stream_that_is_not_read_has_no_room_and_ends_some_time() -> None:
    async def work() -> None:
        box = WaitingMessages()
        message = {"text": "x" * (3 * MEGABYTE)}
        for _ in range(3):
            box.send(message)
        await box.room()  # nobody reads yet: some open their stream only when they have an answer
        with box.reading():
            waiting = asyncio.ensure_future(box.room())
            await asyncio.sleep(0)
            assert not waiting.done()
            assert [len(await box.next()) for _ in range(2)] == [2, 1]
            await waiting
        for _ in range(100):
            box.send(message)
        assert box.is_over

    within(work())


def test_of_a_message_that_is_too_long_its_id_is_known() -> None:
    filling = b"y" * MEGABYTE

    def id_of(start: bytes, end: bytes) -> str | int | None:
        line = ReadLine()
        line.add(start)
        for _ in range(65):
            line.add(filling)
        line.add(end)
        try:
            line.taken()
        except MessageTooLong as error:
            return error.request_id
        raise AssertionError("it is not too long")

    assert id_of(b'{"jsonrpc":"2.0", "id" : 7,"method":"m","params":"', b'"}') == 7
    assert id_of(b'{"id":"a\\"b","params":"', b'"}') == 'a"b'
    assert id_of(b'{"method":"m","params":{"a":"', b'"},"jsonrpc":"2.0","id":"z"}') == "z"
    assert id_of(b'{"params":{"a":"', b'"},"id":-5,"method":"m"} \r') == -5
    assert id_of(b'{"params":{"a":"', b'","id":5}}') is None  # that one is inside
    assert id_of(b'{"id":true,"params":"', b'"}') is None
    assert id_of(b"[" * 9000, b"]") is None
    assert id_of(b"", b"") is None
    line = ReadLine()
    line.add(b" {} \r")
    assert line.taken() == b"{}"
    assert line.taken() == b""
