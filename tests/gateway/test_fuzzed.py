"""Requests and answers that were changed at random: no fault in the gateway, no hang, and what is recorded can be read."""

from __future__ import annotations

import random
import resource
import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from gateway_far_sides import TOKEN, OddProvider, exchange, passing
from harness.gateway.call_events import CallEvents
from harness.gateway.recorded import Recording
from harness.log.raw import RawCall

ROUTES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {
        "system": "s",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    },
    "/v1/responses": {"instructions": "s", "input": [{"role": "user", "content": "hi"}], "stream": True},
    "/v1beta/models/m:streamGenerateContent?alt=sse": {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}]
    },
}
ODD_VALUES: list[Any] = [
    *(None, True, -1, 10**400, 1e308, "", "\x00", "\\ud800", "é" * 5000, [], {}, [[[[]]]], {"": {"": None}}),
    *([{"role": 1}], {"type": []}, "data: [DONE]", ["a", 1, None]),
]
ODD_BYTES = (
    b"\r\n",
    b"\n",
    b"\x00",
    b"\xff\xfe",
    b": ",
    b"0\r\n\r\n",
    b"data: ",
    b"{",
    b"}",
    b"[" * 300,
    b"-1",
    b"9" * 40,
)
STREAM = (
    b'event: message_start\ndata: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":5}}}\n\n'
    b'data: {"choices":[{"delta":{"content":"a","tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}}]}\n\n'
    b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":5}}\n\n'
    b'data: {"type":"response.completed","response":{"usage":{"input_tokens":5}}}\n\ndata: [DONE]\n\n'
)
ANSWERS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b"
    % (len(STREAM), STREAM),
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + STREAM,
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(STREAM), STREAM),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow down\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}",
    b'HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 30\r\n\r\n{"error":{"message":"no"}}    ',
)
MOST_MEMORY_KB = 128 * 1024
"""By how much this process may have grown at the end of a hundred calls."""


def _bytes_changed(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 4)):
        place, length = chance.randrange(len(data) + 1), chance.randint(0, 12)
        with_what = chance.choice(
            [b"", chance.choice(ODD_BYTES), chance.randbytes(length), data[place : place + 40] * 2]
        )
        data = data[:place] + with_what + data[place + length :]
    return data


def _value_changed(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return chance.choice(ODD_VALUES)
    if isinstance(value, dict):
        return {name: _value_changed(one, chance) for name, one in value.items() if chance.random() < 0.95}
    if isinstance(value, list):
        return [_value_changed(one, chance) for one in value] * chance.randint(0, 2)
    return value


def _requests(seed: int) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(125):
        route, body = chance.choice(list(ROUTES.items()))
        is_of_bytes = chance.random() < 0.5
        value = body if is_of_bytes else _value_changed({"model": "m", **body}, chance)
        content = msgspec.json.encode(value) if not _has_huge(value) else b'{"n":' + b"9" * 400 + b"}"
        head = f"POST {route} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {TOKEN}\r\ncontent-length: {len(content)}\r\n"
        data = f"{head}connection: close\r\n\r\n".encode() + content
        yield _bytes_changed(data, chance) if is_of_bytes else data


def _has_huge(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value == 10**400 or any(map(_has_huge, inner))


def _read_back(recorded: list[RawCall]) -> None:
    events = CallEvents()
    for entry in recorded:
        events.feed(entry)
    assert not Recording(recorded).damaged


def _memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _asked(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except ConnectionError:
            pass  # refused before all of it was read


@pytest.mark.parametrize("seed", [1, 2])
def test_changed_requests_are_answered_or_refused(seed: int) -> None:
    before_kb = _memory_kb()
    far = OddProvider(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
    try:
        with passing(far.port, base_path="") as (gateway, recorded):
            for data in _requests(seed):
                _asked(gateway.port, data)
            _read_back(recorded)
    finally:
        far.close()
    assert _memory_kb() - before_kb < MOST_MEMORY_KB


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], OddProvider]]:
    started: list[OddProvider] = []

    def start(data: bytes) -> OddProvider:
        started.append(OddProvider(data))
        return started[-1]

    yield start
    for far in started:
        far.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_changed_answers_are_passed_on_or_cut(seed: int, answering: Callable[[bytes], OddProvider]) -> None:
    before_kb = _memory_kb()
    chance = random.Random(seed)
    for _ in range(125):
        far = answering(_bytes_changed(chance.choice(ANSWERS), chance))
        with passing(far.port, base_path="") as (gateway, recorded):
            route, body = chance.choice(list(ROUTES.items()))
            content = msgspec.json.encode({"model": "m", **body})
            head = f"POST {route} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {TOKEN}\r\nconnection: close\r\n"
            exchange(gateway.port, f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
            _read_back(recorded)
    assert _memory_kb() - before_kb < MOST_MEMORY_KB
