"""Whatever is sent to AG-UI's and OpenAI's endpoints: refused in their own words or answered, never an internal error."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from live_server import TIMEOUT_S, LiveServer
from test_openai_api import scripted

ROUNDS = 150
ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**80, "", "x", "\x00", "../../etc/passwd", "é" * 3_000),
    *([], [[]], [None], {}, {"": {}}, [{"role": "user"}], [{"role": "user", "content": [{"type": "image"}]}]),
    *([{"role": "system", "content": "x"}], [{"type": "mcp_approval_response", "approve": True}]),
]
RAW = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'"\\ud800"',
    b"[" * 100_000,
    b'{"model": "\\udfff"}',
    b"1e999",
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path)
    server.endpoints = ["openai", "agui"]
    with server.serving_now() as serving:
        yield serving


def bodies(chance: random.Random, model: str) -> Iterator[tuple[str, bytes]]:
    message = {"role": "user", "content": "hi", "id": "m"}
    whole: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"model": model, "messages": [message], "stream": False, "tools": []},
        "/v1/responses": {"model": model, "input": "hi", "previous_response_id": None, "instructions": "x"},
        "/agui": {"threadId": "t", "runId": "r", "messages": [message], "tools": [], "context": []},
        f"/agui/{model}": {"threadId": "u", "runId": "r", "messages": [message], "resume": []},
    }
    for _ in range(ROUNDS):
        path = chance.choice(list(whole))
        body: Any = json.loads(json.dumps(whole[path]))
        for name in list(body):
            if chance.random() < 0.4:
                body[name] = chance.choice(ODD)
            elif chance.random() < 0.1:
                del body[name]
        yield path, chance.choice(RAW) if chance.random() < 0.15 else json.dumps(body).encode()


@pytest.mark.parametrize("seed", range(2))
def test_nothing_that_is_sent_is_an_internal_error(served: LiveServer, seed: int) -> None:
    model = scripted(served, *["Yes."] * 3)
    with httpx.Client(base_url=served.url, headers=served.bearer, timeout=TIMEOUT_S) as http:
        statuses = set()
        for path, body in bodies(random.Random(seed), model):
            answer = http.post(path, content=body, headers={"content-type": "application/json"})
            statuses.add(answer.status_code)
            assert answer.status_code in (200, 400, 404, 409, 422), (path, body[:500], answer.text[:500])
            if answer.status_code != 200:
                assert answer.json()["error"]["message"]
        assert statuses >= {200, 400}
        done = {"model": model, "messages": [{"role": "user", "content": "still there?"}]}
        assert http.post("/v1/chat/completions", json=done).status_code == 200
