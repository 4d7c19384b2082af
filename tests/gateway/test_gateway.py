"""Who may use a gateway, and for what."""

from __future__ import annotations

import gzip
import random
import socket
import threading
from collections.abc import Iterator

import pytest

from gateway_far_sides import TOKEN, chat_request, exchange, passing
from harness.gateway.gateway import ModelGateway
from harness.gateway.http_requests import RequestBounds
from harness.lab import LabServer, ScriptRun, parse_script
from harness.lab.request_log import RequestLog
from harness.lab.script_answers import ScriptAnswers
from harness.log.raw import RawCall

SCRIPT = {"turns": [{"text": f"Answer {number}."} for number in range(40)]}


@pytest.fixture
def open_to() -> Iterator[tuple[ModelGateway, list[RawCall], LabServer]]:
    with LabServer(ScriptRun(parse_script(SCRIPT))) as lab, passing(lab.port) as (gateway, recorded):
        yield gateway, recorded, lab


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def _get(target: str, method: str = "GET", **headers: str) -> bytes:
    named = {"host": "127.0.0.1", "connection": "close", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode()


OWN = f"Bearer {TOKEN}"


@pytest.mark.parametrize("header", ["authorization", "x-api-key", "x-goog-api-key", "api-key"])
def test_the_token_may_be_in_any_header_of_a_key(
    open_to: tuple[ModelGateway, list[RawCall], LabServer], header: str
) -> None:
    gateway, _, lab = open_to
    shown = OWN if header == "authorization" else TOKEN
    request = chat_request(**{"authorization": "Bearer other", header: shown})
    assert _status(exchange(gateway.port, request)) == 200
    assert len(lab.requests) == 1


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (chat_request(authorization="Bearer hgw-of-another-run"), 401),
        (chat_request(authorization="Bearer "), 401),
        (chat_request(origin="https://example.org"), 403),
        (chat_request(host="example.org"), 403),
        (_get("/v1/files", authorization=OWN), 404),
        (_get("/v1/models/../files", authorization=OWN), 400),
        (_get("/v1/%2e%2e/models", authorization=OWN), 400),
        (_get("/v1/files/models/list", authorization=OWN), 404),
        (_get("/v1/files#/models", authorization=OWN), 404),
        (_get("/v1/files%3F/models", authorization=OWN), 404),
        (_get("/v1/files;/models/x", authorization=OWN), 404),
        (_get("/v1/models/x#y", authorization=OWN), 404),
        (_get("/v1/threads/t1/messages", "POST", authorization=OWN), 404),
        (_get("/v1/files/x%2Fresponses", "POST", authorization=OWN), 404),
        (_get("/v1/files/x:generateContent", "POST", authorization=OWN), 404),
        (chat_request(x_mine="a\rGET /v1/files HTTP/1.1\r\rx: y"), 400),
        (_get("http://example.org/v1/models", authorization=OWN), 400),
        (_get("example.org:443", "CONNECT", authorization=OWN), 403),
        (_get("/v1/responses", upgrade="websocket", connection="upgrade", authorization=OWN), 426),
        (_get("/v1/models"), 401),
        (_get("/"), 401),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbroken\r\n\r\n", 400),
        (_get("/v1/models?a=\0b", authorization=OWN), 400),
        (_get("/v1/models?a=\x7fb", authorization=OWN), 400),
        (chat_request(transfer_encoding="chunked"), 400),
        (chat_request(content_length="12, 13"), 400),
        (chat_request(content_length="-1"), 400),
        (chat_request(x_long="y" * 70_000), 431),
    ],
)
def test_what_is_not_for_the_model_never_reaches_it(
    open_to: tuple[ModelGateway, list[RawCall], LabServer], request_bytes: bytes, status: int
) -> None:
    gateway, recorded, lab = open_to
    answer = exchange(gateway.port, request_bytes)
    assert _status(answer) == status
    assert b"error" in answer
    assert lab.requests == []
    if status == 401:
        assert recorded == []  # nobody may fill the record of another
    assert _status(exchange(gateway.port, chat_request())) == 200


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/v1/messages?beta=true"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/chat/completions/"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/qwen/qwen3-coder:free"),
        ("GET", "/v1/models/qwen%2Fqwen3-coder"),
    ],
)
def test_what_is_for_the_model_reaches_it(
    open_to: tuple[ModelGateway, list[RawCall], LabServer], method: str, target: str
) -> None:
    gateway, _, lab = open_to
    exchange(gateway.port, _get(target, method, authorization=OWN))
    assert len(lab.requests) == 1


def test_a_probe_without_a_key_is_answered_and_says_nothing(
    open_to: tuple[ModelGateway, list[RawCall], LabServer],
) -> None:
    gateway, _, lab = open_to
    answer = exchange(gateway.port, _get("/api/hello", "HEAD"))
    assert _status(answer) == 200
    assert answer.endswith(b"\r\n\r\n")
    assert lab.requests == []


def test_a_body_beyond_the_bound_is_refused() -> None:
    answers = ScriptAnswers(None, RequestLog(), threading.Event())
    with ModelGateway(answers, bounds=RequestBounds(body_bytes=1000)) as gateway:
        assert _status(exchange(gateway.port, chat_request(b"{}" + b" " * 2000))) == 413
        chunks = b"ffffffffff\r\n"
        request = chat_request(b"", content_length="0").replace(
            b"content-length: 0", b"transfer-encoding: chunked"
        )
        assert _status(exchange(gateway.port, request + chunks)) == 413


def test_a_small_body_that_holds_gigabytes_is_not_unpacked() -> None:
    bomb = gzip.compress(b"x" * 5_000_000)
    answers = ScriptAnswers(None, RequestLog(), threading.Event())
    with ModelGateway(answers, bounds=RequestBounds(body_bytes=100_000)) as gateway:
        answer = exchange(gateway.port, chat_request(bomb, content_encoding="gzip"))
    assert _status(answer) == 400
    assert b"longer than" in answer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b'{"messages": [',
        b"[" * 200 + b"]" * 200,
        b'{"a":1,"a":2,"messages":[]}',
        b'{"messages":[{"role":"user","content":"\\ud800 \\u0000"}]}',
        b"\x00\xff\xfe",
    ],
)
def test_a_body_of_any_kind_is_passed_and_recorded(
    open_to: tuple[ModelGateway, list[RawCall], LabServer], body: bytes
) -> None:
    gateway, recorded, lab = open_to
    assert _status(exchange(gateway.port, chat_request(body))) in (200, 400)
    assert len(lab.requests) == 1
    assert len(recorded) == 2


def test_fuzzed_requests_are_never_a_fault(open_to: tuple[ModelGateway, list[RawCall], LabServer]) -> None:
    gateway, _, _ = open_to
    seeded = random.Random(17)
    for _ in range(500):
        data = bytearray(chat_request())
        for _ in range(seeded.randrange(1, 5)):
            data[seeded.randrange(len(data))] = seeded.randrange(256)
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as connection:
            connection.sendall(bytes(data))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    assert not gateway.faults
