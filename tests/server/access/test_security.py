"""Which requests are accepted, and how others are refused."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import stat
import sys
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from harness.errors import StoreError, UsageError
from harness.log.store import Metadata
from harness.server.access.credentials import Access, load_token
from harness.server.api.logins import PUBLIC
from live_server import TIMEOUT_S, LiveServer, Watcher, run

ORIGINS = {
    "evil": "http://evil.example",
    "null": "null",
    "other port": "http://127.0.0.1:1",
    "https": "https://127.0.0.1:{port}",
    "prefix": "http://127.0.0.1:{port}.evil.example",
    "suffix": "http://evil127.0.0.1:{port}",
    "upper case": "HTTP://LOCALHOST:{port}",
    "trailing dot": "http://localhost.:{port}",
    "another IPv6": "http://[::2]:{port}",
    "file": "file://",
    "extension": "chrome-extension://abcdefghijklmnop",
    "with a path": "http://127.0.0.1:{port}/x",
}
HOSTS = (
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost.:{port}",
    "127.0.0.1.evil.example:{port}",
    "0.0.0.0:{port}",
    "2130706433:{port}",
)


def routes(live: LiveServer) -> list[tuple[str, str]]:
    """Every route of the application that is not open to everybody, with something in its gaps."""
    assert live.application is not None
    found: list[tuple[str, str]] = []
    for route in live.application.routes:
        if isinstance(route, Route):
            path = re.sub(r"\{[^}]*\}", "x", route.path)
            found += [(method, path) for method in sorted(route.methods or ()) if method != "HEAD"]
        else:
            assert isinstance(route, WebSocketRoute)
    return [route for route in found if route not in PUBLIC]


def test_every_route_refuses_without_the_token_and_with_a_wrong_one(live: LiveServer) -> None:
    every = routes(live)
    assert len(every) > 15
    wrong = (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {live.access.token}"},
        {"Authorization": "Bearer " + live.access.token[:-1]},
        {"Cookie": f"harness_{live.port}={live.access.token}"},
        {"Cookie": f"harness.credential={live.logged_in()}"},
    )
    with httpx.Client(base_url=live.url) as client:
        for method, path in [*every, ("GET", "/nowhere"), ("GET", "/api/nowhere"), ("GET", "/assets/x.js")]:
            for headers in wrong:
                answer = client.request(method, path, headers=headers)
                assert answer.status_code == 401, (method, path, headers)
                assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("origin", ORIGINS.values(), ids=ORIGINS)
def test_a_page_of_another_origin_gets_nothing(live: LiveServer, origin: str) -> None:
    session = live.create(model=live.script("secret"))
    origin = origin.format(port=live.port)
    with live.http() as client:
        for method, path in routes(live):
            answer = client.request(
                method, path, headers={"Origin": origin, "Content-Type": "application/json"}
            )
            assert answer.status_code == 403, (method, path)
            assert "access-control-allow-origin" not in answer.headers
    with httpx.Client(base_url=live.url) as client:
        for method, path in (*PUBLIC, ("GET", "/login")):
            assert client.request(method, path, headers={"Origin": origin}, json={}).status_code == 403

    async def work() -> None:
        for offered in (None, live.subprotocols()):
            place = f"ws://{live.host}/ws?session={session['id']}"
            with pytest.raises(InvalidStatus) as refused:
                async with connect(
                    place, origin=origin, subprotocols=offered, additional_headers=live.bearer
                ):  # type: ignore[arg-type]
                    pass
            assert refused.value.response.status_code == 403

    run(work())


def test_the_socket_of_a_browser_shows_its_credential_as_a_subprotocol(live: LiveServer) -> None:
    async def work() -> None:
        wrong = ("harness", "harness.credential.wrong")
        for offered in (None, ("harness",), wrong, (f"harness.{live.subprotocols()[1]}",)):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"ws://{live.host}/ws", subprotocols=offered):  # type: ignore[arg-type]
                    pass
            assert refused.value.response.status_code == 401
        place, offered = f"ws://{live.host}/ws", live.subprotocols()
        async with connect(place, subprotocols=offered, origin=live.url) as socket:  # type: ignore[arg-type]
            assert socket.subprotocol == "harness"
            assert json.loads(await socket.recv())["type"] == "state"

    run(work())


@pytest.mark.parametrize("host", HOSTS)
def test_a_foreign_name_gets_nothing(live: LiveServer, host: str) -> None:
    host = host.format(port=live.port)
    with live.http() as client:
        for method, path in routes(live):
            answer = client.request(method, path, headers={"Host": host})
            assert answer.status_code == 421, (method, path)

    async def work() -> None:
        headers = {**live.bearer, "Host": host}
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws://{live.host}/ws", additional_headers=headers):
                pass
        # The library sends its own name as well: two names are no name.
        assert refused.value.response.status_code in (400, 421)

    run(work())


def test_no_name_and_two_names_are_refused(live: LiveServer) -> None:
    for lines in ("", f"Host: {live.host}\r\nHost: {live.host}\r\n"):
        with socket.create_connection(("127.0.0.1", live.port), TIMEOUT_S) as raw:
            raw.sendall(
                f"GET /api/sessions HTTP/1.1\r\n{lines}Authorization: Bearer {live.access.token}\r\n\r\n".encode()
            )
            assert raw.recv(4096).split()[1] in (b"400", b"421")


def test_forms_and_plain_text_of_other_pages_change_nothing(live: LiveServer) -> None:
    body = json.dumps({"agent": "native"})
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")
    with httpx.Client(base_url=live.url, headers=live.as_browser()) as client:
        for kind in kinds:
            headers = {"Origin": live.url, **({"Content-Type": kind} if kind else {})}
            for path in ("/api/sessions", "/api/login"):
                assert client.post(path, content=body.encode(), headers=headers).status_code == 415, kind
        headers = {"Content-Type": "application/json", "Origin": live.url, "Sec-Fetch-Site": "cross-site"}
        for path in ("/api/sessions", "/api/login"):
            assert client.post(path, content=body, headers=headers).status_code == 403
        assert client.options("/api/sessions", headers={"Origin": live.url}).status_code in (405, 415)
    with live.http() as client:
        assert client.get("/api/sessions").json()["total"] == 0


def test_no_answer_allows_another_origin_and_every_answer_has_the_policy(live: LiveServer) -> None:
    with live.http() as client:
        for path in (
            "/",
            "/login",
            "/api/login",
            "/api/sessions",
            "/openapi.json",
            "/nowhere.js",
            "/api/sessions/nobody",
        ):
            answer = client.get(path, headers={"Origin": live.url})
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert answer.headers["content-security-policy"].startswith("default-src 'self';")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "server" not in answer.headers


def test_what_the_router_refuses_is_reported_as_every_error(live: LiveServer) -> None:
    with live.http() as client:
        for method, path, status in (
            ("GET", "/api/nowhere", 404),
            ("GET", "/api/threads", 404),
            ("GET", "/metrics", 404),
            ("GET", "/health", 404),
            ("GET", "/nowhere/at/all", 404),
            ("GET", "/nowhere.js", 404),
            ("PUT", "/api/sessions", 405),
            ("POST", "/", 405),
            ("POST", "/healthz", 405),
        ):
            answer = client.request(method, path, json=None if method == "GET" else {})
            assert answer.status_code == status, (method, path)
            assert answer.json()["error"]["message"], (method, path)


def test_liveness_is_public_and_nothing_else_is(live: LiveServer) -> None:
    with httpx.Client(base_url=live.url, headers={"Host": "10.0.0.7:4780"}) as client:
        for path in ("/healthz", "/readyz"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert client.get("/").status_code == 421
    live.store.find = _failing  # type: ignore[method-assign]
    assert live.application is not None
    live.application._ready_until_s = 0.0
    assert httpx.get(f"{live.url}/readyz").status_code == 503
    assert httpx.get(f"{live.url}/healthz").status_code == 200


def _failing(query: object) -> list[Metadata]:
    raise StoreError("the disk is gone")


def test_the_token_is_in_a_file_of_ones_own_and_a_file_of_everybody_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "server" / "token"
    old = os.umask(0)
    try:
        token = load_token(str(path))
    finally:
        os.umask(old)
    assert len(token) == 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert load_token(str(path)) == token
    path.chmod(0o644)
    assert load_token(str(path)) != token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "elsewhere").write_text("x" * 43)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert load_token(str(path)) != "x" * 43
    assert (tmp_path / "elsewhere").read_text() == "x" * 43


def test_links_are_forgotten_when_there_are_very_many() -> None:
    access = Access("token")
    first = access.new_link_code()
    for _ in range(100):
        access.new_link_code()
    assert not access.redeem(first)
    assert not access.redeem("")


def test_a_wider_bind_needs_a_flag_that_shows_what_it_means(tmp_path: Path) -> None:
    import argparse

    from harness.cli.commands import serve
    from harness.cli.console import Console

    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    arguments = parser.parse_args(["--host", "0.0.0.0", "--port", "0"])
    with pytest.raises(UsageError, match="other machines"):
        serve.execute(arguments, Console())
    assert "run commands as you" in parser.format_help().replace("\n", " ").replace("  ", "")


def test_a_hostile_id_never_leads_out_of_the_folder(live: LiveServer) -> None:
    opened: list[str] = []
    is_watching = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if is_watching and event == "open" and isinstance(arguments[0], str):
            opened.append(arguments[0])

    sys.addaudithook(hook)
    pieces = (
        "..",
        ".",
        "%2e%2e",
        "a",
        "\0",
        "~",
        "etc",
        "passwd",
        "*",
        "é",
        "x" * 4096,
        "con",
        "-rf",
        "%00",
        "\\",
    )
    ids = [f"{one}/{two}" for one in pieces for two in pieces] + [
        f"{one}{two}" for one in pieces for two in pieces
    ]
    ids += [
        "/etc/passwd",
        "//etc/passwd",
        "file:///etc/passwd",
        *(f"{'../' * n}etc/passwd" for n in range(1, 60)),
    ]
    assert len(ids) > 500
    with live.http() as client:
        for number, name in enumerate(ids):
            quoted = "".join(f"%{byte:02x}" for byte in name.encode())
            suffix = ("", "/state", "/events?follow=false")[number % 3]
            answer = client.get(f"/api/sessions/{quoted}{suffix}")
            assert answer.status_code in (400, 404), (name, answer.status_code)
    is_watching = False
    named = [path for path in opened if "passwd" in path or "etc" in path.split("/")]
    assert [path for path in named if not path.startswith(f"{live.folder}/sessions/")] == []
    assert [path for path in named if ".." in path] == []


def test_a_frame_of_a_gigabyte_is_refused_by_its_announcement(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script("x"))
        async with live.connect(session["id"]) as socket:
            await socket.recv()
            transport = socket.transport
            transport.write(b"\x81\xff" + (1 << 30).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * 1000)
            with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
                while True:
                    await asyncio.wait_for(socket.recv(), TIMEOUT_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009

    run(work())


def test_endless_nesting_and_a_flood_of_commands_are_cut_off_without_effect_on_others(
    live: LiveServer,
) -> None:
    async def work() -> None:
        session = live.create(model=live.script("x"))
        async with live.connect(session["id"]) as other:
            client = Watcher(other)
            await client.receive()
            deep = '{"type":"commands","commands":[{"type":"answer","relayId":"x","answer":' + "[" * 100_000
            flood = json.dumps({"type": "commands", "commands": [{"type": "cancel"}]})
            for messages in ([deep], [flood] * 10_000):
                async with live.connect(session["id"]) as socket:
                    with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
                        for message in messages:
                            await socket.send(message)
                        while True:
                            await asyncio.wait_for(socket.recv(), TIMEOUT_S)
                    assert closed.value.rcvd is not None
                    assert closed.value.rcvd.code == 1008
            await client.command("submit", prompt="still there?")
            await client.until(lambda state: state["messages"])

    run(work())


def test_bodies_that_are_too_large_or_nested_too_deeply_are_refused(live: LiveServer) -> None:
    with live.http() as client:
        big = b'{"title":"' + b"x" * (5 * 1024 * 1024) + b'"}'
        headers = {"Content-Type": "application/json"}
        assert client.post("/api/sessions", content=big, headers=headers).status_code == 413

        def pieces():
            for _ in range(6):
                yield b" " * (1024 * 1024)

        assert client.post("/api/sessions", content=pieces(), headers=headers).status_code == 413
        deep = b'{"commands":[{"type":"answer","relayId":"x","answer":' + b"[" * 100_000
        for path in ("/api/sessions", "/chat", "/api/sessions/x/commands"):
            assert client.post(path, content=deep, headers=headers).status_code in (400, 404)
        assert live.guard is not None
        live.guard._changes._per_s = 0.0  # however long the requests take
        codes = {client.post("/api/links", content=b"{}", headers=headers).status_code for _ in range(150)}
        assert codes == {201, 429}


def test_names_of_javascript_are_refused_in_paths_of_operations() -> None:
    from harness.folds.page_state.object_stream import BadOperation, apply

    for name in ("__proto__", "constructor", "prototype"):
        with pytest.raises(BadOperation):
            apply({}, [{"type": "set", "path": [name, "x"], "value": 1}])
