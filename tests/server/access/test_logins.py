"""How browsers are logged in, for how long, and how they are logged out."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import stat
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from harness.errors import UsageError
from harness.server.access.browser_keys import BrowserKeys
from harness.server.access.credentials import Access, open_access, proof_message, write_token
from live_server import TIMEOUT_S, LiveServer, events_of, recorded, run

HOUR_S = 3600


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


HERE = "http://127.0.0.1:4891"


def prove(secret: str, nonce: str, origin: str = HERE) -> str:
    return hmac.new(bytes.fromhex(secret), f"{origin}\n{nonce}".encode(), sha256).hexdigest()


def test_a_link_works_once_and_nothing_that_follows_from_it_is_a_cookie(live: LiveServer) -> None:
    code = live.access.new_link_code()
    with httpx.Client(base_url=live.url) as client:
        assert client.get("/login", params={"token": code}).status_code == 200
        foreign = client.post("/api/login", json={"code": code}, headers={"Host": "evil.example"})
        assert foreign.status_code == 421
        entered = client.post("/api/login", json={"code": code})
        assert entered.status_code == 200
        assert client.post("/api/login", json={"code": code}).status_code == 401
        assert not client.cookies
        shown_text = entered.json()
        assert live.access.token not in entered.text
        assert client.get("/api/sessions").status_code == 401
        bearer = {"Authorization": f"Bearer {shown_text['credential']}"}
        assert client.get("/api/sessions", headers=bearer).status_code == 200
        assert client.post("/api/sessions", json={}, headers=bearer).status_code == 201
    assert not any(code in line or shown_text["credential"] in line for line in live.reports)


def test_what_another_server_on_the_host_is_sent_by_the_same_browser_opens_nothing(
    live: LiveServer,
) -> None:
    """A browser sends every cookie that it got from one port to all the others."""
    received: list[dict[str, str]] = []

    class Foreign(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(dict(self.headers.items()))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    foreign = HTTPServer(("127.0.0.1", 0), Foreign)
    Thread(target=foreign.serve_forever, daemon=True).start()
    try:
        with httpx.Client() as browser:  # its jar knows no ports, as that of a browser
            entered = browser.post(f"{live.url}/api/login", json={"code": live.access.new_link_code()})
            credential = entered.json()["credential"]
            bearer = {"Authorization": f"Bearer {credential}"}
            for path in ("/", "/login", "/api/sessions", "/openapi.json"):
                assert "set-cookie" not in browser.get(f"{live.url}{path}", headers=bearer).headers
            browser.get(f"http://127.0.0.1:{foreign.server_port}/")
    finally:
        foreign.shutdown()
        foreign.server_close()
    assert len(received) == 1
    assert "cookie" not in {name.lower() for name in received[0]}
    for name, value in received[0].items():
        for headers in ({name: value}, {"Cookie": value}, {"Authorization": f"Bearer {value}"}):
            if name.lower() != "host":
                assert httpx.get(f"{live.url}/api/server", headers=headers).status_code == 401


def test_a_browser_comes_in_again_after_a_restart_by_proving_its_key(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    with live.serving_now():
        shown_text = httpx.post(f"{live.url}/api/login", json={"code": live.access.new_link_code()}).json()
        before = httpx.get(f"{live.url}/api/login").json()["nonce"]
    restarted = LiveServer(tmp_path)
    restarted.port = live.port
    with restarted.serving_now(), httpx.Client(base_url=live.url) as client:
        old = {"Authorization": f"Bearer {shown_text['credential']}"}
        assert client.get("/api/server", headers=old).status_code == 401
        key = shown_text["key"]
        nonce = client.get("/api/login").json()["nonce"]
        for wrong in (
            {"keyId": key["id"], "nonce": before, "proof": prove(key["secret"], before, live.url)},
            {"keyId": key["id"], "nonce": nonce, "proof": prove("00" * 32, nonce, live.url)},
            {"keyId": "nobody", "nonce": nonce, "proof": prove(key["secret"], nonce, live.url)},
            {"keyId": key["id"], "nonce": f"9{nonce}", "proof": prove(key["secret"], f"9{nonce}", live.url)},
            {"keyId": key["id"], "nonce": "", "proof": ""},
            {"keyId": key["id"], "nonce": nonce, "proof": "ä"},
        ):
            assert client.post("/api/login", json=wrong).status_code == 401, wrong
        assert client.post("/api/login", json={}).status_code == 400
        proven = {"keyId": key["id"], "nonce": nonce, "proof": prove(key["secret"], nonce, live.url)}
        again = client.post("/api/login", json=proven)
        bearer = {"Authorization": f"Bearer {again.json()['credential']}"}
        assert client.get("/api/server", headers=bearer).status_code == 200
        assert client.delete("/api/login", headers=bearer).status_code == 204
        assert client.get("/api/server", headers=bearer).status_code == 401
        nonce = client.get("/api/login").json()["nonce"]
        proven = {"keyId": key["id"], "nonce": nonce, "proof": prove(key["secret"], nonce, live.url)}
        assert client.post("/api/login", json=proven).status_code == 401


def test_a_proof_for_one_address_is_worth_nothing_at_another(tmp_path: Path) -> None:
    """A program that has taken the old port passes on the nonce of the server that now listens elsewhere."""
    live = LiveServer(tmp_path)
    with live.serving_now():
        entered = httpx.post(f"{live.url}/api/login", json={"code": live.access.new_link_code()}).json()
    moved = LiveServer(tmp_path)
    with moved.serving_now(), httpx.Client(base_url=moved.url) as client:
        assert moved.port != live.port
        key = entered["key"]

        def answer(origin: str) -> int:
            nonce = client.get("/api/login").json()["nonce"]
            proof = prove(key["secret"], nonce, origin)
            return client.post(
                "/api/login", json={"keyId": key["id"], "nonce": nonce, "proof": proof}
            ).status_code

        for elsewhere in (live.url, "", "null", moved.url + "/", f"https://127.0.0.1:{moved.port}"):
            assert answer(elsewhere) == 401, elsewhere
        nonce = client.get("/api/login").json()["nonce"]
        bare = hmac.new(bytes.fromhex(key["secret"]), nonce.encode(), sha256).hexdigest()
        proven = {"keyId": key["id"], "nonce": nonce, "proof": bare}
        assert client.post("/api/login", json=proven).status_code == 401
        for own in (moved.url, f"http://localhost:{moved.port}"):
            assert answer(own) == 200, own


def test_links_credentials_and_keys_end() -> None:
    clock = Clock()
    access = Access("token", clock=clock)
    code = access.new_link_code()
    clock.now_s += HOUR_S
    assert not access.redeem(code)
    used, _name, _secret = access.log_in()
    unused, *_ = access.log_in()
    for _ in range(40):
        clock.now_s += 4 * HOUR_S
        assert (access.grant(used) is not None) == (clock.now_s < 1_000_000 + HOUR_S + 7 * 24 * HOUR_S)
    assert access.grant(unused) is None
    nonce = access.nonce()
    _credential, name, secret = access.log_in()
    clock.now_s += 61
    assert not access.log_in_again(name, nonce, prove(secret, nonce), [HERE])
    nonce = access.nonce()
    assert access.log_in_again(name, nonce, prove(secret, nonce), [HERE])


def test_a_credential_that_is_not_used_for_a_day_expires() -> None:
    clock = Clock()
    access = Access("token", clock=clock)
    credential, *_ = access.log_in()
    clock.now_s += 23 * HOUR_S
    assert access.grant(credential) is not None
    clock.now_s += 23 * HOUR_S
    assert access.grant(credential) is not None
    clock.now_s += 25 * HOUR_S
    assert access.grant(credential) is None


def test_logging_out_ends_open_sockets_and_streams_of_browsers_and_not_those_of_programs(
    live: LiveServer,
) -> None:
    hub, log_id = recorded(live)

    async def work() -> None:
        offered = live.subprotocols()
        place = f"ws://{live.host}/ws?session={log_id}"
        async with (
            connect(place, subprotocols=offered, origin=live.url) as browser,  # type: ignore[arg-type]
            live.connect(log_id) as program,
        ):
            await browser.recv()
            await program.recv()
            # As `harness serve --logout` does it, which knows nothing but the file.
            BrowserKeys(str(live.folder / "server" / "browsers.json")).log_out()
            with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
                while True:
                    await asyncio.wait_for(browser.recv(), TIMEOUT_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401
            await program.send(json.dumps({"type": "commands", "commands": [{"type": "nonsense"}]}))
            assert json.loads(await program.recv())["type"] == "error"

    run(work())
    hub.close()


def test_a_stream_of_a_browser_that_is_logged_out_ends(live: LiveServer) -> None:
    from harness.events import TextDelta

    hub, log_id = recorded(live)
    path = f"{live.url}/api/sessions/{log_id}/events"
    with httpx.stream("GET", path, headers=live.as_browser(), timeout=TIMEOUT_S) as answer:
        lines = answer.iter_lines()
        events = events_of(lines)
        next(events)
        live.access.log_out_all()
        with pytest.raises(httpx.RemoteProtocolError):
            list(events)
        hub.source(log_id).append([TextDelta(text="a secret of later")])
    hub.close()


def test_a_token_that_was_replaced_is_refused_at_once_and_the_new_one_is_not(live: LiveServer) -> None:
    old = live.bearer
    with httpx.Client(base_url=live.url) as client:
        assert client.get("/api/server", headers=old).status_code == 200
        path = live.folder / "server" / "token"
        new = {"Authorization": f"Bearer {write_token(str(path))}"}
        assert client.get("/api/server", headers=old).status_code == 401
        assert client.get("/api/server", headers=new).status_code == 200
        path.unlink()
        assert client.get("/api/server", headers=new).status_code == 401
        assert client.get("/api/server", headers={"Authorization": "Bearer"}).status_code == 401


def test_keys_are_in_a_private_file_and_a_damaged_one_logs_all_out(tmp_path: Path) -> None:
    path = tmp_path / "server" / "browsers.json"
    old = os.umask(0)
    try:
        name, secret = BrowserKeys(str(path)).add()
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert BrowserKeys(str(path)).is_proof(name, [proof_message(HERE, "x")], prove(secret, "x"))
    access = Access("token", keys=(keys := BrowserKeys(str(path))))
    credential, *_ = access.log_in()
    assert access.grant(credential)
    path.unlink()
    assert access.grant(credential) is None
    assert not keys.is_proof(name, [proof_message(HERE, "x")], prove(secret, "x"))
    path.write_bytes(b"\xff{nonsense")
    assert name not in BrowserKeys(str(path))


def test_a_token_may_be_chosen_by_the_environment_or_a_file_and_a_weak_one_is_refused(tmp_path: Path) -> None:
    own, keys = str(tmp_path / "own"), str(tmp_path / "keys")
    chosen = "a" * 30
    assert open_access(own, keys, token=chosen).grant(chosen) is not None
    with pytest.raises(UsageError, match="too short"):
        open_access(own, keys, token="secret")
    named = tmp_path / "secret"
    named.write_text(f"{chosen}\n")
    (tmp_path / "link").symlink_to(named)
    access = open_access(own, keys, named_file=str(tmp_path / "link"))
    assert access.token == chosen
    named.write_text("b" * 30)
    assert access.grant("b" * 30) is not None
    assert access.grant(chosen) is None
    named.write_text("short")
    with pytest.raises(UsageError, match="too short"):
        open_access(own, keys, named_file=str(named))
    assert named.read_text() == "short"
    made = open_access(own, keys, named_file=str(tmp_path / "made"))
    assert (tmp_path / "made").read_text().strip() == made.token


_FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
_SAFARI = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18 Mobile Safari/604"
)


def test_browsers_that_are_logged_in_are_listed_and_one_of_them_is_logged_out(live: LiveServer) -> None:
    def let_in(user_agent: str) -> dict[str, str]:
        answer = httpx.post(
            f"{live.url}/api/login",
            json={"code": live.access.new_link_code()},
            headers={"User-Agent": user_agent},
        )
        return {"Authorization": f"Bearer {answer.json()['credential']}"}

    mine, phone, unknown = let_in(_FIREFOX), let_in(_SAFARI), let_in("<script>curl</script>")
    with httpx.Client(base_url=live.url, headers=mine) as client:
        logins = client.get("/api/logins").json()["logins"]
        by_name = {one["browser"]: one for one in logins}
        assert set(by_name) == {"Firefox on Linux", "Safari on iPhone", ""}
        assert [name for name, one in by_name.items() if one["isCurrent"]] == ["Firefox on Linux"]
        assert all(one["usedMs"] > 0 for one in logins)
        assert client.delete(f"/api/logins/{by_name['Safari on iPhone']['id']}").status_code == 204
        assert client.delete("/api/logins/nobody").status_code == 404
        assert httpx.get(f"{live.url}/api/server", headers=phone).status_code == 401
        assert httpx.get(f"{live.url}/api/server", headers=unknown).status_code == 200
        assert len(client.get("/api/logins").json()["logins"]) == 2
    assert httpx.get(f"{live.url}/api/logins").status_code == 401
