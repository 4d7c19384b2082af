"""AG-UI on the server: its own client, interrupts and what answers them, and what goes wrong."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ag_ui.core
import httpx
import pytest
from pydantic import TypeAdapter

import node_packages
from live_server import TIMEOUT_S, LiveServer, events_of
from test_openai_api import ASK, BASH, scripted

ADAPTER: TypeAdapter[Any] = TypeAdapter(ag_ui.core.Event)
PROGRAM = Path(__file__).with_name("agui_front_end.mjs")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path)
    server.endpoints = ["agui"]
    with server.serving_now() as serving:
        yield serving


def message(text: str, id: str = "u1", role: str = "user") -> dict[str, Any]:
    return {"id": id, "role": role, "content": text}


def post(
    server: LiveServer, agent: str, run: str, *messages: dict[str, Any], thread: str = "t1", **more: Any
) -> list[dict[str, Any]]:
    """The events of one request, each held against the official package."""
    body = {"threadId": thread, "runId": run, "messages": list(messages), **more}
    with server.http() as http:
        answer = http.post(f"/agui/{agent}", json=body)
    assert answer.status_code == 200, answer.text
    events = [json.loads(one["data"]) for one in events_of(iter(answer.text.split("\n")))]
    for event in events:
        ADAPTER.validate_python(event)
    assert (events[0]["type"], events[0]["threadId"], events[0]["runId"]) == ("RUN_STARTED", thread, run)
    assert [one["type"] for one in events].count("RUN_STARTED") == 1
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    return events


def text_of(events: Sequence[dict[str, Any]]) -> str:
    return "".join(one["delta"] for one in events if one["type"] == "TEXT_MESSAGE_CONTENT")


def refused(server: LiveServer, body: Any, path: str = "/agui") -> int:
    with server.http() as http:
        answer = http.post(path, json=body)
    assert answer.json()["error"]["message"]
    return answer.status_code


@pytest.mark.parametrize("approved", [True, False])
def test_the_official_client_asks_is_interrupted_and_resumes(served: LiveServer, approved: bool) -> None:
    folder = node_packages.folder("@ag-ui/client", "rxjs")
    program = folder / PROGRAM.name
    program.write_bytes(PROGRAM.read_bytes())
    agent = scripted(served, BASH, "So it is.", "Later.")
    wanted = {
        "url": f"{served.url}/agui/{agent}",
        "token": served.access.token,
        "threadId": "front-1",
        "prompt": "make it",
        "approved": approved,
    }
    done = subprocess.run(
        ["node", str(program), json.dumps(wanted)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [one["reason"] for one in report["interrupts"]] == ["harness:permission"]
    assert "not addressed by resume" in report["withoutResume"]
    assert report["kinds"].count("RUN_STARTED") == report["kinds"].count("RUN_FINISHED") == 3
    said = [text for role, text in report["messages"] if role == "assistant" and text]
    assert said == ["So it is.", "Later."]
    assert [text for role, text in report["messages"] if role == "user"] == ["make it", "and now?"]
    assert (served.folder / "made").exists() is approved


def test_a_question_is_an_interrupt_and_a_late_answer_gets_what_came_of_it(served: LiveServer) -> None:
    agent = scripted(served, ASK, "So be it.", "Bye.")
    first = post(served, agent, "r1", message("ask"))
    (asked,) = first[-1]["outcome"]["interrupts"]
    assert asked["reason"] == "input_required"
    assert asked["metadata"]["harness"]["options"] == ["red", "blue"]
    body = {"threadId": "t1", "runId": "r2", "messages": [message("ask"), message("and?", "u2")]}
    assert refused(served, body) == 409  # it waits for the answer
    resume = [{"interruptId": asked["id"], "status": "resolved", "payload": {"answer": "blue"}}]
    second = post(served, "", "r2", message("ask"), resume=resume)
    assert text_of(second) == "So be it."
    late = post(served, "", "r3", message("ask"), resume=resume)
    assert text_of(late) == "So be it."
    assert late[0]["parentRunId"] == "r1" or late[0]["parentRunId"]
    nothing = [{"interruptId": "nope", "status": "resolved"}]
    assert refused(served, {"threadId": "t1", "runId": "r4", "resume": nothing}) == 400


def test_the_next_request_may_follow_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_UNDO", "true")  # there is still work to do after the last word of a run
    server = LiveServer(tmp_path)
    server.endpoints = ["agui"]
    agent = scripted(server, BASH, "Made.", "Two.")
    with server.serving_now():
        (asked,) = post(server, agent, "r1", message("make it"))[-1]["outcome"]["interrupts"]
        resume = [{"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}]
        assert text_of(post(server, agent, "r2", message("make it"), resume=resume)) == "Made."
        assert text_of(post(server, agent, "r3", message("make it"), message("two", "u2"))) == "Two."


def test_only_what_is_new_is_sent_also_after_a_restart(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    server.endpoints = ["agui"]
    agent = scripted(server, "One.", "Two.", "Three.")
    said = [message("one")]
    with server.serving_now():
        first = post(server, agent, "r1", *said)
        assert text_of(first) == "One."
        assert not [one for one in first if one.get("role") == "user"]  # it knows what it has sent
        said += [message("One.", "a1", "assistant"), message("two", "u2")]
        assert text_of(post(server, agent, "r2", *said)) == "Two."
        assert refused(server, {"threadId": "t1", "runId": "r3", "messages": said}) == 400
    said += [message("Two.", "a2", "assistant"), message("one", "u3")]  # the same words again
    with server.serving_now():
        assert text_of(post(server, agent, "r3", *said)) == "Three."
        with server.http() as http:
            (row,) = http.get("/api/sessions").json()["sessions"]
    assert row["id"] == "t1"


def test_a_stop_is_an_outcome_and_a_closed_stream_stops_unless_it_is_detached(served: LiveServer) -> None:
    slow = '{ text = "word word word word", pieces = 400 }'
    agent = scripted(served, slow, pause_ms=100)
    pause = threading.Event()
    for thread, props in (("left", {}), ("on", {"harness": {"detach": True}})):
        body = {
            "threadId": thread,
            "runId": "r",
            "messages": [message("go")],
            "forwardedProps": props,
        }
        with (
            httpx.Client(headers=served.bearer, timeout=TIMEOUT_S) as http,
            http.stream("POST", f"{served.url}/agui/{agent}", json=body) as answer,
        ):
            next(answer.iter_lines())
    with served.http() as http:
        for _ in range(600):
            if http.get("/api/sessions/left").json()["outcome"] == "interrupted":
                break
            pause.wait(0.05)
        else:
            pytest.fail("it runs on")
        assert http.get("/api/sessions/on").json()["outcome"] != "interrupted"
        view = "/api/sessions/left/events?view=agui&follow=false"
        told = [json.loads(one["data"]) for one in events_of(iter(http.get(view).text.split("\n")))]
        assert told[-1]["outcome"] == {"type": "cancelled"}
        cancel = {"commands": [{"type": "cancel"}]}
        assert http.post("/api/sessions/on/commands", json=cancel).status_code < 300


def test_tools_of_the_front_end_are_not_called_which_the_stream_says(served: LiveServer) -> None:
    agent = scripted(served, "Hello.")
    tools = [{"name": "navigate", "description": "", "parameters": {}}]
    events = post(served, agent, "r1", message("hi"), tools=tools)
    assert events[1]["name"] == "harness.ignored"
    assert events[1]["value"] == {"tools": ["navigate"]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ([], 400),
        ({"threadId": "../x", "runId": "r", "messages": [message("x")]}, 400),
        ({"threadId": "x" * 200, "runId": "r", "messages": [message("x")]}, 400),
        ({"threadId": "t", "runId": "", "messages": [message("x")]}, 400),
        ({"threadId": "t", "runId": "r", "messages": []}, 400),
        ({"threadId": "t", "runId": "r", "messages": [message("  ")]}, 400),
        ({"threadId": "t", "runId": "r", "resume": [{"interruptId": "a", "status": "maybe"}]}, 400),
        ({"threadId": "t", "runId": "r", "resume": [{"interruptId": "a", "status": "resolved"}]}, 404),
        ({"threadId": "t", "runId": "r", "messages": [message("x" * (5 * 1024 * 1024))]}, 413),
    ],
)
def test_what_is_wrong_is_refused_before_anything_begins(served: LiveServer, body: Any, status: int) -> None:
    assert refused(served, body) == status
    assert refused(served, {"threadId": "t", "runId": "r", "messages": [message("x")]}, "/agui/nobody") == 404
    with served.http() as http:
        assert http.get("/api/sessions").json()["total"] == 0


def test_it_needs_the_token_and_pages_of_others_may_not_ask(served: LiveServer) -> None:
    body = {"threadId": "t", "runId": "r", "messages": [message("x")]}
    assert httpx.post(f"{served.url}/agui", json=body).status_code == 401
    with served.http() as http:
        assert http.post("/agui", json=body, headers={"Origin": "http://evil.example"}).status_code == 403


def test_a_thread_that_may_do_more_than_those_of_the_endpoint_is_refused(served: LiveServer) -> None:
    model = scripted(served, "First.")
    thread = served.create(model=model.removeprefix("native/"), permissionMode="fullAuto")["id"]
    body = {"threadId": thread, "runId": "r1", "messages": [message("go on")]}
    assert refused(served, body) == 403
    narrow = served.create(model=model.removeprefix("native/"), permissionMode="readOnly")["id"]
    assert text_of(post(served, "", "r2", message("go on"), thread=narrow)) == "First."
