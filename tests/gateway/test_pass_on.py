"""A provider's bytes go through as they are, whatever they are, and everything is on record."""

from __future__ import annotations

import gzip
import random
import socket
import threading
import zlib
from collections.abc import Callable, Iterator

import pytest

from gateway_far_sides import KEY, TOKEN, OddProvider, chat_request, exchange, last_call, passing
from harness.gateway.call import GatewayCall
from harness.gateway.call_events import CallEvents
from harness.gateway.gateway import ModelGateway
from harness.gateway.pass_on import PassOn, Upstream
from harness.gateway.upstream_answer import NotHttp, UpstreamAnswer
from harness.lab import LabServer, ScriptRun, parse_script
from lab_client import Client, question

HELLO = {"turns": [{"text": "Hello."}, {"text": "Again."}, {"text": "Once more."}]}
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
PLAIN = b'{"model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}'
STREAM = b'data: {"choices":[{"delta":{"content":"caf\xc3\xa9"}}]}\n\n: ping\n\ndata: [DONE]\n\n'


@pytest.fixture
def provider() -> Iterator[Callable[..., OddProvider]]:
    started: list[OddProvider] = []

    def start(*pieces: bytes, stays: bool = False) -> OddProvider:
        started.append(OddProvider(*pieces, stays=stays))
        return started[-1]

    yield start
    for one in started:
        one.close()


def _chunked(data: bytes, *sizes: int) -> bytes:
    out, place = b"", 0
    for size in [*sizes, len(data)]:
        piece = data[place : place + size]
        place += len(piece)
        out += b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
    return out + b"0\r\n\r\n"


def test_the_key_is_put_in_and_nothing_else_is_changed() -> None:
    with LabServer(ScriptRun(parse_script(HELLO))) as lab, passing(lab.port) as (gateway, recorded):
        with Client(gateway.port) as client:
            for number, stream in enumerate((True, False, True), 1):
                headers = {"host": "127.0.0.1", "authorization": f"Bearer {TOKEN}", "x-mine": "kept"}
                body = question("chat", "Go.", stream=stream)
                reply = client.ask("POST", "/v1/chat/completions?beta=true", body, headers=headers)
                assert reply.status == 200
                assert len(recorded) == 2 * number  # on record before the client has its last byte
        asked = lab.requests[0]
        assert asked.body == question("chat", "Go.", stream=True)
        assert asked.path == "/v1/chat/completions?beta=true"
        assert asked.headers["x-mine"] == "***"
        request, response = last_call(recorded)
    assert TOKEN not in repr(recorded)
    assert KEY not in repr(recorded)
    assert (request.wire, request.purpose, request.step) == ("chat", "answer", 3)
    stage = CallEvents()
    assert stage.feed(request) == []
    call, delta = stage.feed(response)
    assert (call.status, call.stop_reason, delta.usage.input, delta.usage.cache_read) == (
        200,
        "stop",
        1000,
        200,
    )


@pytest.mark.parametrize(
    ("pieces", "content"),
    [
        ([OK + b"content-length: %d\r\n\r\n" % len(PLAIN) + PLAIN], PLAIN),
        ([OK + b"\r\n" + PLAIN], PLAIN),  # its end is that of the connection
        ([OK + b"transfer-encoding: chunked\r\n\r\n" + _chunked(STREAM, 5, 17, 31)], STREAM),
        (
            [
                OK,
                b"transfer-encoding: chunked\r",
                b"\n\r\n2f",
                b"f\r\n" + b"x" * 0x2FF + b"\r\n0\r\n",
                b"\r\n",
            ],
            b"x" * 0x2FF,
        ),
        ([OK + b"transfer-encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n0\r\nTrailer: x\r\n\r\n"], b"abc"),
        ([b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", OK + b"content-length: 2\r\n\r\n{}"], b"{}"),
        ([b"HTTP/1.0 200 OK\r\n\r\n", PLAIN], PLAIN),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
        ([OK + b"content-length: 0\r\n\r\n"], b""),
        ([b"HTTP/1.1 529 \r\ncontent-length: 2\r\n\r\n{}"], b"{}"),
        ([OK + b"content-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\nsecond"], b"{}"),
        *(
            (
                [OK + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (name, len(packed)), packed],
                STREAM,
            )
            for name, packed in ((b"gzip", gzip.compress(STREAM)), (b"deflate", zlib.compress(STREAM)))
        ),
        (
            [
                OK
                + b"content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
                + _chunked(gzip.compress(STREAM), 9, 9)
            ],
            STREAM,
        ),
    ],
)
def test_an_answer_of_any_form_arrives_whole(
    provider: Callable[..., OddProvider], pieces: list[bytes], content: bytes
) -> None:
    far = provider(*pieces)
    with passing(far.port) as (gateway, recorded):
        answered = exchange(gateway.port, chat_request())
        reading = UpstreamAnswer("POST")
        assert reading.feed(answered) == content
        assert reading.is_complete
        assert not reading.rest
        assert "content-encoding" not in reading.headers
        _, response = last_call(recorded)
        assert not response.is_cut
        assert zlib.decompress(response.data or zlib.compress(b"")) == content
    assert b"authorization: Bearer " + KEY.encode() in far.requests[0]
    assert TOKEN.encode() not in far.requests[0]


@pytest.mark.parametrize(
    "pieces",
    [
        [OK + b"content-length: 99\r\n\r\n" + PLAIN[:20]],
        [OK + b"transfer-encoding: chunked\r\n\r\nff\r\nabc"],
        [OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"],
    ],
)
def test_an_answer_that_breaks_off_is_cut_for_the_client_too(
    provider: Callable[..., OddProvider], pieces: list[bytes]
) -> None:
    with passing(provider(*pieces).port) as (gateway, recorded):
        answered = exchange(gateway.port, chat_request())
        reading = UpstreamAnswer("POST")
        reading.feed(answered)
        assert not reading.end()
        request, response = last_call(recorded)
        assert response.is_cut
        assert request.step == 1
        exchange(gateway.port, chat_request())
        assert last_call(recorded)[0].step == 1  # the same step once more


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"nonsense\r\n\r\n"],
        [b"HTTP/2 200\r\n\r\n"],
        [b"HTTP/1.1 101 Switching Protocols\r\n\r\n"],
        [OK + b"content-length: many\r\n\r\n"],
        [OK + b"broken header\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000],
    ],
)
def test_a_provider_that_speaks_no_http_is_a_bad_gateway(
    provider: Callable[..., OddProvider], pieces: list[bytes]
) -> None:
    with passing(provider(*pieces).port) as (gateway, recorded):
        answered = exchange(gateway.port, chat_request())
        assert answered.startswith(b"HTTP/1.1 502 ")
        assert b"did not answer" in answered
        assert last_call(recorded)[1].status == 502


def test_a_provider_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with passing(port) as (gateway, _):
        answered = exchange(gateway.port, chat_request())
    assert b" 502 " in answered
    assert f"127.0.0.1:{port}".encode() in answered


def test_a_client_that_leaves_ends_the_call_at_the_provider(provider: Callable[..., OddProvider]) -> None:
    far = provider(OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", stays=True)
    with passing(far.port) as (gateway, recorded):
        with socket.create_connection(("127.0.0.1", gateway.port)) as connection:
            connection.sendall(chat_request())
            while b"abc" not in connection.recv(65536):
                pass
        assert far.is_left.wait(10)
        for _ in range(500):
            if recorded:
                break
            threading.Event().wait(0.01)
        assert last_call(recorded)[1].is_client_gone


def test_a_connection_that_the_provider_closed_is_no_failure() -> None:
    """Each answer ends its connection without saying so: the next request finds it closed."""
    answer = OK + b"content-length: 2\r\n\r\n{}"
    far = OddProvider(answer)
    try:
        with passing(far.port) as (gateway, _):
            for _ in range(5):
                assert exchange(gateway.port, chat_request()).endswith(b"{}")
        assert len(far.requests) == 5
    finally:
        far.close()


def test_fuzzed_answers_are_never_an_exception_and_never_hang() -> None:
    seeded = random.Random(5)
    base = OK + b"transfer-encoding: chunked\r\n\r\n" + _chunked(STREAM, 7, 30)
    for _ in range(500):
        data = bytearray(base)
        for _ in range(seeded.randrange(1, 6)):
            data[seeded.randrange(len(data))] = seeded.randrange(256)
        reading = UpstreamAnswer("POST")
        try:
            place = 0
            while place < len(data) and not reading.is_complete:
                step = seeded.randrange(1, 40)
                reading.feed(bytes(data[place : place + step]))
                place += step
            reading.end()
        except NotHttp:
            continue


class _Refusal:
    def refusal(self, call: GatewayCall) -> str:
        return f"no {call.endpoint}"


@pytest.mark.parametrize(("path", "status"), [("/v1/responses", 400), ("/v1/responses/compact", 400)])
def test_everything_that_costs_is_asked_about_before(path: str, status: int) -> None:
    passed = PassOn(Upstream(url="http://127.0.0.1:1"), spending=_Refusal())
    with ModelGateway(passed, token=TOKEN) as gateway, Client(gateway.port) as client:
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {TOKEN}"}
        reply = client.ask("POST", path, {"model": "m", "input": "x"}, headers=headers)
        assert (reply.status, b"no " in reply.body) == (status, True)
    passed.close()
