"""The scripted model: a small HTTP/1.1 server on loopback that answers every model API from one script.

    with LabServer(ScriptRun(script)) as server:
        ...  # point an agent at server.url

A path is matched by its end, so a base URL may have any prefix. Streams are sent event by event in chunks, and can
break in the middle; connections stay open. The server listens on 127.0.0.1 only.
"""

from __future__ import annotations

import errno
import gzip
import itertools
import socket
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl, unquote

import msgspec

from harness.contracts.script import DropFault, StatusFault
from harness.errors import UsageError
from harness.lab.request_log import RequestEntry, RequestLog, public_path, without_secrets
from harness.lab.script_run import SIDE, ScriptReply, ScriptRun
from harness.lab.wires.wire import (
    HttpRequest,
    ModelRequest,
    StreamFailure,
    StreamFrame,
    WireFormat,
    all_wires,
    encode,
)

ADDRESS = "127.0.0.1"
_POLL_S = 0.02
"""How soon the listener notices that it is closed."""
_JOIN_S = 5.0
PAGE_PATH = "/lab/page"
_PAGE = (
    b"<!doctype html><html><head><title>Lab page</title></head>"
    b"<body><h1>Lab page</h1><p>Hello from the lab.</p></body></html>\n"
)
_JSON, _HTML = "application/json", "text/html; charset=utf-8"
_REFUSALS = {
    400: "The scripted model refuses this request.",
    401: "Incorrect API key provided: invalid x-api-key. API key not valid.",
    402: "Your credit balance is too low.",
    403: "This key may not do that.",
    404: "The model does not exist.",
    408: "The request timed out.",
    409: "The request conflicts with another one.",
    413: "The request is too large.",
    422: "The request cannot be processed.",
    429: "Rate limit reached. Please try again later.",
    500: "Internal server error.",
    502: "Bad gateway.",
    503: "The service is currently overloaded. Please try again later.",
    504: "Gateway timeout.",
    529: "Overloaded.",
}
"""Messages that clients of the APIs look for."""


class LabServer:
    """Contract: answers from its construction until `close`, which ends every open answer at once.

    Raises UsageError when the port is taken or the record cannot be written.
    """

    def __init__(
        self,
        script_run: ScriptRun | None = None,
        *,
        port: int = 0,
        record_path: str = "",
        on_entry: Callable[[RequestEntry], object] | None = None,
    ) -> None:
        self.script_run = script_run
        """May be given later, when it needs the server's own address."""
        self.log = RequestLog(record_path, on_entry)
        self.numbers = itertools.count(1)
        self.closing = threading.Event()
        self.faults: list[BaseException] = []
        """What went wrong in the server itself; should stay empty."""
        try:
            self._listener = _Listener(self, port)
        except (OSError, OverflowError) as error:
            self.log.close()
            raise _cannot_listen(port, error) from error
        self.port: int = self._listener.server_address[1]
        self.url = f"http://{ADDRESS}:{self.port}"
        loop = self._listener.serve_forever
        self._thread = threading.Thread(target=loop, args=(_POLL_S,), name="lab-server", daemon=True)
        self._thread.start()

    @property
    def requests(self) -> list[RequestEntry]:
        """All so far, in order of arrival."""
        return self.log.entries

    def close(self) -> None:
        if self.closing.is_set():
            return
        self.closing.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join(_JOIN_S)
        self._listener.hang_up()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cannot_listen(port: int, error: OSError | OverflowError) -> UsageError:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return UsageError(f"port {port} is in use", hint="choose another with --port, or 0 for any free one")
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return UsageError(f"cannot listen on port {port}: {reason}", hint="choose another with --port")


class _Listener(socketserver.TCPServer):
    """Knows its connections, so that it can end them; a name server is never asked."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, lab: LabServer, port: int) -> None:
        self.lab = lab
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        super().__init__((ADDRESS, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        name = f"lab-connection-{client_address[1]}"
        thread = threading.Thread(
            target=self._converse, args=(request, client_address), name=name, daemon=True
        )
        with self._lock:
            self._open[thread] = request
        thread.start()

    def _converse(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            pass  # the client has closed the connection
        except Exception as error:
            self.lab.faults.append(error)
        finally:
            self.shutdown_request(request)
            with self._lock:
                self._open.pop(threading.current_thread(), None)

    def hang_up(self) -> None:
        with self._lock:
            threads = dict(self._open)
        for connection in threads.values():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in threads:
            thread.join(_JOIN_S)


class _Handler(BaseHTTPRequestHandler):
    """From the standard library's parsed request to ours."""

    protocol_version = "HTTP/1.1"
    server_version = "harness-lab"
    sys_version = ""
    disable_nagle_algorithm = True
    server: _Listener

    def do_GET(self) -> None:
        lab = self.server.lab
        _Exchange(self, lab.script_run, lab.log, lab.closing, next(lab.numbers)).serve()

    # The standard library looks for these names.
    do_POST = do_HEAD = do_OPTIONS = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are in the log."""


class _Exchange:
    """One request, from its arrival to the last byte of its answer.

    Contract: `serve` answers or closes the connection. An OSError means that the client has closed it.
    """

    def __init__(
        self,
        http: BaseHTTPRequestHandler,
        script_run: ScriptRun | None,
        log: RequestLog,
        closing: threading.Event,
        number: int,
    ) -> None:
        self._http = http
        self._script_run = script_run
        self._log = log
        self._closing = closing
        self._number = number
        self._at_ms = time.time_ns() // 1_000_000
        self._headers = {name.lower(): value for name, value in http.headers.items()}
        self._body: Any = None

    def serve(self) -> None:
        try:
            self._body = _decoded(_read_body(self._http, self._headers))
        except _Unreadable as error:
            self._http.close_connection = True
            self._note(400, "unreadable")
            self._send_json(400, {"error": {"message": str(error)}})
            return
        bare, _, query = self._http.path.partition("?")
        arrived = HttpRequest(
            method=self._http.command,
            path=unquote(bare).rstrip("/"),
            query=dict(parse_qsl(query)),
            headers=self._headers,
            body=self._body,
        )
        for name, wire in all_wires().items():
            if endpoint := wire.endpoint(arrived):
                if endpoint == "answer":
                    self._answer(name, wire, arrived)
                else:
                    self._note(200, endpoint, wire=name)
                    self._send_json(200, wire.others[endpoint](arrived))
                return
        self._serve_other(arrived)

    def _serve_other(self, arrived: HttpRequest) -> None:
        if arrived.path.endswith(PAGE_PATH):
            self._note(200, "page")
            self._send(200, _HTML, _PAGE)
        elif arrived.method == "HEAD":  # some agents check first that there is a server
            self._note(200, "answered")
            self._send(200, _JSON, b"")
        else:
            self._note(404, "not found")
            message = f"the scripted model has no route for {arrived.method} {arrived.path or '/'}"
            self._send_json(404, {"error": {"message": message, "type": "not_found_error"}})

    def _answer(self, name: str, wire: WireFormat, arrived: HttpRequest) -> None:
        asked = wire.read(arrived)
        if self._script_run is None:
            self._note(503, "refused", wire=name)
            self._send_json(503, wire.refusal(503, "The scripted model has no script yet.", None))
            return
        if not asked.has_conversation:
            what = "has no" if isinstance(self._body, dict) else "is not a JSON object with"
            self._note(400, "unreadable", wire=name, model=asked.model)
            message = f"The body {what} `{wire.conversation}`: there is nothing to answer."
            self._send_json(400, wire.refusal(400, message, None))
            return
        reply = self._script_run.reply(asked, self._number)
        failure = reply.failure
        about = {"wire": name, "lane": reply.conversation, "turn": reply.turn, "model": asked.model}
        if isinstance(failure, StatusFault) and (failure.after is None or not asked.is_streamed):
            self._note(int(failure.fault), "refused", **about)
            self._refuse(wire, failure)
            return
        is_silent = isinstance(failure, DropFault) and failure.after == 0
        self._note(0 if is_silent else 200, _outcome(reply), **about)
        if reply.slow is not None:
            self._closing.wait(reply.slow.wait_s)
        if asked.is_streamed:
            self._stream(_frames(wire, reply, asked), reply, asked)
        elif isinstance(failure, DropFault):
            body = encode(wire.whole(reply.answer))
            self._send(200, _JSON, body, cut_bytes=0 if failure.after == 0 else len(body) // 2)
        else:
            self._send_json(200, wire.whole(reply.answer))

    def _refuse(self, wire: WireFormat, failure: StatusFault) -> None:
        status, message = int(failure.fault), _message(failure)
        headers = {}
        if failure.retry_after_s is not None:
            headers["retry-after"] = f"{failure.retry_after_s:g}"
        self._send_json(status, wire.refusal(status, message, failure.retry_after_s), headers)

    def _stream(self, frames: list[StreamFrame], reply: ScriptReply, asked: ModelRequest) -> None:
        failure = reply.failure
        end = _break_in(frames, failure.after) if isinstance(failure, DropFault) else len(frames)
        if isinstance(failure, DropFault) and end == 0:
            self._hang_up()
            return
        self._head(200, asked.content_type, {"cache-control": "no-cache", "transfer-encoding": "chunked"})
        for frame in frames[:end]:
            if reply.slow is not None and self._closing.wait(reply.slow.pause_s):
                break
            self._http.wfile.write(b"%x\r\n%b\r\n" % (len(frame.data), frame.data))
        if isinstance(failure, DropFault) or self._closing.is_set():
            self._hang_up()
        else:
            self._http.wfile.write(b"0\r\n\r\n")

    def _send_json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, _JSON, encode(value), headers)

    def _send(
        self,
        status: int,
        content_type: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        cut_bytes: int | None = None,
    ) -> None:
        """`cut_bytes`: so much of the body is sent before the connection ends."""
        if cut_bytes != 0:
            self._head(status, content_type, {"content-length": str(len(body)), **(headers or {})})
            if self._http.command != "HEAD":
                self._http.wfile.write(body[:cut_bytes])
        if cut_bytes is not None:
            self._hang_up()

    def _head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        self._http.send_response(status)
        self._http.send_header("content-type", content_type)
        for name in ("request-id", "x-request-id"):
            self._http.send_header(name, f"req_lab_{self._number}")
        for name, value in headers.items():
            self._http.send_header(name, value)
        self._http.end_headers()

    def _hang_up(self) -> None:
        self._http.close_connection = True
        self._http.connection.shutdown(socket.SHUT_RDWR)

    def _note(self, status: int, outcome: str, **about: Any) -> None:
        """Called before a byte is sent: a client that has an answer finds its request in the log."""
        self._log.add(
            RequestEntry(
                number=self._number,
                at_ms=self._at_ms,
                method=self._http.command,
                path=public_path(self._http.path),
                headers=without_secrets(self._headers),
                body=self._body,
                status=status,
                outcome=outcome,
                **about,
            )
        )


def _message(failure: StatusFault) -> str:
    return failure.message or _REFUSALS[int(failure.fault)]


def _frames(wire: WireFormat, reply: ScriptReply, asked: ModelRequest) -> list[StreamFrame]:
    """The whole stream; where it is to fail, up to there and how."""
    frames = list(wire.stream(reply.answer, asked))
    failure = reply.failure
    if not isinstance(failure, StatusFault):
        return frames
    frames = frames[: failure.after]
    status, message = int(failure.fault), _message(failure)
    failing = StreamFailure(answer=reply.answer, status=status, message=message, sent=len(frames))
    return [*frames, StreamFrame(wire.failed(failing, asked))]


def _outcome(reply: ScriptReply) -> str:
    if isinstance(reply.failure, StatusFault):
        return "refused"
    if isinstance(reply.failure, DropFault):
        return "dropped"
    if reply.conversation == SIDE:
        return "side"
    return "over" if reply.is_over else "answered"


def _break_in(frames: list[StreamFrame], after: int | None) -> int:
    """How many events are sent before the connection ends: by default half of the first part's."""
    if after is not None:
        return min(after, len(frames))
    of_first = [number for number, frame in enumerate(frames) if frame.part == 0]
    return of_first[len(of_first) // 2] if of_first else len(frames) // 2


class _Unreadable(Exception):
    """A body that cannot be understood; the message says why."""


def _read_body(http: BaseHTTPRequestHandler, headers: Mapping[str, str]) -> bytes:
    try:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            data = _read_chunks(http)
        else:
            data = http.rfile.read(int(headers.get("content-length") or 0))
    except ValueError as error:
        raise _Unreadable("the length of the body is no number") from error
    match headers.get("content-encoding", "identity").lower():
        case "identity":
            return data
        case "gzip" | "deflate" as encoding:
            try:
                return gzip.decompress(data) if encoding == "gzip" else zlib.decompress(data)
            except (OSError, EOFError, zlib.error) as error:
                raise _Unreadable(f"the body is not {encoding}") from error
        case other:
            raise _Unreadable(f"content-encoding {other} is not understood: send it plain")


def _read_chunks(http: BaseHTTPRequestHandler) -> bytes:
    data = bytearray()
    while size := int(http.rfile.readline().split(b";")[0], 16):
        data += http.rfile.read(size)
        http.rfile.readline()
    while http.rfile.readline().strip():
        pass
    return bytes(data)


def _decoded(data: bytes) -> Any:
    """JSON where it is JSON, text where it is text."""
    if not data:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "backslashreplace")
