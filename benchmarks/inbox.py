"""How much the inbox costs: many sessions that run in other processes, and many browsers that watch all of them.

usage: python benchmarks/inbox.py [--sessions 200] [--browsers 20] [--rate 5] [--seconds 20] [--old 5000] [--quick]

The server is on one core, with real files and sockets; the sessions are written by a second process, and the browsers
are a third one. Printed: the CPU of the server, how long it took from an ask in a log until every browser had it, and
whether each browser had the same rows in the end, also one that was cut off in between.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from websockets.asyncio.client import connect

from harness import config
from harness.clients.conversations.backend import Setup
from harness.clients.conversations.shared_backend import open_backend
from harness.events import (
    Message,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.events.operation import Command
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.server.access.credentials import open_access
from harness.server.access.host_names import names_of
from harness.server.app import Plan, ServerApp
from harness.server.serving import Serving, bind

sys.path.insert(0, str(Path(__file__).parent))

from measuring import memory_mb, size

ASKS_EVERY_S = 0.5
"""Some session asks."""
STARTS_WITHIN_S = 120.0


def begun(store: FileStore, number: int) -> Hub:
    log_id = new_run_id(time.time_ns() // 1_000_000)
    metadata = Metadata(session_id=log_id, agent="Claude Code", agent_name="claude", prompt=f"task {number}")
    hub = Hub(store, log_id, store.create(metadata))
    hub.source(log_id).append(
        [SessionStart(agent="claude", model="claude-sonnet-5"), Message(role="user", text="go")]
    )
    return hub


def write(folder: str, sessions: int, rate: float, seconds: float) -> None:
    """Sessions that write text, make calls and ask now and then."""
    store = FileStore(folder)
    hubs = [begun(store, number) for number in range(sessions)]
    print("ready", flush=True)
    sys.stdin.readline()
    end_s, step, asked_s = time.monotonic() + seconds, 0, time.monotonic()
    while time.monotonic() < end_s:
        began_s, step = time.monotonic(), step + 1
        for number, hub in enumerate(hubs):
            source = hub.source(hub.log_id)
            source.append([TextDelta(id=f"t{step // 10}", text=f"word {step} ")])
            if (step + number) % 10 == 0:
                call = ToolStart(call_id=f"c{step}", tool_name="Bash", operations=[Command(command="make")])
                source.append([call, ToolEnd(call_id=f"c{step}", tool_name="Bash", success=True)])
        if time.monotonic() - asked_s >= ASKS_EVERY_S:
            asked_s = time.monotonic()
            source = hubs[step % len(hubs)].source(hubs[step % len(hubs)].log_id)
            source.append([Relay(id=f"q{step}", call_id="x", tool_name="Bash", input={"command": "make"})])
            time.sleep(0.05)
            threading.Timer(0.4, source.append, ([RelayReply(id=f"q{step}", approved=True)],)).start()
        time.sleep(max(0.0, 1 / rate - (time.monotonic() - began_s)))
    time.sleep(1.0)
    for hub in hubs:
        hub.source(hub.log_id).append([Result(success=True)])
        hub.close()
    store.close()


async def watch(url: str, token: str, browsers: int, seconds: float) -> None:
    """Browsers; prints what each saw as JSON."""
    delays: list[float] = []
    rows: list[dict[str, Any]] = [{} for _ in range(browsers)]
    counts = {"messages": 0, "rows": 0, "bytes": 0}
    end_s = time.monotonic() + seconds

    async def one(number: int, until_s: float) -> None:
        seen: set[str] = set()
        headers = {"Authorization": f"Bearer {token}"}
        place = url.replace("http", "ws", 1) + "/ws/inbox"
        async with connect(place, additional_headers=headers, compression=None, max_size=None) as socket:
            while (rest_s := until_s - time.monotonic()) > 0:
                try:
                    text = await asyncio.wait_for(socket.recv(), rest_s)
                except TimeoutError:
                    break
                message = json.loads(text)
                counts["messages"] += 1
                counts["bytes"] += len(text)
                for row in message.get("rows", message.get("changed", [])):
                    counts["rows"] += 1
                    rows[number][row["id"]] = row["state"]
                    for ask in row["asks"]:
                        if ask["id"] + row["id"] not in seen and message["type"] == "rows":
                            delays.append(time.time() * 1000 - ask["askedMs"])
                        seen.add(ask["id"] + row["id"])

    async def cut_off() -> None:
        """A browser whose connection breaks again and again."""
        while time.monotonic() < end_s:
            await one(0, min(end_s, time.monotonic() + 2.0))

    await asyncio.gather(cut_off(), *(one(number, end_s) for number in range(1, browsers)))
    delays.sort()
    result = {
        **counts,
        "asks": len(delays),
        "median_ms": round(median(delays), 1) if delays else None,
        "p95_ms": round(delays[int(len(delays) * 0.95)], 1) if delays else None,
        "worst_ms": round(delays[-1], 1) if delays else None,
        "agree": all(one == rows[0] for one in rows),
        "states": sorted(set(rows[0].values())),
    }
    print(json.dumps(result))


def old_sessions(store: FileStore, count: int) -> None:
    for number in range(count):
        writer = store.create(
            Metadata(session_id=f"old{number}", outcome="completed", updated_ms=1000 + number)
        )
        writer.append([SessionStart(agent="x", seq=0, run_id=f"old{number}", timestamp_ms=1000 + number)])
        writer.close()


def measure(sessions: int, browsers: int, rate: float, seconds: float, old: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = f"{folder}/data"
        sessions_folder = f"{folder}/sessions"
        store = FileStore(sessions_folder)
        old_sessions(store, old)
        program = [sys.executable, str(Path(__file__).resolve()), "--folder", sessions_folder]
        options = [
            f"--sessions={sessions}",
            f"--rate={rate}",
            f"--seconds={seconds}",
            f"--browsers={browsers}",
        ]
        writer = subprocess.Popen(
            [*program, "--role=write", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
        with ServedHere(store, folder) as (url, token):
            watching = subprocess.Popen(
                [*program, "--role=watch", f"--url={url}", f"--token={token}", *options],
                stdout=subprocess.PIPE,
                text=True,
            )
            time.sleep(2.0)
            writer.stdin.write("go\n")
            writer.stdin.flush()
            cpu_s, began_s = time.process_time(), time.monotonic()
            time.sleep(seconds)
            share = (time.process_time() - cpu_s) / (time.monotonic() - began_s)
            out, _ = watching.communicate(timeout=STARTS_WITHIN_S)
            writer.wait(STARTS_WITHIN_S)
        writer.stdin.close()
        writer.stdout.close()
        return {"cpu_share": round(share, 3), "memory_mb": round(memory_mb(), 1), **json.loads(out)}


class ServedHere:
    """A server in this process, on one core."""

    def __init__(self, store: FileStore, folder: str) -> None:
        self._listening = bind("127.0.0.1", 0)
        port = self._listening.getsockname()[1]
        access = open_access(f"{folder}/server/token", f"{folder}/server/browsers.json")
        default = Setup(agent="native", cwd=folder)
        plan = Plan(
            store=store,
            backend=lambda: open_backend(store, default),
            access=access,
            settings=config.load(folder, {}),
            default=default,
            names=names_of(port, [], ""),
        )
        self._ready = threading.Event()
        self._serving = Serving(ServerApp(plan).guarded(), self._listening, self._ready.set)
        self._thread = threading.Thread(target=self._serving.run, daemon=True)
        self._place = f"http://127.0.0.1:{port}", access.token

    def __enter__(self) -> tuple[str, str]:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        self._thread.start()
        assert self._ready.wait(STARTS_WITHIN_S)
        return self._place

    def __exit__(self, *_: object) -> None:
        self._serving.stop()
        self._thread.join(30)
        self._listening.close()


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--sessions", type=int, default=200)
    add("--browsers", type=int, default=20)
    add("--rate", type=float, default=5.0, help="pieces of text a second, of each session")
    add("--seconds", type=float, default=20.0)
    add("--old", type=int, default=5_000, help="sessions that have ended long ago")
    add("--quick", action="store_true")
    for name in ("--role", "--folder", "--url", "--token"):
        add(name, default="", help=argparse.SUPPRESS)
    chosen = parser.parse_args(words)
    if chosen.role == "write":
        write(chosen.folder, chosen.sessions, chosen.rate, chosen.seconds)
    elif chosen.role == "watch":
        asyncio.run(watch(chosen.url, chosen.token, chosen.browsers, chosen.seconds + size(8.0, 1.0)))
    elif chosen.quick:
        print(json.dumps(measure(sessions=5, browsers=3, rate=5.0, seconds=3.0, old=10)))
    else:
        found = measure(chosen.sessions, chosen.browsers, chosen.rate, chosen.seconds, chosen.old)
        print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
