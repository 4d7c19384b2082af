"""Our own sockets below httpx: bodies are taken from them directly, and nothing else changes."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import h11
import httpcore
import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.models.sockets import Dechunker, SocketBackend, SocketStream
from lacking import lacking

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def pieces_of(data: bytes, lengths: list[int]) -> Iterator[bytes]:
    position = 0
    for length in lengths:
        if position < len(data):
            yield data[position : position + length]
        position += length
    if position < len(data):
        yield data[position:]


def read_by_another(body: bytes) -> bytes:
    """What an independent reader of HTTP makes of it, with a mark where it sees the end."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(HEAD + body)
    found = b""
    while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
        if isinstance(event, h11.Data):
            found += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return found + b"<end>"
    return found


def read_by_us(body: bytes, lengths: list[int]) -> bytes:
    """The content, then what the client makes of the rest."""
    dechunker = Dechunker()
    found = b""
    pieces = list(pieces_of(body, lengths))
    while pieces and dechunker.left_over is None:
        found += dechunker.feed(pieces.pop(0))
    rest = dechunker.give_up() if dechunker.left_over is None else dechunker.left_over
    return found + read_by_another(rest + b"".join(pieces))


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    end=st.sampled_from([END, b"0\r\nX-Trailer: 1\r\n\r\n", b"3;x=y\r\nabc\r\n" + END, b"", b"1"]),
    lengths=st.lists(st.integers(1, 30), max_size=30),
)
@example(bodies=[b"a", b"bb"], end=END, lengths=[1] * 30)
@settings(max_examples=500, deadline=None)
def test_however_a_body_is_cut_its_content_is_the_same(
    bodies: list[bytes], end: bytes, lengths: list[int]
) -> None:
    sent = b"".join(map(chunk, bodies)) + end
    assert read_by_us(sent, lengths) == read_by_another(sent)


@given(data=st.binary(max_size=200), lengths=st.lists(st.integers(1, 30), max_size=12))
@example(data=b"3\r\nabcdef\r\n", lengths=[])
@example(data=b"fffffffff\r\na\r\n", lengths=[2])
@settings(max_examples=500, deadline=None)
def test_what_is_no_body_of_chunks_is_refused_as_the_client_would(data: bytes, lengths: list[int]) -> None:
    def outcome(read: Callable[[], bytes]) -> str:
        try:
            return read().hex()
        except (h11.RemoteProtocolError, httpx.RemoteProtocolError):
            return "refused"

    assert outcome(lambda: read_by_us(data, lengths)) == outcome(lambda: read_by_another(data))


Answering = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture
def listening() -> Iterator[Answering]:
    """A server for one connection, which is closed when its function returns."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def answer(serve: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def work() -> None:
            client, _ = listener.accept()
            with client:
                serve(client)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        port: int = listener.getsockname()[1]
        return port

    yield answer
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()


def test_it_reads_writes_and_sees_the_end(listening: Answering) -> None:
    port = listening(lambda client: client.sendall(client.recv(100).upper()))

    async def talk() -> list[bytes]:
        stream = await SocketBackend().connect_tcp("localhost", port, timeout=60)
        await stream.write(b"")
        await stream.write(b"hello", timeout=60)
        said = [await stream.read(1, timeout=60), await stream.read(1, timeout=60)]
        assert stream.get_extra_info("is_readable") is True  # over: not to be used again
        assert stream.get_extra_info("server_addr")[1] == port
        await stream.aclose()
        return said

    assert asyncio.run(talk()) == [b"HELLO", b""]


def test_more_than_is_read_waits_in_the_server(listening: Answering) -> None:
    size = 30_000_000
    sent = threading.Event()

    def serve(client: socket.socket) -> None:
        client.sendall(b"x" * size)
        sent.set()

    port = listening(serve)

    async def talk() -> int:
        stream = await SocketBackend().connect_tcp("127.0.0.1", port, timeout=60)
        first = await stream.read(1, timeout=60)
        await asyncio.sleep(0.1)
        assert not sent.is_set()
        total = len(first)
        while data := await stream.read(1, timeout=60):
            total += len(data)
        await stream.aclose()
        return total

    assert asyncio.run(talk()) == size


def test_a_large_request_is_written_while_the_other_side_takes_it(listening: Answering) -> None:
    size = 20_000_000
    received: list[int] = []

    def serve(client: socket.socket) -> None:
        left = size
        while left:
            left -= len(client.recv(1 << 20))
        received.append(size)
        client.sendall(b"ok")

    port = listening(serve)

    async def talk() -> bytes:
        stream = await SocketBackend().connect_tcp("127.0.0.1", port, timeout=60)
        await stream.write(b"x" * size, timeout=60)
        answer = await stream.read(1, timeout=60)
        await stream.aclose()
        return answer

    assert (asyncio.run(talk()), received) == (b"ok", [size])


def test_silence_and_refusal_have_the_names_that_the_client_knows(listening: Answering) -> None:
    done = threading.Event()
    port = listening(lambda _client: done.wait(10) and None)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]

    async def talk() -> None:
        stream = await SocketBackend().connect_tcp("127.0.0.1", port, timeout=60)
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(1, timeout=0.01)
        await stream.aclose()
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"x", timeout=1)
        with pytest.raises(httpcore.ConnectError):
            await SocketBackend().connect_tcp("127.0.0.1", nobody, timeout=60)
        with pytest.raises(httpcore.ConnectError):
            await SocketBackend().connect_tcp("host.invalid", 80, timeout=60)

    asyncio.run(talk())
    done.set()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip(lacking("openssl"))
    path = tmp_path / "both.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        [*command.split(), "-keyout", path, "-out", tmp_path / "cert.pem"], check=True, capture_output=True
    )
    path.write_text(path.read_text() + (tmp_path / "cert.pem").read_text())
    return path


def test_it_speaks_tls_and_refuses_who_is_not_known(listening: Answering, certificate: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)

    def serve(client: socket.socket) -> None:
        try:
            with server.wrap_socket(client, server_side=True) as secure:
                secure.sendall(HEAD + chunk(b"a") + chunk(b"b") + secure.recv(100))
        except OSError:
            pass

    async def talk(port: int, context: ssl.SSLContext) -> bytes:
        plain = await SocketBackend().connect_tcp("localhost", port, timeout=60)
        secure = await plain.start_tls(context, server_hostname="localhost", timeout=60)
        assert isinstance(secure, SocketStream)
        assert secure.get_extra_info("ssl_object") is not None
        await secure.write(END, timeout=60)
        assert await secure.read(1, timeout=60) == HEAD
        received = b"".join([content async for content in secure.body(5)])
        received += await secure.read(1, timeout=60)
        await secure.aclose()
        return received

    trusting = ssl.create_default_context(cafile=certificate)
    assert asyncio.run(talk(listening(serve), trusting)) == b"ab" + END
    with pytest.raises(httpcore.ConnectError):
        asyncio.run(talk(listening(serve), ssl.create_default_context()))


@pytest.mark.parametrize(
    "before", [b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"], ids=["alone", "after hints"]
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_the_client_still_knows_when_a_connection_serves_again(
    listening: Answering, before: bytes, step: int
) -> None:
    """There is one connection, and three answers on it: one past the client, one through it, one of another kind."""
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain"

    def serve(client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for answer in (before + HEAD + chunk(b"a") + chunk(b"b" * 30) + END, HEAD + chunk(b"c") + END, plain):
            while not client.recv(10_000).endswith(b"\r\n\r\n"):
                pass
            for start in range(0, len(answer), step):
                client.sendall(answer[start : start + step])

    port = listening(serve)

    async def talk() -> list[bytes]:
        said = []
        async with httpcore.AsyncConnectionPool(network_backend=SocketBackend()) as pool:
            for is_direct in (True, False, False):
                async with pool.stream("GET", f"http://127.0.0.1:{port}/") as response:
                    stream = response.extensions["network_stream"]
                    assert isinstance(stream, SocketStream)
                    direct = [content async for content in stream.body(5)] if is_direct else []
                    assert bool(direct) is is_direct
                    said.append(b"".join([*direct, *[part async for part in response.stream]]))
        return said

    assert asyncio.run(talk()) == [b"a" + b"b" * 30, b"c", b"plain"]


def test_a_body_that_breaks_off_is_reported_by_the_client(listening: Answering) -> None:
    def serve(client: socket.socket) -> None:
        client.recv(10_000)
        client.sendall(HEAD + chunk(b"a") + b"5\r\nab")

    port = listening(serve)

    async def talk() -> None:
        async with (
            httpcore.AsyncConnectionPool(network_backend=SocketBackend()) as pool,
            pool.stream("GET", f"http://127.0.0.1:{port}/") as response,
        ):
            stream = response.extensions["network_stream"]
            assert b"".join([content async for content in stream.body(5)]) == b"aab"
            with pytest.raises(httpcore.RemoteProtocolError, match="incomplete"):
                [part async for part in response.stream]

    asyncio.run(talk())
