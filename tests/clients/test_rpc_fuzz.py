"""Whatever the client of a protocol sends: each request with an id is answered once, and the next one as ever."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.clients.acp.connection import AcpConnection
from harness.clients.acp.host import AcpHost
from harness.clients.acp.rpc_connection import RpcConnection, is_request_id
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.shared_backend import open_backend
from harness.clients.mcp.agent_tools import AgentTools
from harness.clients.mcp.limits import CallLimits, Reach
from harness.clients.mcp.server import McpConnection
from harness.config import Settings
from harness.log.stores.files import FileStore

ROUNDS = 400
DEEP = "[" * 100_000 + "]" * 100_000
VALUES: list[Any] = [
    *(None, True, 0, -1, 2**80, 1.5, "", "x", "\x00", "../../etc/passwd", "claude:../x", "é" * 5_000),
    *([], [[]], [None], {}, {"": {}}, {"type": "text"}, [{"type": "text", "text": "x"}], "s" * 5_000),
]
IDS: list[Any] = [1_001, 1_002, 1_003, "a", "b", -5, 10**15, "i" * 4_000]
ACP = {
    "initialize": {"protocolVersion": 1, "clientCapabilities": {}},
    "authenticate": {"methodId": "agents"},
    "session/new": {"cwd": "/", "mcpServers": []},
    "session/load": {"sessionId": "x", "cwd": "/", "mcpServers": []},
    "session/resume": {"sessionId": "x", "cwd": "/"},
    "session/fork": {"sessionId": "x", "cwd": "/"},
    "session/list": {"cwd": "/", "cursor": "0"},
    "session/prompt": {"sessionId": "x", "prompt": [{"type": "text", "text": "/title x"}]},
    "session/close": {"sessionId": "x"},
    "session/delete": {"sessionId": "x"},
    "session/set_mode": {"sessionId": "x", "modeId": "plan"},
    "session/set_config_option": {"sessionId": "x", "configId": "mode", "value": "plan"},
    "session/cancel": {"sessionId": "x"},
    "$/cancel_request": {"requestId": 1},
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
MCP = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}},
    "ping": {},
    "server/discover": {"_meta": META},
    "tools/list": {"_meta": META},
    "tools/call": {"name": "list_sessions", "arguments": {"limit": 3}, "_meta": META},
    "tasks/get": {"taskId": "x", "_meta": META},
    "tasks/update": {"taskId": "x", "inputResponses": {"a": {"action": "accept"}}, "_meta": META},
    "tasks/cancel": {"taskId": "x", "_meta": META},
    "notifications/cancelled": {"requestId": 1},
    "notifications/initialized": {},
}
TOOLS = ("run_agent", "start_agent", "wait_agent", "answer", "hand_over", "show_session", "recall", "no", 7)


class Counted:
    """An output that counts the answers."""

    def __init__(self) -> None:
        self.answers: Counter[Any] = Counter()
        self.failures: list[Any] = []

    def send(self, message: dict[str, Any], /) -> None:
        assert message["jsonrpc"] == "2.0"
        json.dumps(message)
        if "method" not in message:
            assert ("result" in message) is not ("error" in message)
            if "error" in message:
                assert message["error"]["code"] < -32_000
                if "internal error" in message["error"]["message"]:
                    self.failures.append(message)
            self.answers[message["id"]] += 1

    async def room(self, _session: str, /) -> None:
        """There is always room."""


def messages(chance: random.Random, methods: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any] | bytes]:
    for _ in range(ROUNDS):
        kind = chance.randrange(12)
        method = chance.choice([*methods, "no/such"])
        parameters = json.loads(json.dumps(methods.get(method, {})))
        for name in list(parameters):
            if chance.random() < 0.3:
                parameters[name] = chance.choice(VALUES)
            elif chance.random() < 0.1:
                del parameters[name]
        if method == "tools/call" and chance.random() < 0.5:
            names = ("session", "prompt", "agent", "cwd", "model", "answer", "seconds", "query", "limit")
            given = {name: chance.choice(VALUES) for name in names if chance.random() < 0.7}
            parameters |= {"name": chance.choice(TOOLS), "arguments": given}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": chance.choice(IDS), "method": method}
        message["params"] = parameters
        if kind == 0:
            message[chance.choice(list(message))] = chance.choice(VALUES)
        elif kind == 1:
            del message[chance.choice(list(message))]
        if kind == 2:
            data = json.dumps(message).encode()
            place = chance.randrange(len(data))
            yield data[:place] + bytes((chance.randrange(256),)) + data[place + chance.randrange(2) :]
        elif kind == 3:
            odd = (b"", b"[]", b"null", b'"\\ud800"', b"\xff\xfe", b"{", DEEP.encode(), b"1e999")
            yield chance.choice(odd)
        else:
            yield message


def expected(message: dict[str, Any] | bytes) -> Any:
    """The id that the answer has; None where it is not known, or nobody answers."""
    if isinstance(message, bytes):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            read = msgspec.json.decode(message)
            return expected(read) if isinstance(read, dict) else None
        return None
    is_request = isinstance(message.get("method"), str) and message.get("jsonrpc") == "2.0"
    id = message.get("id")
    return id if is_request and is_request_id(id) and id != 2**80 else None


async def hold(connection: RpcConnection, output: Counted, methods: dict[str, Any], seed: int) -> None:
    wanted: Counter[Any] = Counter()
    for message in messages(random.Random(seed), methods):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        connection.receive(data)
        if (id := expected(message)) is not None:
            wanted[id] += 1
        await asyncio.sleep(0)
    until = asyncio.get_running_loop().time() + 30
    while any(output.answers[id] < count for id, count in wanted.items()):
        assert asyncio.get_running_loop().time() < until, wanted - output.answers
        await asyncio.sleep(0.01)
    assert not {id: count for id, count in output.answers.items() if id in wanted and count > wanted[id]}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("protocol", ["acp", "mcp"])
def test_every_request_is_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, seed: int
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    failures: list[Any] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, about: failures.append(about))
        store, cwd = FileStore(tmp_path / "sessions"), str(tmp_path)
        default = Setup(agent="native", model="scripted/none", permission_mode="readOnly", cwd=cwd)
        host = AcpHost(store, open_backend(store, default), default, Settings({}))
        output = Counted()
        output.failures = failures
        tools = AgentTools(host, CallLimits({}), Reach(permission_mode="readOnly", folders=[cwd]))
        connection = AcpConnection(host, output) if protocol == "acp" else McpConnection(tools, output)
        await hold(connection, output, ACP if protocol == "acp" else MCP, seed)
        connection.close()
        await tools.close()
        await host.close()

    asyncio.run(asyncio.wait_for(work(), 60))
    assert not failures
