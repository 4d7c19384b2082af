"""How much the server costs: many clients of one conversation, and one client that does not read.

usage: python benchmarks/server.py [--clients 500] [--rate 1000] [--seconds 60] [--quick]

The server, its log and its disk are real; the clients are in a process of their own and time the pieces of text
from the moment they are written to the log. CPU is that of the server's process, the writing of the log included.
"""

from __future__ import annotations

import argparse
import json
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from harness import config
from harness.clients.commands import Command
from harness.clients.conversations.backend import ConversationStatus, Setup
from harness.errors import UsageError
from harness.events import Message, Result, SessionStart, TextDelta
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.server.access.credentials import Access
from harness.server.access.host_names import names_of
from harness.server.app import Plan, ServerApp
from harness.server.serving import Serving, bind

sys.path.insert(0, str(Path(__file__).parent))

from measuring import memory_mb, size

STAMP = re.compile(rb"@(\d+)@")
FRAME_WAIT_S = 30.0
PING = 9
SAMPLED = 8
"""Of so many messages one is looked at: the clients must not be slower than the server."""


class BenchBackend:
    """One conversation, into which a thread writes at a fixed rate."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def create(self, _setup: Setup) -> str:
        raise UsageError("there is one conversation here")

    async def carry_out(self, _log_id: str, _command: Command) -> None:
        raise UsageError("nothing can be asked here")

    def status(self, _log_id: str) -> ConversationStatus:
        return ConversationStatus(is_ours=True, is_running=True)

    def hub(self, log_id: str) -> Hub | None:
        return self._hub if log_id == self._hub.log_id else None

    def bus(self, _log_id: str) -> None:
        return None

    def listen(self, listener: object) -> None:
        del listener

    def listen_to_replacements(self, listener: object) -> None:
        del listener

    async def unload_idle(self, is_watched: object) -> None:
        del is_watched

    async def unload(self, log_id: str) -> None:
        del log_id

    async def close(self) -> None:
        return


def serve(rate: float, count: int, size: int) -> None:
    """In a process of its own: print where it is, write when told to, print what it cost."""
    folder = Path(tempfile.mkdtemp())
    store = FileStore(str(folder / "sessions"))
    log_id = new_run_id(time.time_ns() // 1_000_000)
    hub = Hub(store, log_id, store.create(Metadata(session_id=log_id)))
    source = hub.source(log_id)
    source.append([SessionStart(agent="bench"), Message(role="user", text="go")])
    listening = bind("127.0.0.1", 0)
    access, port = Access("token-of-this-run-alone"), listening.getsockname()[1]
    plan = Plan(
        store=store,
        backend=lambda: BenchBackend(hub),
        access=access,
        settings=config.load(str(folder), {}),
        default=Setup(agent="native"),
        names=names_of(port),
    )
    serving = Serving(
        ServerApp(plan).guarded(), listening, lambda: print(port, access.token, log_id, flush=True)
    )

    def write() -> None:
        sys.stdin.readline()
        before, began_s, rss = time.process_time(), time.monotonic(), round(memory_mb(), 1)
        pad = "x" * size
        for number in range(count):
            source.append([TextDelta(text=f" lorem @{time.monotonic_ns()}@{pad}")])
            late_s = began_s + number / rate - time.monotonic()
            if late_s > 0:
                time.sleep(late_s)
        spent_s = time.monotonic() - began_s
        time.sleep(0.3)
        source.append([Result(success=True)])
        told = {
            "seconds": round(spent_s, 2),
            "cpu_share": round((time.process_time() - before) / spent_s, 3),
            "rss_before_mb": rss,
            "rss_after_mb": round(memory_mb(), 1),
            "state_mb": round((len(pad) + 34) * count / 1e6, 1),
        }
        print(json.dumps(told), flush=True)
        sys.stdin.readline()
        serving.stop()

    threading.Thread(target=write, daemon=True).start()
    serving.run()


class Client:
    """Reads messages of a socket as cheaply as Python can."""

    def __init__(self, port: int, token: str, log_id: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(
            f"GET /ws?session={log_id} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            f"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.socket.recv(65536)
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        assert b" 101 " in head, head
        self.socket.setblocking(False)
        self.messages = self.states = 0
        self.is_done = False

    def read(self, waits_ns: list[int]) -> None:
        received = self.socket.recv(1 << 20)
        assert received, "the server has hung up"
        data = self.rest + received
        now_ns = time.monotonic_ns()
        at = 0
        while len(data) - at >= 2:
            size, head = data[at + 1] & 127, 2
            if size == 126:
                size, head = int.from_bytes(data[at + 2 : at + 4], "big"), 4
            elif size == 127:
                size, head = int.from_bytes(data[at + 2 : at + 10], "big"), 10
            if len(data) < at + head + size:
                break
            payload = data[at + head : at + head + size]
            if data[at] & 15 == PING:
                self.socket.sendall(bytes((0x8A, 0x80 | size, 0, 0, 0, 0)) + payload)
            else:
                self._take(payload, now_ns, waits_ns)
            at += head + size
        self.rest = data[at:]

    def _take(self, payload: bytes, now_ns: int, waits_ns: list[int]) -> None:
        self.messages += 1
        if payload.startswith(b'{"type":"state"'):
            self.states += 1
        elif self.messages % SAMPLED == 0:
            stamps = STAMP.findall(payload, 0, payload.find(b'"append-text"', 60))
            waits_ns += [now_ns - int(stamp) for stamp in stamps]
        if b'"status"],"value":"idle"' in payload or b'"status":"idle"' in payload[:200]:
            self.is_done = True


def watch(port: int, token: str, log_id: str, count: int) -> None:
    """In a process of its own: many clients, until the run has ended."""
    clients = [Client(port, token, log_id) for _ in range(count)]
    poll = select.epoll()
    by_fd = {}
    for client in clients:
        poll.register(client.socket, select.EPOLLIN)
        by_fd[client.socket.fileno()] = client
    waits_ns: list[int] = []
    print("ready", flush=True)
    while not all(client.is_done for client in clients):
        for fd, _event in poll.poll(FRAME_WAIT_S):
            by_fd[fd].read(waits_ns)
    waits_ns = sorted(waits_ns) or [0]  # so few pieces may be over before a client is there
    told = {
        "messages": sum(client.messages for client in clients),
        "snapshots_per_client": sum(client.states for client in clients) / count,
        "p50_ms": round(waits_ns[len(waits_ns) // 2] / 1e6, 1),
        "p99_ms": round(waits_ns[len(waits_ns) * 99 // 100] / 1e6, 1),
    }
    print(json.dumps(told), flush=True)


def measure(*, clients: int, rate: float, count: int, size: int, stalled: int = 0) -> dict[str, float]:
    here = [sys.executable, __file__]
    server = subprocess.Popen(
        [*here, "serve", str(rate), str(count), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin
    assert server.stdout
    port, token, log_id = server.stdout.readline().split()
    load = subprocess.Popen(
        [*here, "watch", port, token, log_id, str(clients)], stdout=subprocess.PIPE, text=True
    )
    assert load.stdout
    assert load.stdout.readline() == "ready\n"
    lazy = [Client(int(port), token, log_id) for _ in range(stalled)]
    server.stdin.write("go\n")
    server.stdin.flush()
    cost = json.loads(server.stdout.readline())
    seen = json.loads(load.stdout.readline())
    server.stdin.write("stop\n")
    server.stdin.flush()
    for client in lazy:
        client.socket.close()
    server.wait(30)
    load.wait(30)
    return {**cost, **seen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    seconds = 5 if chosen.quick else chosen.seconds
    told = measure(clients=chosen.clients, rate=chosen.rate, count=int(chosen.rate * seconds), size=0)
    print(f"{chosen.clients} clients, {chosen.rate:g} deltas/s, {seconds:g} s")
    print(f"  CPU {told['cpu_share']:.0%} of a core (at most 50 %), p50 {told['p50_ms']} ms, ", end="")
    print(f"p99 {told['p99_ms']} ms (at most 150), {told['rss_after_mb']} MB, {told['messages']} messages")
    count = 4_000 if chosen.quick else size(20_000, 100)
    without = measure(clients=10, rate=2_000, count=count, size=2_000)
    stalled = measure(clients=10, rate=2_000, count=count, size=2_000, stalled=1)
    growth = {
        name: one["rss_after_mb"] - one["rss_before_mb"]
        for name, one in (("without", without), ("with", stalled))
    }
    print(
        f"10 clients, {count} deltas of 2 KB: p99 {without['p99_ms']} ms, memory +{growth['without']:.1f} MB"
    )
    ratio = stalled["p99_ms"] / max(without["p99_ms"], 0.1)
    print(f"  and one that never reads: p99 {stalled['p99_ms']} ms (×{ratio:.2f}, at most ×3), ", end="")
    print(f"memory +{growth['with']:.1f} MB (at most 16 MB and the state, {stalled['state_mb']} MB)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1:2] == ["watch"]:
        watch(int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        main()
