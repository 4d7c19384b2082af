"""A log-in in place of a key: passed on as it is, to the vendor that gave it, and written nowhere."""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway_place import Place
from harness.agents.claude import gateway as claude
from harness.contracts.request import GatewayOptions, Request
from harness.errors import UsageError
from harness.events import Warning
from harness.gateway.call import GatewayCall
from harness.gateway.gateway import ModelGateway
from harness.gateway.pass_on import PassOn, Upstream
from harness.runs.replay_request import recorded_run, replay_request
from harness.runs.run import start

LOGIN = "of no known shape 0123456789"


@pytest.fixture
def request_with_login(place: Place, monkeypatch: pytest.MonkeyPatch) -> Request:
    assert claude.POINTING.login is not None
    vendor = replace(claude.POINTING.login, host=place.lab.url)
    monkeypatch.setattr(claude, "POINTING", replace(claude.POINTING, login=vendor))
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", LOGIN)
    options = GatewayOptions(passes_login=True)
    return Request(agent="claude", prompt="Go.", cwd=str(place.cwd), gateway=options)


def test_it_reaches_its_vendor_unchanged_and_nothing_that_is_written(
    place: Place, request_with_login: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.script([{"call": "run", "command": "echo $CLAUDE_CODE_OAUTH_TOKEN"}, {"text": "Done."}])
    heads: list[dict[str, str]] = []
    note = place.lab.log.note

    def noted(call: GatewayCall, *words: Any, **about: Any) -> None:
        heads.append(call.headers)
        note(call, *words, **about)

    monkeypatch.setattr(place.lab.log, "note", noted)
    run, events = place.run(request=request_with_login)
    assert run.wait().outcome == "completed"
    assert {head.get("authorization") for head in heads} == {f"Bearer {LOGIN}"}
    assert not any("x-api-key" in head for head in heads)
    assert any("terms of your subscription" in one.message for one in events if isinstance(one, Warning))
    for folder, _, names in os.walk(place.folder / "sessions"):
        for name in names:
            assert LOGIN.encode() not in Path(folder, name).read_bytes()


def test_it_is_used_for_nothing_else(place: Place, request_with_login: Request) -> None:
    for other, words in (
        (replace(request_with_login, agent="pi", model="openai-chat/x"), "of Pi cannot be passed on"),
        (replace(request_with_login, model="openai/gpt-5.5"), "passed on to the vendor that gave it"),
    ):
        with pytest.raises(UsageError, match=words):
            start(other, store=place.store)
    run, _ = place.run(request=request_with_login)
    options = GatewayOptions(fork_at=1, passes_login=True)
    with pytest.raises(UsageError, match="passed on to the vendor"):
        start(replay_request(recorded_run(place.store, run.id), options=options), store=place.store)


def test_a_recording_with_a_login_is_played_without_it(
    place: Place, request_with_login: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = place.run(request=request_with_login)
    monkeypatch.delenv("CLAUDE_CODE_OAUTH_TOKEN")
    played, _ = place.replay(run)
    assert played.wait().outcome == "completed"


def test_the_log_in_of_somebody_else_does_not_open_the_gateway() -> None:
    passed = PassOn(Upstream(url="http://127.0.0.1:1", passes_login=True))
    with ModelGateway(passed, token="the-token", is_token_in_path=True) as gateway:
        for path, status in (
            ("/v1/messages", 401),
            ("/the-tokem/v1/messages", 401),
            ("/the-token/v1/messages", 502),  # it is asked, and nobody is there
            ("/the-token/v1/files", 404),
            ("/the-token/../v1/messages", 400),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
            headers = {"authorization": "Bearer the-token", "content-type": "application/json"}
            connection.request("POST", path, body=b"{}", headers=headers)
            assert (path, connection.getresponse().status) == (path, status)
            connection.close()
    passed.close()
