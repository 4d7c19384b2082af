"""`harness serve` and `harness runner` as programs: they print where they are, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from live_server import TIMEOUT_S


def origin_of(link: str) -> str:
    return link.partition("/login")[0]


@pytest.mark.parametrize("command", ["serve", "runner"])
def test_the_program_prints_where_it_is_and_ends_with_ctrl_c(tmp_path: Path, command: str) -> None:
    environ = {
        **os.environ,
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    program = [sys.executable, "-c", "from harness.cli.main import entry; entry()"]
    with subprocess.Popen(
        [*program, command, "--port", "0"],
        env=environ,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as served:
        assert served.stdout is not None
        assert served.stderr is not None
        place = served.stdout.readline().strip()
        token = (tmp_path / "data" / "harness" / "server" / "token").read_text().strip()
        assert token not in place
        if command == "serve":
            code = place.partition("?token=")[2]
            assert httpx.get(place).status_code == 200  # who only looks at a link has not used it
            entered = httpx.post(f"{origin_of(place)}/api/login", json={"code": code})
            assert entered.status_code == 200
            assert httpx.post(f"{origin_of(place)}/api/login", json={"code": code}).status_code == 401
            address = (tmp_path / "data" / "harness" / "server" / "address").read_text().strip()
            path = "/api/sessions"
        else:
            address, path = place, "/runs"
        assert httpx.get(f"{address}{path}").status_code == 401
        assert httpx.get(f"{address}{path}", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        served.send_signal(signal.SIGINT)
        assert served.wait(TIMEOUT_S) in (0, 130)
        shown_text = served.stderr.read()
        assert "Traceback" not in shown_text
        assert token not in shown_text


def test_an_address_that_is_taken_is_reported_in_one_line(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = [sys.executable, "-c", "from harness.cli.main import entry; entry()"]
        environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
        done = subprocess.run(
            [*program, "serve", "--port", str(port)], env=environ, capture_output=True, text=True, check=False
        )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
