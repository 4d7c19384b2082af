"""The gateway beside no gateway: processor time for each piece of an answer, the clock, and what a long run adds.

usage: python benchmarks/gateway.py
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

from measuring import size

from harness.gateway.call_records import CallRecords
from harness.gateway.gateway import ModelGateway
from harness.gateway.pass_on import PassOn, Upstream
from harness.gateway.translated import Translated
from harness.log.raw import RawCall, RawRequest, RawResponse
from harness.models.registry import open_model

PIECES = size(20_000, 50)
CALLS = size(200, 3)
ROUNDS = size(5, 1)
ANSWER_S = size(25, 1) / 100
"""How long a provider takes for an answer: a quick one."""
PIECE = (
    b'data: {"choices":[{"index":0,"delta":{"content":"some words of an answer"},"finish_reason":null}]}\n\n'
)
_PROVIDER = """
import socket, sys, threading, time
pause_s, pieces, piece = float(sys.argv[3]), int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode()
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
chunk = b"%x\\r\\n%b\\r\\n" % (len(piece), piece)
head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
def converse(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = b""
    while True:
        data = connection.recv(1 << 20)
        if not data:
            break
        buffer += data
        while b"\\r\\n\\r\\n" in buffer:
            at = buffer.index(b"\\r\\n\\r\\n") + 4
            name = b"content-length: "
            lower = buffer[:at].lower()
            length = int(lower.partition(name)[2].split(b"\\r\\n")[0]) if name in lower else 0
            if len(buffer) < at + length:
                break
            buffer = buffer[at + length:]
            time.sleep(pause_s)
            connection.sendall(head)
            for _ in range(pieces):
                connection.sendall(chunk)
            connection.sendall(b"0\\r\\n\\r\\n")

while True:
    threading.Thread(target=converse, args=(listening.accept()[0],), daemon=True).start()
"""


class Provider:
    """A process that answers every request with as many pieces as it is told."""

    def __init__(self, pieces: int, pause_s: float = 0.0) -> None:
        piece = PIECE.decode().replace("\n", "\\n")
        command = [sys.executable, "-I", "-c", _PROVIDER, str(pieces), piece, str(pause_s)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Asking:
    """A client of one connection, in a process of its own: its time is not the gateway's."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, body: bytes, token: str = "") -> int:
        """The bytes of the answer."""
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
        self._connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        count, tail = 0, b""
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            data = self._connection.recv(1 << 16)
            count += len(data)
            tail = (tail + data)[-16:]
        return count

    def first_s(self, path: str, body: bytes, token: str) -> float:
        """Seconds until the first byte of the answer's content; the rest is read, too."""
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {token}\r\ncontent-length: {len(body)}\r\n\r\n"
        start = time.perf_counter()
        self._connection.sendall(head.encode() + body)
        data, took = b"", 0.0
        while not data.endswith(b"\r\n0\r\n\r\n"):
            data += self._connection.recv(1 << 16)
            if not took and len(data.partition(b"\r\n\r\n")[2]) > 0:
                took = time.perf_counter() - start
        return took

    def close(self) -> None:
        self._connection.close()


def gateway_before(port: int, records: CallRecords | None) -> tuple[ModelGateway, PassOn]:
    passed = PassOn(Upstream(url=f"http://127.0.0.1:{port}/v1", base_path="/v1"))
    return ModelGateway(passed, token="token", records=records), passed


def _in_child(port: int, body: bytes, times: int, token: str) -> float:
    """Seconds by the clock that a client in another process needs."""
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from gateway import Asking; import os\n"
        "body = open(sys.argv[3], 'rb').read(); asking = Asking(int(sys.argv[2])); asking.ask(body, sys.argv[5])\n"
        "start = time.perf_counter()\n"
        "for _ in range(int(sys.argv[4])): asking.ask(body, sys.argv[5])\n"
        "print(time.perf_counter() - start)"
    )
    path = f"{tempfile.gettempdir()}/harness-bench-{os.getpid()}.json"
    Path(path).write_bytes(body)
    arguments = [str(Path(__file__).parent), str(port), path, str(times), token]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    os.unlink(path)
    return float(done.stdout)


def pieces() -> None:
    provider = Provider(PIECES)
    body = json.dumps(
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    ).encode()
    direct, through, cpu = [], [], []
    gateway, passed = gateway_before(provider.port, None)
    for _ in range(ROUNDS):
        direct.append(_in_child(provider.port, body, 1, "token"))
        before = time.process_time()
        through.append(_in_child(gateway.port, body, 1, "token"))
        cpu.append((time.process_time() - before) / (2 * PIECES))  # it asks twice, once to warm up
    gateway.close()
    passed.close()
    provider.close()
    print(f"pass, {PIECES} pieces: {min(cpu) * 1e6:.1f} µs of processor time a piece, ", end="")
    print(f"{min(through) / min(direct):.2f} × the clock without a gateway")


def long_run() -> None:
    """A conversation that grows with every call, recorded and not, call by call in turn."""
    provider = Provider(size(200, 5), ANSWER_S)
    stored: list[RawCall] = []
    gateways = [gateway_before(provider.port, records) for records in (None, CallRecords(stored.extend))]
    clients = [Asking(gateway.port) for gateway, _ in gateways]
    took = [0.0, 0.0]
    messages = [{"role": "user", "content": "x" * 40_000}]
    for number in range(CALLS):
        messages.append({"role": "assistant", "content": f"Answer {number}. " + "words " * 60})
        messages.append({"role": "user", "content": f"Result {number}. " + "lines " * 200})
        body = json.dumps({"model": "m", "stream": True, "messages": messages}).encode()
        for place, client in enumerate(clients):
            start = time.perf_counter()
            client.ask(body, "token")
            took[place] += time.perf_counter() - start
    for client, (gateway, passed) in zip(clients, gateways, strict=True):
        client.close()
        gateway.close()
        passed.close()
    provider.close()
    wire = sum(entry.body_size for entry in stored if isinstance(entry, RawRequest | RawResponse))
    kept = sum(len(entry.data) for entry in stored if isinstance(entry, RawRequest | RawResponse))
    print(
        f"record, {CALLS} calls: {(took[1] - took[0]) / CALLS * 1e3:.1f} ms a call; {took[1] / took[0]:.3f} × the clock without "
        f"a record, where an answer takes {ANSWER_S * 1e3:.0f} ms; {wire / 1e6:.1f} MB sent, {kept / 1e6:.2f} MB stored"
    )


def first_byte() -> None:
    """Until a program gets the first byte, passed and translated in turn, of a provider that thinks for a while."""
    provider = Provider(size(50, 2), ANSWER_S)
    environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{provider.port}/v1", "OPENAI_API_KEY": "key"}
    translated = Translated(lambda retries: open_model("openai-chat/m", environ, retries=retries))
    translating = ModelGateway(translated, token="token")
    gateway, passed = gateway_before(provider.port, None)
    messages = [{"role": "user", "content": "x" * 40_000}]
    body = json.dumps({"model": "m", "stream": True, "max_tokens": 100, "messages": messages}).encode()
    ways = ((Asking(gateway.port), "/v1/chat/completions"), (Asking(translating.port), "/v1/messages"))
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(size(20, 2)):
        for (client, path), times in zip(ways, took, strict=True):
            times.append(client.first_s(path, body, "token"))
    for client, _ in ways:
        client.close()
    for one in (gateway, translating, passed, translated, provider):
        one.close()
    usual, other = median(took[0]), median(took[1])
    print(
        f"translate: the first byte comes {other / usual:.3f} × as late as passed on, {(other - usual) * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    pieces()
    first_byte()
    long_run()
