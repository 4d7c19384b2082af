"""ACP, AG-UI and OpenAI's API on the server: pages of other origins, other names, and tokens where they do not belong get nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from live_server import LiveServer, run
from test_openai_api import scripted
from test_security import HOSTS, ORIGINS

ROUTES = [
    ("POST", "/acp"),
    ("GET", "/acp"),
    ("DELETE", "/acp"),
    ("POST", "/agui"),
    ("POST", "/agui/native"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/native"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
]
EVENTS = {"Accept": "text/event-stream, application/json"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path)
    server.endpoints = ["acp", "agui", "openai"]
    with server.serving_now() as serving:
        yield serving


def body(served: LiveServer) -> bytes:
    """What would begin a run at each of them."""
    model = scripted(served, "secret")
    said = [{"id": "u", "role": "user", "content": "go"}]
    fields = {"model": model, "messages": said, "input": "go", "threadId": "t1", "runId": "r1"}
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    return json.dumps(fields | greeting).encode()


def refusals(served: LiveServer, headers: dict[str, str], *, path: str = "{}") -> set[int]:
    content = body(served)
    found = set()
    with httpx.Client(base_url=served.url) as client:
        for method, route in ROUTES:
            sent = content if method == "POST" else None
            kind = {"Content-Type": "application/json"} if sent else {}
            answer = client.request(method, path.format(route), content=sent, headers=EVENTS | kind | headers)
            assert "secret" not in answer.text
            assert "access-control-allow-origin" not in answer.headers
            found.add(answer.status_code)
        assert client.get("/api/sessions", headers=served.bearer).json()["total"] == 0
    return found


def socket_refusal(served: LiveServer, headers: dict[str, str], *, query: str = "") -> int:
    found: list[int] = []

    async def work() -> None:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws://{served.host}/acp{query}", additional_headers=headers):
                pass
        found.append(refused.value.response.status_code)

    run(work())
    return found[0]


def test_a_token_belongs_in_its_header_and_nowhere_else(served: LiveServer) -> None:
    token = served.access.token
    assert refusals(served, {}) == {401}
    for name in ("token", "access_token", "api_key", "key", "authorization", "harness.credential"):
        assert refusals(served, {}, path="{}?" + f"{name}={token}") == {401}
        assert socket_refusal(served, {}, query=f"?{name}={token}") == 401
    others = (
        {"X-Api-Key": token},
        {"Api-Key": token},
        {"Cookie": f"token={token}"},
        {"Authorization": token},
    )
    for headers in others:
        assert refusals(served, headers) == {401}
        assert socket_refusal(served, headers) == 401


@pytest.mark.parametrize("origin", ORIGINS.values(), ids=ORIGINS)
def test_a_page_of_another_origin_gets_nothing_even_with_the_token(served: LiveServer, origin: str) -> None:
    headers = served.bearer | {"Origin": origin.format(port=served.port)}
    assert refusals(served, headers) == {403}
    assert socket_refusal(served, headers) == 403


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_that_was_bound_to_this_machine_gets_nothing(served: LiveServer, host: str) -> None:
    headers = served.bearer | {"Host": host.format(port=served.port)}
    assert refusals(served, headers) == {421}
    assert socket_refusal(served, headers) in (400, 421)  # the library sends its own name, too


def test_a_page_cannot_ask_whether_it_may_and_a_form_is_no_request(served: LiveServer) -> None:
    content = body(served)
    with httpx.Client(base_url=served.url, headers=served.bearer) as client:
        for route in {route for method, route in ROUTES if method == "POST"}:
            asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
            answer = client.options(route, headers=asked)
            assert answer.status_code == 403
            assert not [name for name in answer.headers if name.startswith("access-control")]
            for kind in (
                "text/plain",
                "application/x-www-form-urlencoded",
                "multipart/form-data; boundary=x",
            ):
                assert client.post(route, content=content, headers={"Content-Type": kind}).status_code == 415
            cross = {"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}
            assert client.post(route, content=content, headers=cross).status_code == 403
        assert client.get("/api/sessions").json()["total"] == 0


def test_a_socket_that_is_not_read_holds_nobody_up(served: LiveServer) -> None:
    """It asks a thousand times for the list and reads nothing: another one is answered meanwhile."""

    async def work() -> None:
        ask = {"jsonrpc": "2.0", "method": "session/list", "params": {}}
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
        place, headers = f"ws://{served.host}/acp", served.bearer
        async with connect(place, additional_headers=headers, max_queue=1) as stalled:
            for number in range(1000):
                await stalled.send(json.dumps(hello if not number else ask | {"id": number}))
            async with connect(place, additional_headers=headers) as other:
                await other.send(json.dumps(hello))
                assert json.loads(await asyncio.wait_for(other.recv(), 30))["id"] == 0
                await other.send(json.dumps(ask | {"id": 1}))
                assert "result" in json.loads(await asyncio.wait_for(other.recv(), 30))

    run(work())
