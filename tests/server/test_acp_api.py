"""ACP on the server: the official clients over WebSocket and HTTP, a second editor that answers, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp.schema
import httpx
import pytest
from acp.http import create_http_stream
from acp.ws.client import create_websocket_stream
from websockets.asyncio.client import connect

import acp
import node_packages
from live_server import TIMEOUT_S, LiveServer
from test_openai_api import BASH, scripted

CLIENT = Path(__file__).parents[1] / "cli" / "acp_client.mjs"
SLOW = '{ text = "word word word word", pieces = 400 }'


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path)
    server.endpoints = ["acp"]
    with server.serving_now() as serving:
        yield serving


def limited(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, TIMEOUT_S))


class EditorOfOthers:
    def __init__(self, allows: bool = True) -> None:
        self.text, self.asked, self.allows = "", 0, allows
        self.updates: list[str] = []
        self.has_asked, self.has_text = asyncio.Event(), asyncio.Condition()

    async def until(self, text: str) -> None:
        async with self.has_text:
            await self.has_text.wait_for(lambda: text in self.text)

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_more: Any) -> Any:
        self.asked += 1
        self.has_asked.set()
        if not self.allows:
            await asyncio.Event().wait()
        chosen = next(one.option_id for one in options if one.kind == "allow_once")
        outcome = acp.schema.AllowedOutcome(option_id=chosen, outcome="selected")
        return acp.schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        self.updates.append(update.session_update)
        if update.session_update == "agent_message_chunk":
            async with self.has_text:
                self.text += update.content.text
                self.has_text.notify_all()

    def on_connect(self, connection: Any) -> None:
        """Nothing is to be done."""


@asynccontextmanager
async def editor(served: LiveServer, how: str, client: EditorOfOthers) -> AsyncIterator[Any]:
    async with httpx.AsyncClient(timeout=None) as http:
        if how == "ws":
            stream = await create_websocket_stream(f"ws://{served.host}/acp", headers=served.bearer)
        else:
            stream = create_http_stream(f"{served.url}/acp", headers=served.bearer, client=http)
        connection = acp.connect_to_agent(client, stream)
        try:
            greeting = await connection.initialize(protocol_version=1)
            assert greeting.agent_info.name == "harness"
            yield connection
        finally:
            await connection.close()


async def begin(served: LiveServer, connection: Any, *turns: str, pause_ms: int = 0) -> str:
    """A session with a model that says this."""
    new = await connection.new_session(cwd=str(served.folder), mcp_servers=[])
    model = scripted(served, *turns, pause_ms=pause_ms).removeprefix("native/")
    await connection.set_config_option(session_id=new.session_id, config_id="model", value=model)
    session: str = new.session_id
    return session


@pytest.mark.parametrize("how", ["ws", "http"])
def test_the_official_client_prompts_is_asked_cancels_lists_and_loads(served: LiveServer, how: str) -> None:
    async def drive() -> None:
        client = EditorOfOthers()
        async with editor(served, how, client) as connection:
            session = await begin(served, connection, BASH, "Made.")
            done = await connection.prompt(prompt=[acp.text_block("make it")], session_id=session)
            assert done.stop_reason == "end_turn"
            assert client.asked == 1
            assert client.text == "Made."
            assert (served.folder / "made").exists()
            listed = await connection.list_sessions()
            assert [one.session_id for one in listed.sessions] == [session]
            slow = await begin(served, connection, SLOW, pause_ms=100)
            waiting = asyncio.ensure_future(connection.prompt(prompt=[acp.text_block("go")], session_id=slow))
            await client.until("word")
            await connection.cancel(session_id=slow)
            assert (await waiting).stop_reason == "cancelled"
        again = EditorOfOthers()
        async with editor(served, how, again) as connection:
            await connection.load_session(cwd=str(served.folder), session_id=session, mcp_servers=[])
            await again.until("Made.")
            assert "user_message_chunk" in again.updates

    limited(drive())


@pytest.mark.parametrize("how", ["ws", "http"])
def test_the_official_client_on_npm_does_so_too(served: LiveServer, how: str) -> None:
    sleep = '{ tool = "bash", input = { command = "sleep 30" } }'
    model = scripted(served, BASH, "Made.", sleep, "No, then.").removeprefix("native/")
    folder = node_packages.folder("@agentclientprotocol/sdk", "ws")
    wanted = {
        "version": 1,
        "cwd": str(served.folder),
        "url": f"{how}://{served.host}/acp",
        "headers": served.bearer,
        "model": model,
    }
    done = subprocess.run(
        ["node", str(CLIENT), json.dumps(wanted)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["first"], report["second"], report["isListed"]) == ("end_turn", "cancelled", True)
    assert report["refusals"] == {
        "session/resume": -32002,
        "session/new": -32602,
        "session/prompt": -32602,
        "no/such": -32601,
    }
    assert (served.folder / "made").exists()


@pytest.mark.parametrize(("first_how", "second_how"), [("ws", "http"), ("http", "ws")])
def test_a_second_editor_answers_and_the_first_one_goes_on(
    served: LiveServer, first_how: str, second_how: str
) -> None:
    async def drive() -> None:
        silent, helpful = EditorOfOthers(allows=False), EditorOfOthers()
        async with editor(served, first_how, silent) as first:
            session = await begin(served, first, BASH, "Made.")
            waiting = asyncio.ensure_future(
                first.prompt(prompt=[acp.text_block("make it")], session_id=session)
            )
            await silent.has_asked.wait()
            async with editor(served, second_how, helpful) as second:
                await second.load_session(cwd=str(served.folder), session_id=session, mcp_servers=[])
                await helpful.has_asked.wait()
                assert (await waiting).stop_reason == "end_turn"
            assert (served.folder / "made").exists()

    limited(drive())


def test_an_editor_that_goes_away_loses_nothing(served: LiveServer) -> None:
    async def drive() -> None:
        silent, helpful = EditorOfOthers(allows=False), EditorOfOthers()
        async with editor(served, "ws", silent) as first:
            session = await begin(served, first, BASH, "Made.")
            waiting = asyncio.ensure_future(
                first.prompt(prompt=[acp.text_block("make it")], session_id=session)
            )
            await silent.has_asked.wait()
        waiting.cancel()
        async with editor(served, "ws", helpful) as second:
            await second.load_session(cwd=str(served.folder), session_id=session, mcp_servers=[])
            await helpful.until("Made.")

    limited(drive())


def request(method: str, id: int = 1, **parameters: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}


def test_what_is_wrong_over_http(served: LiveServer) -> None:
    hello = request("initialize", protocolVersion=1)
    events = {"Accept": "text/event-stream"}
    with served.http() as http:
        assert http.post("/acp", json=request("session/list")).status_code == 400
        assert http.get("/acp", headers=events).status_code == 400
        nobody = {"Acp-Connection-Id": "x"}
        assert http.post("/acp", json=request("session/list"), headers=nobody).status_code == 404
        assert http.delete("/acp", headers=nobody).status_code == 404
        assert http.post("/acp", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
        assert http.post("/acp", json=[hello]).status_code == 400
        large = request("session/prompt", prompt="x" * (5 * 1024 * 1024))
        assert http.post("/acp", json=large).status_code == 413
        assert "error" in http.post("/acp", json=request("initialize")).json()
        answer = http.post("/acp", json=hello)
        assert answer.json()["result"]["protocolVersion"] == 1
        ours = {"Acp-Connection-Id": answer.headers["acp-connection-id"]}
        assert http.get("/acp", headers=ours).status_code == 406
        prompt = request("session/prompt", sessionId="nope", prompt=[])
        assert http.post("/acp", json=prompt, headers=ours).status_code == 400
        told = ours | {"Acp-Session-Id": "nope"}
        listed = {"jsonrpc": "2.0", "id": 3, "method": "session/load", "params": [1]}
        assert http.post("/acp", json=listed | {"method": "session/prompt"}, headers=told).status_code == 400
        for body in (prompt, request("no/such", 2), listed, {"jsonrpc": "1.0"}):
            assert http.post("/acp", json=body, headers=told).status_code == 202
        for headers, codes in ((told, {-32002}), (ours, {-32601, -32602, -32600})):
            with http.stream("GET", "/acp", headers=headers | events) as stream:
                seen: set[int] = set()
                for line in stream.iter_lines():
                    if line.startswith("data: "):
                        seen.add(json.loads(line[6:])["error"]["code"])
                    if seen == codes:
                        break
        assert http.delete("/acp", headers=ours).status_code == 202
        assert http.get("/acp", headers=ours | events).status_code == 404
    assert httpx.post(f"{served.url}/acp", json=hello, timeout=TIMEOUT_S).status_code == 401


def test_what_is_wrong_over_a_socket_ends_nothing(served: LiveServer) -> None:
    async def drive() -> None:
        async with connect(f"ws://{served.host}/acp", additional_headers=served.bearer) as socket:
            codes = []
            for sent in (
                "{not json}",
                "[]",
                json.dumps(request("session/list")),
                json.dumps(request("initialize", protocolVersion="one")),
                json.dumps(request("initialize", protocolVersion=1)),
                json.dumps(request("no/such")),
                json.dumps(request("session/load", sessionId="nope", cwd="/", mcpServers=[])),
            ):
                await socket.send(b"\0binary is ignored")
                await socket.send('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":[1]}}')
                await socket.send(sent)
                answer = json.loads(await asyncio.wait_for(socket.recv(), TIMEOUT_S))
                codes.append(answer.get("error", {}).get("code"))
            assert codes == [-32700, -32600, -32600, -32602, None, -32601, -32002]

    limited(drive())


def test_it_is_off_unless_it_is_named(live: LiveServer) -> None:
    with live.http() as http:
        assert http.post("/acp", json=request("initialize", protocolVersion=1)).status_code in (404, 405)


def test_what_another_editor_has_open_goes_on_when_one_closes_it(served: LiveServer) -> None:
    async def drive() -> None:
        silent, helpful = EditorOfOthers(allows=False), EditorOfOthers()
        async with editor(served, "ws", silent) as first, editor(served, "ws", helpful) as second:
            session = await begin(served, first, BASH, "Made.")
            helpful.allows = False
            waiting = asyncio.ensure_future(
                first.prompt(prompt=[acp.text_block("make it")], session_id=session)
            )
            await silent.has_asked.wait()
            await second.load_session(cwd=str(served.folder), session_id=session, mcp_servers=[])
            await helpful.has_asked.wait()
            await second.close_session(session_id=session)
            helpful.allows = True
            helpful.has_asked.clear()
            await second.load_session(cwd=str(served.folder), session_id=session, mcp_servers=[])
            assert (await waiting).stop_reason == "end_turn"
            assert helpful.text.endswith("Made.")

    limited(drive())


def test_an_id_that_is_sent_twice_over_http_is_answered_on_the_stream_of_its_session(
    served: LiveServer,
) -> None:
    with served.http() as http:
        events = {"Accept": "text/event-stream"}
        greeting = http.post("/acp", json=request("initialize", protocolVersion=1))
        headers = {"acp-connection-id": greeting.headers["acp-connection-id"]}
        with http.stream("GET", "/acp", headers=headers | events) as whole:
            place = {"cwd": str(served.folder), "mcpServers": []}
            http.post("/acp", headers=headers, json=request("session/new", 2, **place))
            session = answered(whole.iter_lines(), 2)["result"]["sessionId"]
            named = headers | {"acp-session-id": session}
            with http.stream("GET", "/acp", headers=named | events) as of_session:
                prompt = [{"type": "text", "text": "/title One"}]
                for _ in range(2):
                    asked = request("session/prompt", 3, sessionId=session, prompt=prompt)
                    http.post("/acp", headers=named, json=asked)
                lines = of_session.iter_lines()
                answers = [answered(lines, 3) for _ in range(2)]
                assert {"result"} <= {name for answer in answers for name in answer}


def answered(lines: Iterator[str], id: int) -> Any:
    """The answer to this request, of a stream."""
    for line in lines:
        if line.startswith("data: ") and (message := json.loads(line[6:])).get("id") == id:
            return message
    pytest.fail("the stream has ended")
