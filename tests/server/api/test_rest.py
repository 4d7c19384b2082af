"""Requests besides the socket: sessions, moments, the machine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from harness.clients.client import PlainClient
from harness.clients.commands import Approve, Submit
from harness.events import Event, Result, ToolEnd, ToolStart, Usage, UsageDelta
from harness.folds.page_state.shapes import CAPABILITIES
from harness.log.store import Query
from harness.server.api.sessions import SessionsApi
from harness.stage import ViewOptions
from harness.views import state as state_view
from live_server import TIMEOUT_S, LiveServer, is_done, recorded, run, waits

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "/bin/echo from the shell"}}
MOST_OF_FIRST_LOAD = 150_000


def finished(live: LiveServer, *texts: Any, **wanted: Any) -> str:
    session = live.create(model=live.script(*texts or ("Hello there.",)), prompt="say hello", **wanted)
    with PlainClient(live.url, token=live.access.token, session=session["id"]) as client:
        client.until(is_done, TIMEOUT_S)
    identity: str = session["id"]
    return identity


def test_sessions_are_listed_found_renamed_and_deleted(live: LiveServer) -> None:
    own = finished(live, title="Mine")
    hub, other = recorded(live)
    with live.http() as http:
        listed = http.get("/api/sessions").json()
        assert [one["id"] for one in listed["sessions"]] == [other, own]
        assert [one["isLive"] for one in listed["sessions"]] == [True, False]
        assert listed["total"] == 2
        assert [one["id"] for one in http.get("/api/sessions?query=needle").json()["sessions"]] == [other]
        assert http.get("/api/sessions?limit=1&offset=1").json()["sessions"][0]["id"] == own
        one = http.get(f"/api/sessions/{own}").json()
        assert (one["title"], one["prompt"], one["outcome"], one["agentName"]) == (
            "Mine",
            "say hello",
            "completed",
            "native",
        )
        renamed = http.patch(f"/api/sessions/{own}", json={"title": "Ours", "tags": ["x"]}).json()
        assert (renamed["title"], renamed["tags"]) == ("Ours", ["x"])
        assert http.get(f"/api/sessions/{own}/state").json()["state"]["title"] == "Ours"
        assert http.delete(f"/api/sessions/{other}").status_code == 409
        hub.close()
        assert http.delete(f"/api/sessions/{other}").status_code == 204
        assert http.delete(f"/api/sessions/{own}").status_code == 204
        assert http.get("/api/sessions").json()["total"] == 0
        assert http.get(f"/api/sessions/{own}").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/sessions", {"agent": "nobody"}, 400),
        ("POST", "/api/sessions", {"cwd": "/no/such/place"}, 400),
        ("POST", "/api/sessions", {"permissionMode": "root"}, 400),
        ("POST", "/api/sessions", {"colour": "red"}, 400),
        ("POST", "/api/sessions", {"agent": 7}, 400),
        ("POST", "/api/sessions", [], 400),
        ("PATCH", "/api/sessions/nobody", {}, 404),
        ("POST", "/api/sessions/nobody/commands", {"commands": []}, 404),
        ("GET", "/api/sessions?limit=-1", None, 400),
        ("GET", "/api/sessions?limit=many", None, 400),
        ("GET", "/api/sessions/nobody/state", None, 404),
        ("GET", "/api/sessions/nobody/events", None, 404),
        ("GET", "/api/sessions/nobody/calls/x", None, 404),
        ("GET", "/api/usage?by=colour", None, 400),
        ("GET", "/api/usage?since=soon", None, 400),
        ("GET", "/api/models?agent=nobody", None, 400),
        ("PUT", "/api/sessions", {}, 405),
        ("POST", "/chat", {"model": "x"}, 400),
        ("POST", "/chat", {"model": "nothing", "messages": [{"role": "user", "content": "x"}]}, 400),
        ("POST", "/chat", {"model": "x/y", "messages": [{"role": "assistant", "content": "x"}]}, 400),
        ("POST", "/chat/relay/x", {"sessionId": "nobody", "response": {"approved": True}}, 404),
        ("POST", "/chat/relay/x", {"sessionId": "nobody"}, 400),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    live: LiveServer, method: str, path: str, body: Any, status: int
) -> None:
    with live.http() as http:
        answer = http.request(method, path, **({} if body is None else {"json": body}))
        assert answer.status_code == status, answer.text
        if status != 405:
            assert answer.json()["error"]["message"]


def test_the_state_of_every_moment_and_the_moments_of_a_session(live: LiveServer) -> None:
    hub, log_id = recorded(live, 50)
    hub.source(log_id).append([Result(success=True)])
    hub.close()
    view = state_view.open(ViewOptions())
    known: dict[int, Any] = {}
    with live.http() as http:
        line = http.get(f"/api/sessions/{log_id}/timeline").json()
        assert line["seqs"] == list(range(1, 54))
        assert len(line["times"]) == 53
        for seq, event in enumerate(event for batch in hub.batches() for event in batch):
            at = http.get(f"/api/sessions/{log_id}/state", params={"at": seq}).json()
            assert at["seq"] == seq
            assert at["state"]["messages"] == view.value["messages"]
            known[seq] = at["state"]
            view.feed(event)
        for seq in (7, 50, 3, 3, 20):
            assert http.get(f"/api/sessions/{log_id}/state", params={"at": seq}).json()["state"] == known[seq]


def test_a_log_that_another_process_writes_is_followed_live(live: LiveServer, tmp_path: Path) -> None:
    script = tmp_path / "writer.py"
    script.write_text(
        """
import sys, time
from harness.events import *
from harness.log.hub import Hub
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
store = FileStore(sys.argv[1])
hub = Hub(store, "elsewhere", store.create(Metadata(session_id="elsewhere", agent="other")))
source = hub.source("elsewhere")
source.append([SessionStart(agent="other"), Message(role="user", text="q"), TextDelta(text="first")])
print("ready", flush=True)
sys.stdin.readline()
source.append([TextDelta(text=" second")])
sys.stdin.readline()
"""
    )
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "sessions")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        with PlainClient(live.url, token=live.access.token, session="elsewhere") as client:
            state = client.until(lambda state: state["isLive"], TIMEOUT_S)
            assert state["messages"][-1]["content"] == "first"
            assert state["capabilities"] == dict.fromkeys(CAPABILITIES, False)
            client.send(Submit(prompt="may I?"))
            writer.stdin.write("\n")
            writer.stdin.flush()
            client.until(lambda state: state["messages"][-1]["content"] == "first second", TIMEOUT_S)
            writer.kill()  # its end is never written
            state = client.until(is_done, TIMEOUT_S)
            assert (state["status"], state["runs"][0]["status"]) == ("idle", "interrupted")
            assert "only be watched" in client.errors[0]


def test_a_finished_run_can_be_continued_in_a_conversation_that_begins_with_it(live: LiveServer) -> None:
    hub, log_id = recorded(live)
    with live.http() as http:
        wanted = {"continues": log_id, "agent": "native", "prompt": "go on", "model": live.script("Gladly.")}
        assert http.post("/api/sessions", json=wanted).status_code == 409
        hub.source(log_id).append([Result(success=True)])
        hub.close()
        session = http.post("/api/sessions", json=wanted).json()
        assert http.post("/api/sessions", json={**wanted, "continues": "nobody"}).status_code == 404
    with PlainClient(live.url, token=live.access.token, session=session["id"]) as client:
        state = client.until(lambda state: len(state["runs"]) == 2 and is_done(state), TIMEOUT_S)
    assert [one["content"] for one in state["messages"]] == [
        "needle in the hay",
        "word0 word1 word2 ",
        "go on",
        "Gladly.",
    ]
    assert state["sessionId"] == session["id"]
    assert live.store.metadata(log_id).kind == "run"


PICTURE = {"type": "file", "media_type": "image/png", "name": "dot.png", "data": "iVBOR"}


def test_a_call_is_given_in_full(live: LiveServer) -> None:
    hub, log_id = recorded(live)
    output = "x" * 300_000
    hub.source(log_id).append(
        [
            ToolStart(call_id="run/c 1", tool_name="Bash", input={"command": "ls"}),
            ToolEnd(call_id="run/c 1", tool_name="Bash", success=True, output=output, parts=[PICTURE]),
        ]
    )
    with live.http() as http:
        call = http.get(f"/api/sessions/{log_id}/state").json()["state"]["messages"][-1]["toolCalls"][0]
        assert (len(call["output"]), call["outputLength"]) == (100_000, 300_000)
        whole = http.get(f"/api/sessions/{log_id}/calls/run%2Fc%201").json()
        shown = {"type": "file", "mediaType": "image/png", "name": "dot.png"}
        assert call["files"] == [shown]  # their content is fetched when it is shown
        assert whole == {"input": {"command": "ls"}, "output": output, "files": [shown | {"data": "iVBOR"}]}
    hub.close()


def test_runs_usage_agents_models_and_the_server_are_reported(live: LiveServer) -> None:
    log_id = finished(
        live, [{"type": "text", "content": "Hi."}, {"type": "usage", "inputTokens": 9, "outputTokens": 3}]
    )
    with live.http() as http:
        assert [one["status"] for one in http.get(f"/api/sessions/{log_id}/runs").json()["runs"]] == [
            "completed"
        ]
        assert http.get(f"/api/sessions/{log_id}/usage").json()["total"]["input"] == 9
        assert http.get("/api/usage?by=agent&since=7d").json()["total"]["output"] == 3
        agents = {one["name"]: one for one in http.get("/api/agents").json()["agents"]}
        assert (agents["native"]["installed"], agents["native"]["builtIn"]) == (True, True)
        assert "claude" in agents
        assert http.get("/api/models?agent=native").json()["models"]
        models = [one["id"] for one in http.get("/api/models?agent=claude").json()["models"] if one["usable"]]
        assert all(any(family in model for model in models) for family in ("opus", "sonnet", "haiku"))
        assert http.get("/api/server").json()["defaultAgent"] == "native"
        assert http.get("/").status_code == 200
        assert http.get("/assets/../app.py").status_code == 404
        link = http.post("/api/links", json={}).json()["link"]
    assert httpx.get(link).status_code == 200


def test_the_files_of_the_page_are_compressed_for_clients_that_take_it(live: LiveServer) -> None:
    with live.http() as http:
        page = http.get("/", headers={"accept-encoding": "identity"})
        script = re.search(r"assets/[\w-]+\.js", page.text)
        assert script is not None
        plain = http.get(f"/{script[0]}", headers={"accept-encoding": "br, gzip;q=0"})
        small = http.get(f"/{script[0]}", headers={"accept-encoding": "gzip, br"})
        assert "content-encoding" not in plain.headers
        assert (small.headers["content-encoding"], small.headers["vary"]) == ("gzip", "accept-encoding")
        assert small.content == plain.content
        assert int(small.headers["content-length"]) < len(plain.content) / 2


def test_the_first_load_of_the_page_is_small(live: LiveServer) -> None:
    """What a browser fetches before anything is shown; the rest comes when it is needed."""
    with live.http() as http:
        page = http.get("/", headers={"accept-encoding": "gzip"})
        files = re.findall(r'(?:src|href)="\./([^"]+)"', page.text)
        answers = [page, *(http.get(f"/{name}", headers={"accept-encoding": "gzip"}) for name in files)]
    assert len(files) > 2
    assert sum(int(answer.headers["content-length"]) for answer in answers) <= MOST_OF_FIRST_LOAD


def test_answers_are_compressed_for_clients_that_take_it(live: LiveServer) -> None:
    with live.http() as http:
        plain = http.get("/api/agents", headers={"accept-encoding": "gzip;q=0"})
        small = http.get("/api/agents", headers={"accept-encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert small.headers["content-encoding"] == "gzip"
        assert small.json() == plain.json()
        assert int(small.headers["content-length"]) < len(plain.content) / 2


def test_the_openapi_document_names_every_route(live: LiveServer) -> None:
    from test_security import routes

    with live.http() as http:
        paths = http.get("/openapi.json").json()["paths"]
    named = {(method.upper(), re.sub(r"\{\w+\}", "x", path)) for path in paths for method in paths[path]}
    assert {*routes(live)} - named == {("GET", "/x"), ("GET", "/openapi.json")}


class Described:
    """Checks answers against `/openapi.json`."""

    def __init__(self, http: httpx.Client) -> None:
        self.document = http.get("/openapi.json").json()

    def calls(self) -> Iterator[tuple[str, str, bool]]:
        """Method, path, and whether it is a stream."""
        for path, calls in self.document["paths"].items():
            for method, call in calls.items():
                (success,) = [status for status in call["responses"] if status.startswith("2")]
                yield method, path, "text/event-stream" in call["responses"][success].get("content", {})

    def check(self, method: str, path: str, answer: httpx.Response) -> None:
        jsonschema = pytest.importorskip(
            "jsonschema", reason="pip install harness-agents[schema] to check it"
        )
        shown_text = self.document["paths"][path][method]["responses"]
        assert str(answer.status_code) in shown_text, (method, path, answer.status_code)
        if "content" in (one := shown_text[str(answer.status_code)]):
            kind = answer.headers["content-type"].partition(";")[0]
            schema = one["content"][kind]["schema"]
            if schema == {"type": "string"}:
                return
            whole = {**schema, "components": self.document["components"]}
            jsonschema.Draft202012Validator(whole).validate(answer.json())


def test_every_answer_is_what_the_openapi_document_shows(live: LiveServer) -> None:
    log_id = finished(live, [CALL], "Done.", permissionMode="fullAuto")
    one = "/api/sessions/{id}"
    with live.http() as http:
        described = Described(http)
        message = http.get(f"/api/sessions/{log_id}/state").json()["state"]["messages"][1]
        call_id = quote(message["toolCalls"][0]["id"], safe="")
        for method, path, is_stream in described.calls():
            needs_more = path.endswith(("/file", "/{ask}", "/requests/{number}")) or path.startswith(
                "/api/fleets/"
            )
            if method == "get" and not is_stream and not needs_more:
                answer = http.get(path.replace("{id}", log_id).replace("{callId}", call_id))
                assert answer.status_code == 200, path
                described.check(method, path, answer)
        for method, path, answer in (
            ("post", "/api/sessions", http.post("/api/sessions", json={"agent": "nobody"})),
            ("post", "/api/sessions", http.post("/api/sessions", json={"model": live.script("x")})),
            ("post", "/api/links", http.post("/api/links", json={})),
            ("patch", one, http.patch(f"/api/sessions/{log_id}", json={"tags": ["a"]})),
            ("post", f"{one}/commands", http.post(f"/api/sessions/{log_id}/commands", json={"commands": []})),
            ("delete", one, http.delete(f"/api/sessions/{log_id}")),
            ("get", one, http.get(f"/api/sessions/{log_id}")),
        ):
            described.check(method, path, answer)


def test_every_refusal_is_what_the_openapi_document_shows(live: LiveServer) -> None:
    reply = {"sessionId": "x", "response": {"approved": True}}
    with live.http() as http:
        described = Described(http)
        for method, path, is_stream in described.calls():
            place = path.replace("{id}", "nobody").replace("{callId}", "x")
            refused = httpx.request(method, f"{live.url}{place}", json={}, headers={"Host": "evil.example"})
            if path not in ("/healthz", "/readyz"):
                described.check(method, path, refused)
            if "{id}" in path and not is_stream:
                body = reply if "relay" in path else {"commands": []}
                answer = http.request(method, place, json=None if method == "get" else body)
                assert answer.status_code in (400, 404), (method, path, answer.status_code)
                described.check(method, path, answer)


def test_a_list_that_has_not_changed_is_not_made_again(live: LiveServer) -> None:
    finished(live)
    path, query = "/api/sessions", {"limit": "10"}
    with live.http() as http:
        first = http.get(path, params=query)
        assert first.headers["etag"]
        known = {"If-None-Match": first.headers["etag"]}
        again = http.get(path, params=query, headers=known)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
        hub, log_id = recorded(live)  # as another process does it
        changed = http.get(path, params=query, headers=known)
        assert changed.status_code == 200
        newest = changed.json()["sessions"][0]
        assert (newest["id"], newest["isLive"]) == (log_id, True)
        known = {"If-None-Match": changed.headers["etag"]}
        assert http.get(path, params=query, headers=known).status_code == 304
        hub.close()  # as when its process dies: nothing is written
        ended = http.get(path, params=query, headers=known)
        assert ended.status_code == 200
        assert [one["isLive"] for one in ended.json()["sessions"]] == [False, False]
        own = live.create(model=live.script([CALL], "x", name="asks.json"), prompt="ask me")["id"]
        with PlainClient(live.url, token=live.access.token, session=own) as client:
            client.until(waits, TIMEOUT_S)
            listed = http.get(path, params=query).json()["sessions"]
            assert (listed[0]["id"], listed[0]["waits"]) == (own, True)
            assert [one["id"] for one in http.get(f"{path}?limit=2&offset=1").json()["sessions"]] == [
                one["id"] for one in listed[1:3]
            ]


def test_a_page_of_a_list_looks_at_nothing_but_the_index(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        hub, log_id = recorded(live)
        hub.source(log_id).append([Result(success=True)])
        hub.close()
        metadata = live.store.metadata(log_id)
        metadata.outcome, metadata.name = "completed", f"number {number}"
        live.store.save_metadata(metadata)
    with live.http() as http:
        assert http.get("/api/sessions?limit=60").json()["total"] == 30
        opened, asked = _opened_while(SessionsApi, "_page", monkeypatch)
        for path in (
            "/api/sessions?limit=60",
            "/api/sessions?query=number",
            "/api/sessions?limit=5&offset=20",
        ):
            assert http.get(path).json()["total"] == 30
        assert len(asked) == 3
        assert [path for path in opened if "sessions/" in path] == []


def _opened_while(cls: type, name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """The files that are opened by calls of a method, and these calls. Other threads of the server read at any time."""
    opened: list[str] = []
    asked: list[str] = []
    current = threading.local()
    real_open, real = os.open, getattr(cls, name)

    def watched_open(path: Any, *more: Any) -> int:
        if getattr(current, "is_asked", False):
            opened.append(str(path))
        return real_open(path, *more)

    def watched(*arguments: Any) -> Any:
        asked.append(name)
        current.is_asked = True
        try:
            return real(*arguments)
        finally:
            current.is_asked = False

    monkeypatch.setattr(os, "open", watched_open)
    monkeypatch.setattr(cls, name, watched)
    return opened, asked


def test_the_bill_is_that_of_the_command_and_reads_only_what_is_new(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.usage import stored_accounts

    def used(count: int) -> None:
        hub, log_id = recorded(live)
        hub.source(log_id).append([UsageDelta(usage=Usage(input=count, output=1)), Result(success=True)])
        hub.close()

    read: list[str] = []
    grep_events = stored_accounts.grep_events

    def skimmed(file: Any, words: Any) -> Iterator[Event]:
        for event in grep_events(file, words):
            read.append(event.run_id)
            yield event

    monkeypatch.setattr(stored_accounts, "grep_events", skimmed)
    for count in (1, 20, 300):
        used(count)
    forked = live.create(continues=live.store.find(Query(limit=1))[0].session_id, agent="native")
    with live.http() as http:
        total = http.get("/api/usage").json()["total"]
        assert (total["input"], total["sessions"]) == (321, 3), forked
        events = len(read)
        assert len({*read}) == 3
        assert http.get("/api/usage?by=session").json()["total"] == total
        used(4_000)
        assert http.get("/api/usage").json()["total"]["input"] == 4_321
        assert len({*read[events:]}) == 1


def test_watchers_of_a_session_are_informed_that_it_was_deleted(live: LiveServer) -> None:
    def deleted_by_a_client(log_id: str) -> None:
        with live.http() as http:
            assert http.delete(f"/api/sessions/{log_id}").status_code == 204

    async def work() -> None:
        for delete in (deleted_by_a_client, live.store.delete):
            hub, log_id = recorded(live)
            hub.source(log_id).append([Result(success=True)])
            hub.close()
            async with live.connect(log_id) as socket:
                await socket.recv()
                await asyncio.to_thread(delete, log_id)
                with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
                    while True:
                        await asyncio.wait_for(socket.recv(), TIMEOUT_S)
                assert closed.value.rcvd is not None
                assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4404, "the session was deleted")

    run(work())


@pytest.mark.parametrize("kind", ["events?view=delta", "object-stream"])
def test_a_stream_of_a_session_ends_when_it_is_deleted(live: LiveServer, kind: str) -> None:
    hub, log_id = recorded(live)
    hub.source(log_id).append([Result(success=True)])
    hub.close()
    path = f"/api/sessions/{log_id}/{kind}"
    with live.http() as http, live.http() as other, http.stream("GET", path) as answer:
        lines = answer.iter_lines()
        assert next(lines)
        assert other.delete(f"/api/sessions/{log_id}").status_code == 204
        assert list(lines)


def test_an_unknown_session_leaves_nothing_behind(live: LiveServer) -> None:
    assert live.application is not None
    channels = live.application.channels
    assert channels is not None
    with live.http() as http:
        for number in range(20):
            assert http.get(f"/api/sessions/nobody{number}/state").status_code == 404
            commands = {"commands": [{"type": "cancel"}]}
            assert http.post(f"/api/sessions/nobody{number}/commands", json=commands).status_code == 404
    assert (len(channels._opening), channels.loaded) == (0, [])


def test_a_new_conversation_accepts_a_prompt(live: LiveServer) -> None:
    async def work() -> None:
        async with live.connect() as socket:
            state = json.loads(await socket.recv())["state"]
            assert state["capabilities"] == {name: name == "submit" for name in CAPABILITIES}

    run(work())


def test_an_idle_conversation_is_unloaded_and_loaded_again(tmp_path: Path) -> None:
    import asyncio

    from harness.clients.conversations.local_backend import LocalBackend

    live = LiveServer(tmp_path)
    with live.serving_now(lambda store, default: LocalBackend(store, default, idle_s=0.0)):
        log_id = finished(live)
        assert live.application is not None
        channels = live.application.channels
        assert channels is not None
        asyncio.run_coroutine_threadsafe(channels.sweep(), channels.loop).result(TIMEOUT_S)
        assert not live.store.is_live(log_id)
        with PlainClient(live.url, token=live.access.token, session=log_id) as client:
            client.send({"type": "configure", "config": {"model": live.script([CALL], "Awake.")}})
            client.send(Submit(prompt="wake up"))
            state = client.until(waits, TIMEOUT_S)
            client.send(Approve(relay_id=state["relays"][-1]["id"]))
            assert client.until(lambda s: len(s["runs"]) == 2 and is_done(s), TIMEOUT_S)["status"] == "idle"


def test_an_unloaded_conversation_still_waits(tmp_path: Path) -> None:
    import asyncio

    from harness.clients.conversations.local_backend import LocalBackend

    question = {"type": "tool_call", "name": "ask_user", "input": {"question": "Which?"}}
    live = LiveServer(tmp_path)
    with live.serving_now(lambda store, default: LocalBackend(store, default, idle_s=0.0)):
        session = live.create(model=live.script([question], "Thanks."), prompt="ask me")["id"]
        with PlainClient(live.url, token=live.access.token, session=session) as client:
            client.until(lambda state: waits(state) and not state["isLive"], TIMEOUT_S)
        assert live.application is not None
        channels = live.application.channels
        assert channels is not None
        asyncio.run_coroutine_threadsafe(channels.sweep(), channels.loop).result(TIMEOUT_S)
        assert not live.store.is_live(session)
        with live.http() as http:
            assert http.get(f"/api/sessions/{session}").json()["waits"] is True
    with live.serving_now(), live.http() as http:
        assert http.get("/api/sessions").json()["sessions"][0]["waits"] is True


def test_a_permission_that_waits_when_the_server_is_stopped_is_given_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    live = LiveServer(tmp_path)
    with live.serving_now():
        session = live.create(model=live.script([CALL], "Never said."), prompt="do it")["id"]
        with PlainClient(live.url, token=live.access.token, session=session) as client:
            client.until(waits, TIMEOUT_S)
    with live.serving_now(), live.http() as http:
        assert http.get(f"/api/sessions/{session}").json()["waits"] is True
        with PlainClient(live.url, token=live.access.token, session=session) as client:
            state = client.until(waits, TIMEOUT_S)
            client.send({"type": "configure", "config": {"model": live.script("Done.")}})
            client.send(Approve(relay_id=state["relays"][-1]["id"]))
            state = client.until(is_done, TIMEOUT_S)
            assert state["messages"][-1]["content"] == "Done."
