"""The PostgreSQL of the tests ends with them, also when they are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import postgres_server

_TESTS = """
import sys, time
sys.path.insert(0, {folder!r})
import postgres_server
print(postgres_server._server()[0] or "", flush=True)
time.sleep(600)
"""


def test_a_server_does_not_outlive_the_tests() -> None:
    folder = str(Path(postgres_server.__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", _TESTS.format(folder=folder)], stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        url = tests.stdout.readline().strip()
        tests.send_signal(signal.SIGKILL)
    if not url:
        postgres_server.url()  # says why there is none, and skips
    from urllib.parse import unquote

    data = Path(unquote(url.partition("host=")[2]))
    deadline = time.monotonic() + 60
    while data.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
