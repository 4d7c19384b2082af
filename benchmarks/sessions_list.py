"""What lists, search and the bill of `harness serve` cost, with few sessions and with many.

usage: python benchmarks/sessions_list.py [--sessions 100 10000] [--requests 50]

The server is a process of its own, with sessions as `harness run` records them; CPU is that of its process, the
answering over HTTP included. "unchanged": a page that asks again with the `ETag` of what it has. "one grows": another
process writes into a session between two requests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from harness.events import Message, Result, SessionStart, TextDelta, Usage, UsageDelta
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore

sys.path.insert(0, str(Path(__file__).parent))

from measuring import cpu_of_process

PROGRAM = (sys.executable, "-c", "from harness.cli.main import entry; entry()")
WORDS = ("retry", "parser", "socket", "colour", "index", "cursor", "ledger", "border", "rename", "budget")


def record(folder: Path, count: int) -> None:
    store = FileStore(str(folder))
    now_ms = time.time_ns() // 1_000_000
    for number in range(count):
        at_ms = now_ms - (count - number) * 60_000
        words = " ".join(WORDS[(number * step) % len(WORDS)] for step in (1, 3, 7))
        metadata = Metadata(
            session_id=new_run_id(at_ms),
            agent="Claude Code",
            agent_name="claude",
            prompt=f"Please mend the {words} of module {number}",
            cwd="/home/me/project",
            start_time=str(at_ms // 1000),
            created_ms=at_ms,
            updated_ms=at_ms,
            duration_ms=1_000,
            success=True,
            outcome="completed",
        )
        hub = Hub(store, metadata.session_id, store.create(metadata), clock=lambda at_ms=at_ms: at_ms)
        hub.source(metadata.session_id).append(
            [
                SessionStart(agent="claude", model="claude-sonnet-4-6"),
                Message(role="user", text=metadata.prompt),
                *(TextDelta(text=f"word{piece} ") for piece in range(20)),
                Message(role="assistant", text=f"The {words} of module {number} is mended now. " * 5),
                UsageDelta(usage=Usage(input=1_000, output=200)),
                Result(success=True, text="done"),
            ]
        )
        hub.close()
    store.close()


class Measured:
    def __init__(self, folder: Path, requests: int) -> None:
        self._folder = folder
        self._requests = requests
        environ = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
        words = [*PROGRAM, "serve", "--port", "0", "--agent", "native", "--store", str(folder / "sessions")]
        self._process = subprocess.Popen(
            words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        server = folder / "harness" / "server"
        self.http = httpx.Client(
            base_url=(server / "address").read_text().strip(),
            headers={"Authorization": f"Bearer {(server / 'token').read_text().strip()}"},
            timeout=120,
        )

    def close(self) -> None:
        self.http.close()
        self._process.kill()
        self._process.wait()

    def first_s(self) -> tuple[float, int]:
        """Until the first list is there, and how many sessions it knows of."""
        began_s = time.monotonic()
        total = self.http.get("/api/sessions", params={"limit": 60}).json()["total"]
        return time.monotonic() - began_s, total

    def settle(self, count: int) -> None:
        """Until the index is complete."""
        while self.http.get("/api/sessions", params={"limit": 1}).json()["total"] < count:
            time.sleep(0.2)
        time.sleep(1)

    def cpu_ms(self, ask: Callable[[], Any]) -> float:
        ask()
        before_s = cpu_of_process(self._process.pid)
        for _ in range(self._requests):
            ask()
        return (cpu_of_process(self._process.pid) - before_s) * 1000 / self._requests

    def unchanged(self) -> None:
        etag = self._etag
        answer = self.http.get("/api/sessions", params={"limit": 60}, headers={"If-None-Match": etag})
        self._etag = answer.headers.get("etag", "")

    _etag = ""


def measure(count: int, requests: int) -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="harness-list-") as name:
        folder = Path(name)
        record(folder / "sessions", count)
        measured = Measured(folder, requests)
        http = measured.http
        try:
            first_s, known = measured.first_s()
            measured.settle(count)
            store = FileStore(str(folder / "sessions"))
            log_id = new_run_id(time.time_ns() // 1_000_000)
            hub = Hub(store, log_id, store.create(Metadata(session_id=log_id, prompt="grows")))

            def grow() -> None:
                hub.source(log_id).append([TextDelta(text="more ")])
                http.get("/api/sessions", params={"limit": 60})

            rows = [("first list after the start", f"{first_s * 1000:,.0f} ms, {known:,} sessions known")]
            for title, ask in (
                ("a list of 60", lambda: http.get("/api/sessions", params={"limit": 60})),
                ("the same, unchanged", measured.unchanged),
                ("the same, one grows", grow),
                (
                    "page 50 of the list",
                    lambda: http.get("/api/sessions", params={"limit": 60, "offset": 3_000}),
                ),
                ("search, a frequent word", lambda: http.get("/api/sessions", params={"query": "retry"})),
                (
                    "search, two words, one rare",
                    lambda: http.get("/api/sessions", params={"query": "module 777"}),
                ),
                ("search, two letters", lambda: http.get("/api/sessions", params={"query": "re"})),
                ("the bill", lambda: http.get("/api/usage", params={"by": "day"})),
            ):
                rows.append((title, f"{measured.cpu_ms(ask):.2f} ms"))
            hub.close()
            return rows
        finally:
            measured.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, nargs="*", default=[100, 10_000])
    parser.add_argument("--requests", type=int, default=50)
    arguments = parser.parse_args()
    for count in arguments.sessions:
        print(f"{count:,} sessions, CPU per request")
        for title, cost in measure(count, arguments.requests):
            print(f"  {title:<28} {cost:>12}")


if __name__ == "__main__":
    main()
