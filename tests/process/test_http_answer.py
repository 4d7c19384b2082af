"""HTTP and server-sent events from bytes that come in any pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.process.http_child import EventStream, HttpAnswer, UnreadableAnswer

CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;ext=1\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\n\r\n"
)
PLAIN = b"HTTP/1.1 404 Not Found\r\ncontent-LENGTH: 11\r\n\r\nhello worldmore"
OPEN = b"HTTP/1.0 200 OK\r\n\r\nhello world"
EVENTS = (
    b': a comment\n\nevent: message\ndata: {"type":"a.b",\r\ndata: "n":1}\r\n\r\nid: 1\n\ndata:{"type":"c"}\n\n'
    b'data: {"type":"server.heartbeat"}\n\ndata: \xff{\n\ndata: {"type":7}\n\ndata: {"type":"cut"'
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.sampled_from([CHUNKED, PLAIN, OPEN]), st.lists(st.integers(0, 500), max_size=20))
def test_any_split_gives_the_same_answer(data: bytes, cuts: list[int]) -> None:
    answer = HttpAnswer()
    content = b"".join(answer.feed(piece) for piece in pieces(data, cuts))
    assert answer.is_complete is (data is not OPEN)
    answer.end()

    assert content == b"hello world"
    assert answer.status == (404 if data is PLAIN else 200)
    assert answer.is_complete


@given(st.lists(st.integers(0, 500), max_size=20))
def test_any_split_gives_the_same_events(cuts: list[int]) -> None:
    stream = EventStream()

    assert [line for piece in pieces(EVENTS, cuts) for line in stream.feed(piece)] == [
        b'{"event":"a.b","data":{"type":"a.b", "n":1}}\n',
        b'{"event":"c","data":{"type":"c"}}\n',
        '{"event":"","data":"\ufffd{"}\n'.encode(),
        b'{"event":"","data":"{\\"type\\":7}"}\n',
    ]


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_content_is_complete_with_its_head(status: int) -> None:
    answer = HttpAnswer()
    answer.feed(f"HTTP/1.1 {status} x\r\n\r\n".encode())

    assert answer.is_complete


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000,
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        HttpAnswer().feed(data)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", PLAIN[:50], CHUNKED[:-8]])
def test_an_answer_that_breaks_off_is_refused(data: bytes) -> None:
    answer = HttpAnswer()
    answer.feed(data)

    with pytest.raises(UnreadableAnswer, match="in the middle"):
        answer.end()


@given(st.binary(max_size=200), st.booleans())
def test_garbage_never_raises_anything_else(data: bytes, has_head: bool) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if has_head else b""
    answer = HttpAnswer()
    try:
        answer.feed(head + data)
        answer.end()
    except UnreadableAnswer:
        return
    EventStream().feed(data)
