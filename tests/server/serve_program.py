"""`harness serve` as a process of its own, which can be measured and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect

from live_server import TIMEOUT_S

PROGRAM = (sys.executable, "-c", "from harness.cli.main import entry; entry()")
_COUNTING = """
import os, signal, sys
files, answer = os.open("/proc/self/fd", os.O_RDONLY), sys.argv.pop(1)

def count(*_):
    with open(answer + ".new", "w") as file:
        file.write(str(len(os.listdir(files))))
    os.rename(answer + ".new", answer)

signal.signal(signal.SIGUSR1, count)
from harness.cli.main import entry
entry()
"""
"""Harness lets nobody look into its process, so that its open files are counted by itself: it has opened the list before."""


class ServeProgram:
    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        assert process.stdout is not None
        process.stdout.readline()  # the link: it is there, and answers
        self._process = process
        self._folder = folder
        server = folder / "data" / "harness" / "server"
        self.token = (server / "token").read_text().strip()
        self.url = (server / "address").read_text().strip()
        self.bearer = {"Authorization": f"Bearer {self.token}"}

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def memory_bytes(self) -> int:
        """What it has in memory now."""
        return self._status_bytes("VmRSS:")

    @property
    def peak_memory_bytes(self) -> int:
        """The most that it ever had."""
        return self._status_bytes("VmHWM:")

    @property
    def open_files(self) -> int:
        answer = self._folder / "open-files"
        answer.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR1)
        deadline_s = time.monotonic() + TIMEOUT_S
        while not answer.exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        return int(answer.read_text())

    def _status_bytes(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.split("\n") if line.startswith(name))
        return int(line.split()[1]) * 1024

    def create(self, **wanted: Any) -> str:
        answer = httpx.post(f"{self.url}/api/sessions", json=wanted, headers=self.bearer, timeout=TIMEOUT_S)
        assert answer.status_code == 201, answer.text
        session: str = answer.json()["id"]
        return session

    def connect(self, session: str) -> connect:
        place = f"{self.url.replace('http', 'ws', 1)}/ws?session={session}"
        return connect(place, additional_headers=self.bearer, compression=None, max_size=None)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(TIMEOUT_S)


@contextmanager
def serve_program(folder: Path, *options: str, most_files: int = 0) -> Iterator[ServeProgram]:
    """`most_files`: as many as it may have open, as with `ulimit -n`."""
    limited = ["sh", "-c", f'ulimit -n {most_files}; exec "$@"', "sh"] if most_files else []
    environ = {
        **os.environ,
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    with subprocess.Popen(
        [
            *limited,
            sys.executable,
            "-c",
            _COUNTING,
            str(folder / "open-files"),
            "serve",
            "--port",
            "0",
            "--agent",
            "native",
            *options,
        ],
        env=environ,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield ServeProgram(process, folder)
        finally:
            process.kill()
