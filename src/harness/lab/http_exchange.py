"""One request from its arrival to its answer: which API it is for, what the play says of it, and the bytes."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import zlib
from collections.abc import Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from harness.lab import wires
from harness.lab.exchange import Arrived, Asked, Failing, Frame, Wire, encode
from harness.lab.folder import names_in
from harness.lab.journal import Entry, Journal, public_path, without_secrets
from harness.lab.play import SIDE, Play, Reply
from harness.lab.script import DropFault, StatusFault

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
"""In words that the clients of any of the APIs look for."""


@cache
def all_wires() -> Mapping[str, Wire]:
    return {name: import_module(f"{wires.__name__}.{name}").WIRE for name in names_in(wires)}


class Exchange:
    """Contract: `serve` answers one request or closes the connection; OSError means that nobody listens any more."""

    def __init__(
        self,
        http: BaseHTTPRequestHandler,
        play: Play | None,
        journal: Journal,
        closing: threading.Event,
        number: int,
    ) -> None:
        self._http = http
        self._play = play
        self._journal = journal
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
        arrived = Arrived(
            method=self._http.command,
            path=unquote(bare).rstrip("/"),
            query=dict(parse_qsl(query)),
            headers=self._headers,
            body=self._body,
        )
        for name, wire in all_wires().items():
            if errand := wire.errand(arrived):
                if errand == "answer":
                    self._answer(name, wire, arrived)
                else:
                    self._note(200, errand, wire=name)
                    self._send_json(200, wire.others[errand](arrived))
                return
        self._serve_other(arrived)

    def _serve_other(self, arrived: Arrived) -> None:
        if arrived.path.endswith(PAGE_PATH):
            self._note(200, "page")
            self._send(200, _HTML, _PAGE)
        elif arrived.method == "HEAD":  # some agents look first whether there is anybody
            self._note(200, "answered")
            self._send(200, _JSON, b"")
        else:
            self._note(404, "not found")
            message = f"the scripted model has no route for {arrived.method} {arrived.path or '/'}"
            self._send_json(404, {"error": {"message": message, "type": "not_found_error"}})

    def _answer(self, name: str, wire: Wire, arrived: Arrived) -> None:
        asked = wire.read(arrived)
        if self._play is None:
            self._note(503, "refused", wire=name)
            self._send_json(503, wire.refusal(503, "The scripted model has no script yet.", None))
            return
        if not asked.has_conversation:
            what = "has no" if isinstance(self._body, dict) else "is not a JSON object with"
            self._note(400, "unreadable", wire=name, model=asked.model)
            message = f"The body {what} `{wire.conversation}`: there is nothing to answer."
            self._send_json(400, wire.refusal(400, message, None))
            return
        reply = self._play.reply(asked, self._number)
        failure = reply.failure
        about = {"wire": name, "lane": reply.lane, "turn": reply.turn, "model": asked.model}
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

    def _refuse(self, wire: Wire, failure: StatusFault) -> None:
        status, message = int(failure.fault), _message(failure)
        headers = {}
        if failure.retry_after_s is not None:
            headers["retry-after"] = f"{failure.retry_after_s:g}"
        self._send_json(status, wire.refusal(status, message, failure.retry_after_s), headers)

    def _stream(self, frames: list[Frame], reply: Reply, asked: Asked) -> None:
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
        """Before a byte is sent, so that whoever has an answer finds its request here."""
        self._journal.add(
            Entry(
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


def _frames(wire: Wire, reply: Reply, asked: Asked) -> list[Frame]:
    """The whole stream; where it is to fail, up to there and how."""
    frames = list(wire.stream(reply.answer, asked))
    failure = reply.failure
    if not isinstance(failure, StatusFault):
        return frames
    frames = frames[: failure.after]
    status, message = int(failure.fault), _message(failure)
    failing = Failing(answer=reply.answer, status=status, message=message, sent=len(frames))
    return [*frames, Frame(wire.failed(failing, asked))]


def _outcome(reply: Reply) -> str:
    if isinstance(reply.failure, StatusFault):
        return "refused"
    if isinstance(reply.failure, DropFault):
        return "dropped"
    if reply.lane == SIDE:
        return "side"
    return "over" if reply.is_over else "answered"


def _break_in(frames: list[Frame], after: int | None) -> int:
    """How many events are sent before the end: unless it is said, half of the first part's."""
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
