"""Attacks on a gateway: by who does not know its token, by a provider, and by a tape that somebody else has made."""

from __future__ import annotations

import gzip
import socket
import zlib
from pathlib import Path

import msgspec
import pytest

from gateway_far_sides import TOKEN, OddProvider, chat_request, exchange, last_call, passing
from harness.errors import UsageError
from harness.gateway import pass_on
from harness.gateway.bodies import BodyReader, StoredBody
from harness.gateway.call import GatewayCall
from harness.gateway.call_records import CallRecords
from harness.gateway.gateway import ModelGateway
from harness.gateway.http_requests import ArrivedRequest, RequestBounds
from harness.gateway.pass_on import PassOn, Upstream
from harness.gateway.reply import Reply, head_bytes
from harness.gateway.tape import tape_line
from harness.gateway.upstream_answer import UpstreamAnswer
from harness.log.raw import RawCall, RawGateway, RawRequest, RawStart
from harness.runs.replay_request import recorded_tape, replay_request

OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"content-length: 2\r\n\r\n{}"


def _small_gateway(far: OddProvider) -> tuple[ModelGateway, PassOn]:
    passed = PassOn(Upstream(url=f"http://127.0.0.1:{far.port}/v1", base_path="/v1"))
    return ModelGateway(passed, token=TOKEN, bounds=RequestBounds(connections=4)), passed


def test_strangers_cannot_take_the_places_of_the_run() -> None:
    far = OddProvider(WHOLE)
    gateway, passed = _small_gateway(far)
    strangers = []
    try:
        for _ in range(20):
            strangers.append(socket.create_connection(("127.0.0.1", gateway.port)))
            strangers[-1].sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        for _ in range(5):
            assert exchange(gateway.port, chat_request()).endswith(b"{}")
    finally:
        for one in strangers:
            one.close()
        gateway.close()
        passed.close()
        far.close()
    assert not gateway.faults


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer other\r\n", 401),
        (b"POST /v1/chat/completions HTTP/1.1\r\norigin: http://127.0.0.1\r\n", 403),
        (b"POST /v1/chat/completions HTTP/1.1\r\nhost: rebound.example.org:80\r\n", 403),
        (b"HEAD /api/hello HTTP/1.1\r\n", 413),
        (b"CONNECT example.org:443 HTTP/1.1\r\n", 403),
    ],
)
def test_not_a_byte_of_a_body_is_read_from_a_stranger(head: bytes, status: int) -> None:
    """64 connections of 64 MB each would be the memory of the machine."""
    with passing(9) as (gateway, recorded):
        answer = exchange(gateway.port, head + b"content-length: 60000000\r\n\r\n" + b"x" * 200_000)
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert recorded == []


def test_an_answer_without_an_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_on, "_LONGEST_ANSWER", 100_000)
    chunk = b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n"
    far = OddProvider(OK + b"transfer-encoding: chunked\r\n\r\n", *[chunk] * 40)
    bomb = gzip.compress(b"x" * 5_000_000)
    packed = OddProvider(OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb) + bomb)
    try:
        for one in (far, packed):
            with passing(one.port) as (gateway, recorded):
                reading = UpstreamAnswer("POST")
                reading.feed(exchange(gateway.port, chat_request()))
                assert not reading.is_complete
                response = last_call(recorded)[1]
                assert response.is_cut
                assert response.body_size <= 100_000
    finally:
        far.close()
        packed.close()


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"content-length: 2\r\ncontent-length: 20\r\n\r\n{}",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        OK + b"transfer-encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        OK + b"x-one: a\rset-cookie: b\r\ncontent-length: 2\r\n\r\n{}",
        OK + b"x-one: a\0b\r\ncontent-length: 2\r\n\r\n{}",
        OK + b"content-length: 99999999999999999999999\r\n\r\n{}",
    ],
)
def test_an_answer_that_can_be_read_in_two_ways_is_not_passed_on(answer: bytes) -> None:
    far = OddProvider(answer)
    try:
        with passing(far.port) as (gateway, _):
            assert exchange(gateway.port, chat_request()).startswith(b"HTTP/1.1 502 ")
    finally:
        far.close()


def test_of_two_statements_of_a_length_the_client_gets_one() -> None:
    far = OddProvider(OK + b"content-length: 50\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    try:
        with passing(far.port) as (gateway, _):
            answered = exchange(gateway.port, chat_request()).lower()
    finally:
        far.close()
    assert b"content-length" not in answered
    assert b"transfer-encoding: chunked" in answered


def test_a_header_of_a_tape_is_one_header() -> None:
    assert head_bytes(200, [("a", "b\r\nset-cookie: c\r\n\r\n<script>")]).count(b"\r\n") == 3


def test_a_secret_that_pieces_of_a_stream_cut_in_two_is_masked() -> None:
    pieces = ["sk-ant-", "abcdefgh", "01234567"]
    events = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        for piece in pieces
    ]
    content = b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events)
    recorded: list[RawCall] = []
    records = CallRecords(recorded.extend, mask=lambda data: data.replace("".join(pieces).encode(), b"***"))
    call = GatewayCall(1, 0, ArrivedRequest(method="POST", target="/v1/messages", fields=()), b"{}")
    left, right = socket.socketpair()
    with left, right:
        reply = Reply(left, "POST", lambda reply: records.record(call, reply))
        reply.head(200, {"content-type": "text/event-stream"})
        reply.piece(content)
        reply.end()
    response = last_call(recorded)[1]
    kept = zlib.decompress(response.data)
    assert response.is_masked
    assert b"***" in kept
    assert all(piece.encode() not in kept for piece in pieces)


def test_a_line_of_a_tape_cannot_hold_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.gateway import bodies

    monkeypatch.setattr(bodies, "_LONGEST_BODY", 1000)
    reader = BodyReader()
    assert reader.read(1, StoredBody(zlib.compress(b"x" * 5000), 5000)) is None
    assert reader.read(2, StoredBody(zlib.compress(b"x" * 500), 500)) == b"x" * 500


def _stranger_tape(folder: Path) -> str:
    start = RawStart(
        at_ms=1,
        agent="claude",
        cwd="/home/victim",
        prompt="Go.",
        request={
            "extra_args": ["--mcp-config", '{"mcpServers":{"x":{"command":"touch"}}}'],
            "mcp": ["/home/victim/evil.json"],
            "folder_settings": "use",
            "effort": "high",
        },
        recorder="1",
        gateway=RawGateway(mode="pass"),
    )
    request = RawRequest(
        at_ms=1, id=1, method="POST", path="/v1/messages", wire="anthropic", purpose="answer"
    )
    path = folder / "stranger.tape"
    path.write_bytes(tape_line(start) + tape_line(request))
    return str(path)


def test_a_tape_of_somebody_else_says_neither_where_it_runs_nor_what_is_started(tmp_path: Path) -> None:
    recorded = recorded_tape(_stranger_tape(tmp_path))
    with pytest.raises(UsageError, match="does not say where"):
        replay_request(recorded)
    request = replay_request(recorded, cwd=str(tmp_path))
    assert (request.extra_args, request.mcp, request.effort) == ((), (), "high")
    assert request.folder_settings != "use"
    assert request.cwd == str(tmp_path)
