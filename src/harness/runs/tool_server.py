"""Tools of ours for an agent program: a server of MCP on loopback, for whoever knows its token.

    initialize, ping, tools/list    answered at once
    tools/call                      a stream: signs of life while it runs, then what it gave

Rules
1. The token is not on a command line and not in an environment: the program is params it in a file of its own, or over
   the pipe that it is spoken to. Who sends another one, or is a web page, is refused.
2. The server decides nothing: whether a call may be made is up to `call`, whatever the program has asked about it.
3. A call whose client is gone, or that is cancelled, is cancelled.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeAlias
from zlib import crc32

import msgspec

from harness.contracts.model import ToolSpec
from harness.contracts.tool import ToolOutput
from harness.contracts.tool_servers import ServedTools
from harness.formats.fields import record_of, text_of
from harness.gateway.http_requests import USUAL_BOUNDS, ArrivedRequest, BadRequest
from harness.gateway.listener import ADDRESS, ConnectionListener
from harness.gateway.reply import Reply
from harness.runs.run_gateway import TOKEN_PREFIX
from harness.version import __version__

PATH = "/mcp"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ALIVE_S = 10.0
"""Between two signs of life of a call that takes long: clients give up on one that says nothing."""
_UNKNOWN_METHOD, _INVALID, _PARSE = -32601, -32602, -32700
_Fields: TypeAlias = dict[str, Any]
_Call: TypeAlias = Callable[[str, dict[str, Any]], Coroutine[Any, Any, ToolOutput]]


class ToolServer:
    """Contract: `tools` and `call` are called in the event loop that it is made in; `close` ends every call."""

    def __init__(self, name: str, tools: Callable[[], Sequence[ToolSpec]], call: _Call) -> None:
        """`name`: by which the program knows the server. Raises OSError."""
        self._tools, self._call = tools, call
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._running: dict[Any, Future[ToolOutput]] = {}
        listening = socket.create_server((ADDRESS, 0))
        self._port: int = listening.getsockname()[1]
        self._token = TOKEN_PREFIX + secrets.token_urlsafe(24)
        self._folder = tempfile.mkdtemp(prefix="harness-tools-")
        self._name = name
        self._file = os.path.join(self._folder, "mcp.json")
        with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode({"mcpServers": {name: self._served().entry}}))
        self._listener = ConnectionListener([listening], self._serve, _refuse, USUAL_BOUNDS, self._admit)

    def served(self) -> ServedTools:
        """What the program is told of it, with the tools of now. In the event loop."""
        tools = self._tools()
        spelling = msgspec.json.encode([(tool.name, tool.description, tool.schema) for tool in tools])
        return msgspec.structs.replace(self._served(), shape=f"{len(tools)}-{crc32(spelling):x}")

    def _served(self) -> ServedTools:
        url = f"http://{ADDRESS}:{self._port}{PATH}"
        return ServedTools(name=self._name, url=url, token=self._token, file=self._file)

    def cancel_all(self) -> None:
        with self._lock:
            running = list(self._running.values())
        for call in running:
            call.cancel()

    def close(self) -> None:
        """Blocks until its threads have ended."""
        self.cancel_all()
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # In the threads of connections

    def _serve(self, request: ArrivedRequest, connection: socket.socket) -> Reply:
        reply = Reply(connection, request.method)
        if request.method != "POST":
            reply.whole_json(405, {"error": "only POST is answered here"}, {"allow": "POST"})
        else:
            self._take(request, reply)
        return reply

    def _admit(self, request: ArrivedRequest) -> bool:
        """Before the body is read. Raises BadRequest."""
        headers = request.headers
        if request.target.partition("?")[0] != PATH:
            raise BadRequest(404, "there is nothing here")
        if headers.get("host") not in (f"{ADDRESS}:{self._port}", f"localhost:{self._port}"):
            raise BadRequest(403, "this server is known by another name")
        if "origin" in headers:
            raise BadRequest(403, "web pages are not answered")
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(bearer.encode("utf-8", "replace"), self._token.encode()):
            raise BadRequest(401, "the token is another one")
        return True

    def _take(self, request: ArrivedRequest, reply: Reply) -> None:
        try:
            message = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            reply.whole_json(400, _error(None, _PARSE, "this is not JSON"))
            return
        if not isinstance(message, dict):
            reply.whole_json(400, _error(None, _INVALID, "a message is one JSON-RPC object"))
            return
        method, request_id, params = (
            message.get("method"),
            message.get("id"),
            record_of(message.get("params")),
        )
        if request_id is None or not isinstance(method, str):
            self._note(text_of(method), params)
            reply.whole(202, "application/json", b"")
        elif method == "tools/call":
            self._answer_call(request_id, params, reply)
        else:
            reply.whole_json(200, self._answer(request_id, method, params))

    def _note(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/cancelled":
            with self._lock:
                call = self._running.get(_key(params.get("requestId")))
            if call is not None:
                call.cancel()

    def _answer(self, request_id: Any, method: str, params: _Fields) -> _Fields:
        match method:
            case "initialize":
                version = params.get("protocolVersion")
                result: _Fields = {
                    "protocolVersion": version if version in VERSIONS else VERSIONS[0],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "harness", "title": "Harness", "version": __version__},
                }
            case "ping":
                result = {}
            case "tools/list":
                result = {"tools": [_described(tool) for tool in self._in_loop(self._tools)]}
            case _:
                return _error(request_id, _UNKNOWN_METHOD, f"there is no method {method[:80]!r}")
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    def _in_loop(self, what: Callable[[], Sequence[ToolSpec]]) -> Sequence[ToolSpec]:
        async def called() -> Sequence[ToolSpec]:
            return what()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def _answer_call(self, request_id: Any, params: _Fields, reply: Reply) -> None:
        """As a stream: what takes long shows that it lives, and a client that is gone is noticed."""
        name, arguments = text_of(params.get("name")), params.get("arguments")
        coroutine = self._call(name, record_of(arguments))
        try:
            call = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            reply.whole_json(200, _error(request_id, _INVALID, "the session has ended"))
            return
        with self._lock:
            self._running[_key(request_id)] = call
        try:
            reply.head(200, {"content-type": "text/event-stream", "cache-control": "no-cache"})
            progress = record_of(params.get("_meta")).get("progressToken")
            self._wait(call, progress, reply)
            reply.piece(_event(_result_of(request_id, call)))
            reply.end()
        finally:
            call.cancel()
            with self._lock:
                self._running.pop(_key(request_id), None)

    def _wait(self, call: Future[ToolOutput], progress: Any, reply: Reply) -> None:
        signs = 0
        while not _is_done(call, ALIVE_S):
            signs += 1
            if progress is None:
                reply.piece(b": it goes on\n\n")
                continue
            about = {"progressToken": progress, "progress": signs}
            note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": about}
            reply.piece(_event(note))


def _is_done(call: Future[ToolOutput], within_s: float) -> bool:
    try:
        call.exception(within_s)
    except TimeoutError:
        return False
    except CancelledError:
        return True
    return True


def _result_of(request_id: Any, call: Future[ToolOutput]) -> _Fields:
    try:
        output = call.result()
    except CancelledError:
        output = ToolOutput(text="the call was stopped", success=False)
    except Exception as error:  # noqa: BLE001 # a mistake of ours must not leave the program waiting
        output = ToolOutput(text=f"the call failed: {error!r}", success=False)
    content: list[_Fields] = [{"type": "text", "text": output.text}]
    content += [
        {"type": "image", "mimeType": attachment.media_type, "data": attachment.data}
        for attachment in output.attachments
        if attachment.media_type.startswith("image/")
    ]
    result = {"content": content, "isError": not output.success}
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _described(tool: ToolSpec) -> _Fields:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}


def _event(message: _Fields) -> bytes:
    return b"event: message\ndata: " + msgspec.json.encode(message) + b"\n\n"


def _error(request_id: Any, code: int, message: str) -> _Fields:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _key(request_id: Any) -> str:
    return repr(request_id)


def _refuse(request: ArrivedRequest | None, error: BadRequest, connection: socket.socket) -> None:
    reply = Reply(connection, request.method if request is not None else "POST")
    reply.whole_json(error.status, {"error": error.message}, {"connection": "close"})
