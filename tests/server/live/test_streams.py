"""Server-sent events: any view of a session, its deltas, the object stream of assistant-ui, and the chat."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx
import pytest

from harness.clients import formats
from harness.events import Message, Result, ToolEnd, ToolStart
from harness.folds.page_state.object_stream import apply
from harness.stage import ViewOptions
from live_server import TIMEOUT_S, LiveServer, events_of, is_done, recorded, waits

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "/bin/echo from the shell"}}


def test_any_view_can_be_streamed_and_resumed_without_loss_or_repetition(live: LiveServer) -> None:
    hub, log_id = recorded(live, 20)
    hub.source(log_id).append(
        [
            ToolStart(call_id="c", tool_name="Bash", input={"command": "ls"}),
            ToolEnd(call_id="c", tool_name="Bash", success=True, output="a\nb"),
        ]
    )
    hub.source(log_id).append([Result(success=True)])
    hub.close()
    with live.http() as http:
        for view in (
            "stream",
            "ndjson",
            "delta",
            "markdown",
            "log",
            "text",
            "events",
            "session-events",
            "activity",
            "acp",
            "agui",
            "otel",
        ):
            path = f"/api/sessions/{log_id}/events?follow=false&view={view}"
            whole = list(events_of(http.get(path).text.split("\n").__iter__()))
            assert whole, view
            numbered = [(one.get("id"), one["data"]) for one in whole]
            for cut in sorted({0, 1, len(numbered) // 2, len(numbered) - 1} & {*range(len(numbered))}):
                last = numbered[cut][0]
                rest = http.get(path, headers={"Last-Event-ID": last}).text
                again = [(one.get("id"), one["data"]) for one in events_of(iter(rest.split("\n")))]
                assert numbered[cut + 1 :] == again or view in ("text", "markdown")
            if view not in ("text", "markdown"):
                for one in whole:
                    json.loads(one["data"])
                assert len({one["id"] for one in whole}) == len(whole)
        assert http.get(f"/api/sessions/{log_id}/events?view=nothing").status_code == 400


@pytest.mark.parametrize("view", ["text", "markdown", "html", "transcript"])
def test_texts_are_sent_with_their_line_ends(live: LiveServer, view: str) -> None:
    hub, log_id = recorded(live, 2)
    hub.source(log_id).append(
        [Message(role="assistant", text="First.\n"), Message(role="assistant", text="Second.")]
    )
    hub.source(log_id).append([Result(success=True)])
    hub.close()
    opened = formats.open_view(view, ViewOptions())
    reader = live.store.reader(log_id)
    written = [piece for event in reader.read() for piece in opened.feed(event)]
    reader.close()
    written.extend(opened.finish())
    with live.http() as http:
        answer = http.get(f"/api/sessions/{log_id}/events?follow=false&view={view}").text
    sent = [one["data"] for one in events_of(iter(answer.split("\n")))]
    assert "".join(sent) == b"".join(written).decode()


def test_deltas_by_server_sent_events_give_the_state(live: LiveServer) -> None:
    hub, log_id = recorded(live, 5)
    state: dict[str, Any] = {}
    with live.http() as http, http.stream("GET", f"/api/sessions/{log_id}/events?view=delta") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        threading.Timer(0.2, lambda: hub.source(log_id).append([Result(success=True)])).start()
        for event in events_of(answer.iter_lines()):
            message = json.loads(event["data"])
            state = message["state"] if message["type"] == "state" else apply(state, message["operations"])
            if state["status"] == "idle" and state["runs"]:
                break
    assert state["messages"][-1]["content"] == "word0 word1 word2 word3 word4 "
    hub.close()


def test_the_object_stream_of_assistant_ui_is_the_state_then_operations(
    live: LiveServer,
) -> None:
    session = live.create(model=live.script([CALL], "All of it."))["id"]
    place = f"/api/sessions/{session}/object-stream"
    with live.http() as http, http.stream("GET", place) as stream:
        assert stream.headers["content-type"].partition(";")[0] == "text/event-stream"
        assert stream.headers["assistant-stream-format"] == "object-stream/v0"
        state: Any = None
        for number, event in enumerate(events_of(stream.iter_lines())):
            operations = json.loads(event["data"])
            assert number or [(one["type"], one["path"]) for one in operations] == [("set", [])]
            state = apply(state, operations)
            if not number:
                commands = [{"type": "submit", "prompt": "go"}]
                http.post(f"/api/sessions/{session}/commands", json={"commands": commands})
            elif waits(state):
                approve = {"type": "approve", "relayId": state["relays"][0]["id"]}
                http.post(f"/api/sessions/{session}/commands", json={"commands": [approve]})
            elif is_done(state):
                break
        assert state["messages"][-1]["content"] == "All of it."
    with live.http() as http:
        assert http.get("/api/sessions/nobody/object-stream").status_code == 404
        assert state["messages"] == http.get(f"/api/sessions/{session}/state").json()["state"]["messages"]


def chat(live: LiveServer, http: httpx.Client, **wanted: Any) -> Any:
    return http.stream("POST", "/chat", json={"messages": [{"role": "user", "content": "go"}], **wanted})


def test_a_chat_streams_its_events_and_asks_for_leave(live: LiveServer) -> None:
    model = live.script([CALL], "Done.")
    with live.http() as http, live.http() as other, chat(live, http, model=model) as answer:
        seen = []
        session = ""
        for event in events_of(answer.iter_lines()):
            data = json.loads(event["data"])
            seen.append(event["event"])
            assert data["type"] == event["event"]
            if event["event"] == "connected":
                session = data["sessionId"]
            if event["event"] == "relay":
                path = f"/chat/relay/{data['id']}"
                assert (
                    other.post(path, json={"sessionId": "x", "response": {"approved": True}}).status_code
                    == 404
                )
                assert data["options"][1]["grants"] == [{"tool": "bash", **data["params"]}]
                wrong = {"sessionId": session, "response": {"approved": True, "choice": "everything"}}
                assert other.post(path, json=wrong).status_code == 400
                body = {"sessionId": session, "response": {"approved": True}}
                assert other.post(path, json=body).json() == {"success": True}
                assert other.post(path, json=body).status_code == 404
        assert seen[0] == "connected"
        assert seen[-1] == "harness_end"
        assert {"relay", "tool_call", "tool_result", "text"} <= {*seen}
        assert other.get("/api/sessions").json()["total"] == 0


def test_a_chat_takes_permissions_history_and_closes_with_its_stream(live: LiveServer) -> None:
    model = live.script([CALL], "Done.")
    allowed = {"allowlist": [{"tool": "bash", "params": {"command": "/bin/echo *"}}]}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {
            "role": "assistant",
            "content": "two",
            "tool_calls": [{"id": "t", "name": "list", "arguments": "{}"}],
        },
        {"role": "tool", "tool_call_id": "t", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "three"}]},
    ]
    with live.http() as http:
        with chat(live, http, model=model, permissions=allowed, messages=messages) as answer:
            kinds = [event["event"] for event in events_of(answer.iter_lines())]
        assert "relay" not in kinds
        assert "tool_result" in kinds
        with chat(live, http, model=live.script([CALL], "x", name="other.json")) as answer:
            for event in events_of(answer.iter_lines()):
                if event["event"] == "connected":
                    session = json.loads(event["data"])["sessionId"]
                if event["event"] == "relay":
                    relay = json.loads(event["data"])["id"]
                    break
        body = {"sessionId": session, "response": {"approved": True}}
        deadline = time.monotonic() + TIMEOUT_S
        while http.post(f"/chat/relay/{relay}", json=body).status_code != 404:
            assert time.monotonic() < deadline


def test_every_model_that_is_offered_for_a_chat_is_taken(live: LiveServer) -> None:
    with live.http() as http:
        offered = http.get("/models").json()
        assert offered["defaultModel"] == offered["models"][0]
        assert "scripted/demo" in offered["models"]
        for model in ("scripted", "scripted/demo", offered["defaultModel"]):
            with chat(live, http, model=model) as answer:
                assert answer.status_code == 200, model
                assert next(events_of(answer.iter_lines()))["event"] == "connected"
        for model in ("nobody", "nobody/at-all", "", "scripted/"):
            with chat(live, http, model=model) as answer:
                assert answer.status_code == 400, model
