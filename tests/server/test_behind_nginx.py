"""The server behind a real nginx with TLS, with the lines that docs/protocol.md gives."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
from websockets.sync.client import connect

from lacking import lacking
from live_server import TIMEOUT_S
from serve_program import ServeProgram, serve_program
from source_tree import ROOT

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
CONFIGURATION = """\
daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/a; uwsgi_temp_path {folder}/b; scgi_temp_path {folder}/c;
  {server}
}}
"""
HOST = "harness.example.com"
CERTIFICATE = (
    f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={HOST} -addext subjectAltName=DNS:{HOST},IP:127.0.0.1"
    " -out certificate.pem -keyout key.pem"
)


@pytest.mark.parametrize(
    ("host", "path", "passed"),
    [(HOST, "", ""), (f"{HOST}:8443", "", ""), (HOST, "/tools/harness", ""), (HOST, "/tools/harness", "/")],
    ids=["host", "port", "path", "path taken off"],
)
def test_the_page_and_its_socket_work_behind_nginx(tmp_path: Path, host: str, path: str, passed: str) -> None:
    if NGINX is None:
        pytest.skip(lacking("nginx"))
    if shutil.which("openssl") is None:
        pytest.skip(lacking("openssl"))
    subprocess.run(CERTIFICATE.split(), cwd=tmp_path, check=True, capture_output=True)
    tls = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    public = f"https://{host}{path}"
    with (
        serve_program(tmp_path, "--public-url", public) as serve,
        _nginx(tmp_path, serve, path, passed) as port,
    ):
        headers = {"Host": host, "Origin": f"https://{host}", **serve.bearer}
        with httpx.Client(
            base_url=f"https://127.0.0.1:{port}{path}", timeout=TIMEOUT_S, verify=tls
        ) as client:
            assert client.get("/healthz", headers={"Host": host}).status_code == 200
            page = client.get("/", headers={"Host": host})
            asset = re.search(r'src="\./(assets/[^"]+)"', page.text)
            assert asset is not None
            assert client.get(f"/{asset[1]}", headers={"Host": host}).status_code == 200
            assert client.get("/api/server", headers={"Host": host}).status_code == 401
            link = client.post("/api/links", json={}, headers=headers).json()["link"]
            assert link.startswith(f"{public}/login?token=")
            session = client.post("/api/sessions", json={}, headers=headers).json()["id"]
        with connect(
            f"wss://{host}{path}/ws?session={session}",
            ssl=tls,
            sock=socket.create_connection(("127.0.0.1", port)),
            additional_headers=serve.bearer,
            origin=f"https://{host}",  # type: ignore[arg-type]
        ) as client_socket:
            assert msgspec.json.decode(client_socket.recv(TIMEOUT_S))["type"] == "state"


@contextmanager
def _nginx(folder: Path, serve: ServeProgram, path: str, passed: str) -> Iterator[int]:
    """It listens on a free port, with a certificate of its own; all else is as it is written."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    page = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    [server] = re.findall(r"^```nginx\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for written, meant in {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/ssl/harness/fullchain.pem": f"{folder}/certificate.pem",
        "/etc/ssl/harness/privkey.pem": f"{folder}/key.pem",
        "location / {": f"location {path}/ {{",
        "http://127.0.0.1:4780;": f"{serve.url}{passed};",
    }.items():
        assert written in server
        server = server.replace(written, meant)
    settings = folder / "nginx.conf"
    settings.write_text(CONFIGURATION.format(folder=folder, server=server))
    with subprocess.Popen([str(NGINX), "-p", folder, "-c", settings], stderr=subprocess.DEVNULL) as process:
        try:
            deadline_s = time.monotonic() + TIMEOUT_S
            while not _listens(port):
                assert process.poll() is None, (folder / "errors").read_text()
                assert time.monotonic() < deadline_s
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
