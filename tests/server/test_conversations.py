"""Conversations over the socket: prompts, answers, queues, several clients, reconnecting."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from live_server import LiveServer, Watcher, is_done, run, waits

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "/bin/echo from the shell"}}


def test_a_prompt_is_answered_in_pieces_and_the_state_has_the_shape_of_the_protocol(
    live: LiveServer,
) -> None:
    async def work() -> None:
        session = live.create(model=live.script("Hello live, this is a test."))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            first = await client.receive()
            assert first["type"] == "state"
            assert (first["state"]["status"], first["state"]["messages"]) == ("idle", [])
            assert first["state"]["capabilities"]["submit"] is True
            await client.command("submit", prompt="hi")
            state = await client.until(is_done)
            assert [(one["role"], one["content"], one["status"]) for one in state["messages"]] == [
                ("user", "hi", "complete"),
                ("assistant", "Hello live, this is a test.", "complete"),
            ]
            assert all(message["type"] == "delta" for message in client.messages[1:])

    run(work())


def test_a_socket_without_a_session_begins_one_with_its_first_prompt(live: LiveServer) -> None:
    async def work() -> None:
        async with live.connect() as socket:
            client = Watcher(socket)
            assert (await client.receive())["state"]["sessionId"] == ""
            await client.command("cancel")
            await client.command("steer", message="to whom?", id="mine")
            assert (await client.until_error())["commandId"] == "mine"
            await client.command("configure", config={"model": live.script("Yes.")})
            await client.command("submit", prompt="hi")
            state = await client.until(is_done)
            assert state["messages"][-1]["content"] == "Yes."
            assert live.store.metadata(state["sessionId"]).prompt == "hi"

    run(work())


def test_several_clients_see_the_same_and_the_first_answer_to_a_relay_counts(live: LiveServer) -> None:
    async def work() -> None:
        model = live.script([CALL], "Done.")
        session = live.create(model=model)
        async with live.connect(session["id"]) as one, live.connect(session["id"]) as two:
            first, second = Watcher(one), Watcher(two)
            await first.receive()
            await second.receive()
            await first.command("submit", prompt="run it")
            await first.until(waits)
            await second.until(waits)
            relay = first.state["relays"][0]
            call = first.state["messages"][1]["toolCalls"][0]
            assert (call["id"], call["relayId"]) == (relay["callId"], relay["id"])
            await first.command("approve", toolCallId=relay["callId"])
            await second.command("deny", toolCallId=relay["callId"], reason="late")
            error = await second.until_error()
            assert "first answer counts" in error["message"]
            await first.until(is_done)
            await second.until(is_done)
            assert first.state == second.state
            assert first.state["relays"][0]["status"] == "approved"
            done = first.state["messages"][1]["toolCalls"][0]
            assert (done["status"], done["exitCode"]) == ("complete", 0)
            assert "from the shell" in done["output"]

    run(work())


def test_a_call_that_is_denied_is_reported(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL], "Then not."))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="run it")
            await client.until(waits)
            await client.command("deny", relayId=client.state["relays"][0]["id"], reason="too dangerous")
            state = await client.until(is_done)
            assert (state["relays"][0]["status"], state["relays"][0]["reason"]) == ("denied", "too dangerous")
            assert state["messages"][1]["toolCalls"][0]["status"] == "error"
            assert state["messages"][1]["content"] == "Then not."

    run(work())


def test_prompts_that_come_during_a_run_wait_and_are_answered_in_order(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL], "Answer.", name="slow.json"))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="first")
            await client.until(waits)
            await client.command("configure", config={"model": live.script("Again.")})
            for prompt in ("second", "third", "never"):
                await client.command("submit", prompt=prompt)
            state = await client.until(lambda state: len(state["followUps"]) == 3)
            assert [one["text"] for one in state["followUps"]] == ["second", "third", "never"]
            assert [one["status"] for one in state["messages"][2:]] == ["pending"] * 3
            await client.command("withdraw", followUpId=state["followUps"][2]["id"])
            await client.command("approve", relayId=state["relays"][0]["id"])
            state = await client.until(lambda state: len(state["runs"]) == 3 and is_done(state))
            texts = [(one["content"], one["status"]) for one in state["messages"] if one["role"] == "user"]
            assert texts == [
                ("first", "complete"),
                ("second", "complete"),
                ("third", "complete"),
                ("never", "error"),
            ]
            assert [run["status"] for run in state["runs"]] == ["completed"] * 3

    run(work())


def test_a_run_can_be_cancelled_and_the_next_prompt_starts_another(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL], "x", name="one.json"))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("cancel")  # nothing runs: nothing happens
            await client.command("submit", prompt="go")
            state = await client.until(waits)
            assert state["capabilities"]["cancel"] is True
            await client.command("cancel")
            state = await client.until(is_done)
            assert (state["status"], state["runs"][0]["status"]) == ("idle", "interrupted")
            assert state["relays"][0]["status"] == "denied"
            await client.command("configure", config={"model": live.script("Fine.")})
            await client.command("submit", prompt="again")
            state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
            assert state["messages"][-1]["content"] == "Fine."

    run(work())


def test_an_agent_that_listens_can_be_steered(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL], "Heard."))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            state = await client.until(waits)
            assert state["capabilities"]["steer"] is True
            await client.command("steer", message="rather this")
            await client.command("approve", relayId=state["relays"][0]["id"])
            state = await client.until(is_done)
            assert [one["content"] for one in state["messages"]][-2:] == ["rather this", "Heard."]

    run(work())


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        "{}",
        '{"type":"command","commands":[]}',
        '{"type":"commands"}',
        '{"type":"commands","commands":[{"type":"launch"}]}',
        '{"type":"commands","commands":[{"type":"submit"}]}',
        '{"type":"commands","commands":[{"type":"submit","prompt":7}]}',
        '{"type":"commands","commands":[{"type":"submit","prompt":"ok"},{"type":"steer"}]}',
        '{"type":"commands","commands":[{"type":"configure","config":{"permissionMode":"root"}}]}',
        '{"type":"commands","commands":[{"type":"approve","toolCallId":"nobody"}]}',
        '{"type":"commands","commands":[{"type":"configure","config":{"cwd":"/no/such/place"}}]}',
        '{"type":"commands","commands":[{"type":"submit","prompt":"  "}]}',
        '{"type":"commands","commands":' + json.dumps([{"type": "cancel"}] * 65) + "}",
    ],
)
def test_a_bad_message_is_answered_with_an_error_and_changes_nothing(live: LiveServer, text: str) -> None:
    async def work() -> None:
        session = live.create(model=live.script("x"))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            before = (await client.receive())["state"]
            await socket.send(text)
            assert (await client.until_error())["message"]
            async with live.connect(session["id"]) as other:
                after = (await Watcher(other).receive())["state"]
            assert after["messages"] == before["messages"] == []

    run(work())


def test_an_unknown_session_is_closed_with_a_code_of_its_own(live: LiveServer) -> None:
    async def work() -> None:
        for name in ("nobody", "../../etc/passwd", "%00", "a" * 4000):
            async with live.connect(name) as socket:
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 4404

    run(work())


def test_each_of_many_reconnections_gets_what_the_log_shows_and_then_no_gap(live: LiveServer) -> None:
    async def work() -> None:
        words = " ".join(str(number) for number in range(4_000))
        model = live.script([{"type": "text", "content": words, "pieces": 2_000}], pause_ms=1)
        session = live.create(model=model, prompt="count")
        seen = []
        for _ in range(200):
            async with live.connect(session["id"]) as socket:
                client = Watcher(socket)
                state = (await client.receive())["state"]
                seen.append((state["seq"], state["messages"]))
                if not is_done(state):
                    await client.receive()
                    seen.append((client.seq, client.state["messages"]))
        async with live.connect(session["id"]) as socket:
            final = await Watcher(socket).until(is_done)
        assert final["messages"][-1]["content"] == words
        with live.http() as http:
            for seq, messages in seen[:: max(1, len(seen) // 20)]:
                at = http.get(f"/api/sessions/{session['id']}/state", params={"at": seq}).json()
                assert at["state"]["messages"] == messages or seq == final["seq"]

    run(work())


def test_everything_is_there_again_after_the_server_was_started_again(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    with live.serving_now():
        session = live.create(model=live.script("Remember this."), prompt="say it")
        before = run_to_end(live, session["id"])
    with live.serving_now():
        after = run_to_end(live, session["id"])
        assert after["messages"] == before["messages"]
        model = live.script("Still here.")
        submit(live, session["id"], "and now?", model)
        assert run_to_end(live, session["id"], runs=2)["messages"][-1]["content"] == "Still here."


def torn(live: LiveServer, session: str, is_so: Any) -> bytes:
    """What is in the log when the state is so."""

    async def work() -> None:
        async with live.connect(session) as socket:
            await Watcher(socket).until(is_so)

    run(work())
    return log_of(live, session).read_bytes()


def log_of(live: LiveServer, session: str) -> Path:
    return live.folder / "sessions" / f"{session}.ndjson"


def test_a_run_of_a_server_that_died_is_interrupted(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    with live.serving_now():
        words = [{"type": "text", "content": "word " * 500, "pieces": 500}]
        session = live.create(model=live.script(words, pause_ms=20), prompt="go")["id"]
        left = torn(
            live, session, lambda state: len(state["messages"]) > 1 and state["messages"][1]["content"]
        )
    log_of(live, session).write_bytes(left + b'{"type":"TextDel')  # as a killed process leaves it
    with live.serving_now():
        state = run_to_end(live, session)
        assert (state["status"], state["runs"][0]["status"]) == ("idle", "interrupted")
        assert state["messages"][1]["content"].startswith("word ")
        submit(live, session, "again", live.script("Yes."))
        assert run_to_end(live, session, runs=2)["messages"][-1]["content"] == "Yes."


def test_a_run_that_is_stopped_with_its_server_says_so(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    with live.serving_now():
        words = [{"type": "text", "content": "word " * 500, "pieces": 500}]
        session = live.create(model=live.script(words, pause_ms=20), prompt="go")["id"]
        torn(live, session, lambda state: len(state["messages"]) > 1 and state["messages"][1]["content"])
    with live.serving_now(), live.http() as http:
        row = http.get("/api/inbox").json()["rows"][0]
        assert (row["state"], row["failure"]["code"]) == ("interrupted", "program_closed")
        assert row["isUnseen"]
        assert http.get("/api/inbox").json()["counts"]["failed"] == 1


def test_a_question_outlives_the_server_that_asked_it(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)
    with live.serving_now():
        session = live.create(model=live.script([CALL], "After all."), prompt="go")["id"]
        left = torn(live, session, waits)
    log_of(live, session).write_bytes(left)
    live.script("After all.")  # a script starts again with its server

    async def work() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            state = await client.until(waits)
            assert (state["runs"][0]["status"], state["isLive"]) == ("suspended", False)
            assert state["capabilities"]["answer"] is True
            with live.http() as http:
                assert http.get(f"/api/sessions/{session}").json()["waits"] is True
            await client.command("submit", prompt="next")
            await client.command("approve", relayId=state["relays"][0]["id"])
            state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
            assert state["runs"][0]["status"] == "completed"
            assert "from the shell" in state["messages"][1]["toolCalls"][0]["output"]

    with live.serving_now():
        run(work())


def test_tags_outlive_the_next_run(live: LiveServer) -> None:
    session = live.create(model=live.script("One."), prompt="go")["id"]
    run_to_end(live, session)
    with live.http() as http:
        assert http.patch(f"/api/sessions/{session}", json={"tags": ["release"]}).status_code == 200
        submit(live, session, "again", live.script("Two."))
        run_to_end(live, session, runs=2)
        assert http.get(f"/api/sessions/{session}").json()["tags"] == ["release"]
        # A row follows its log, so that it may come a moment later.
        deadline = time.monotonic() + 10
        tags: list[list[str]] = []
        while tags != [["release"]] and time.monotonic() < deadline:
            tags = [row["tags"] for row in http.get("/api/inbox").json()["rows"]]
        assert tags == [["release"]]


def submit(live: LiveServer, session: str, prompt: str, model: str) -> None:
    commands = [{"type": "configure", "config": {"model": model}}, {"type": "submit", "prompt": prompt}]
    with live.http() as http:
        answer = http.post(f"/api/sessions/{session}/commands", json={"commands": commands})
        assert answer.status_code == 202, answer.text


def run_to_end(live: LiveServer, session: str, runs: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def work() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            found.update(await client.until(lambda state: len(state["runs"]) >= runs and is_done(state)))

    run(work())
    return found


def test_a_stalled_client_does_not_delay_others_and_catches_up_with_a_snapshot(live: LiveServer) -> None:
    async def work() -> None:
        piece = "x" * 2_000
        model = live.script([{"type": "text", "content": piece * 4_000, "pieces": 4_000}])
        session = live.create(model=model)
        stalled = await asyncio.open_connection("127.0.0.1", live.port)
        request = (
            f"GET /ws?session={session['id']} HTTP/1.1\r\nHost: {live.host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {live.access.token}\r\n\r\n"
        )
        stalled[1].write(request.encode())
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            state = await client.until(is_done)
            assert state["messages"][-1]["content"] == piece * 4_000
        stalled[1].close()

    run(work())
