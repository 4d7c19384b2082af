"""What waits its turn: steering, prompts behind a run or a question, and what happens to them at a stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.log.store import Query
from live_server import LiveServer, Watcher, is_done, run, waits

CALL = {"type": "tool_call", "id": "c1", "name": "bash", "input": {"command": "/bin/echo from the shell"}}


def texts(state: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["content"], one["status"]) for one in state["messages"] if one["role"] == "user"]


def queued(state: dict[str, Any]) -> list[str]:
    return [one["text"] for one in state["followUps"]]


async def other_answers(client: Watcher, live: LiveServer, answer: str = "Answer.") -> None:
    """A script starts again with each run: the following ones shall not call anything."""
    await client.command("configure", config={"model": live.script(answer, name="other.json")})


def test_steering_is_seen_the_moment_it_is_accepted_and_stands_before_what_is_queued(
    live: LiveServer,
) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL], "Heard."))
        async with live.connect(session["id"]) as socket, live.connect(session["id"]) as other:
            client, reader = Watcher(socket), Watcher(other)
            await client.command("submit", prompt="go")
            await client.until(waits)
            await other_answers(client, live, "Later.")
            await client.command("submit", prompt="later")
            await client.command("steer", message=" \n")
            assert "the message is empty" in (await client.until_error())["message"]
            await client.command("steer", message="rather this")
            for one in (client, reader):  # while the call still waits
                state = await one.until(lambda state: state["steering"])
                assert [item["text"] for item in state["steering"]] == ["rather this"]
                assert texts(state) == [("go", "complete"), ("rather this", "pending"), ("later", "pending")]
            await client.command("approve", relayId=client.state["relays"][0]["id"])
            state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
            shown_text = [one["content"] for one in state["messages"] if one["content"]]
            assert shown_text == ["go", "rather this", "Heard.", "later", "Later."]
            assert (state["steering"], {status for _, status in texts(state)}) == ([], {"complete"})

    run(work())


def test_stopping_stops_and_the_queue_is_sent_by_one_command(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL]))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("continue")
            assert "the queue is empty" in (await client.until_error())["message"]
            await client.command("submit", prompt="one")
            await client.until(waits)
            await other_answers(client, live)
            for prompt in ("two", "three"):
                await client.command("submit", prompt=prompt)
            await client.command("continue")
            assert "a run is in progress" in (await client.until_error())["message"]
            await client.command("cancel")
            state = await client.until(is_done)
            assert (state["status"], len(state["runs"]), queued(state)) == ("idle", 1, ["two", "three"])
            await client.command("continue")
            state = await client.until(lambda state: len(state["runs"]) == 3 and is_done(state))
            assert [text for text, _ in texts(state)] == ["one", "two", "three"]
            assert queued(state) == []

    run(work())


def test_stopping_can_give_up_what_is_queued(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL]))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="one")
            await client.until(waits)
            await client.command("submit", prompt="two")
            await client.until(queued)
            await client.command("cancel", queue="clear")
            state = await client.until(is_done)
            assert (len(state["runs"]), queued(state)) == (1, [])
            assert texts(state)[-1] == ("two", "error")

    run(work())


def test_a_prompt_right_after_stopping_is_not_left_waiting(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL]))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="one")
            await client.until(waits)
            await other_answers(client, live)
            await client.send(
                {"type": "commands", "commands": [{"type": "cancel"}, {"type": "submit", "prompt": "two"}]}
            )
            state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
            assert [text for text, _ in texts(state)] == ["one", "two"]

    run(work())


def test_what_a_stopped_server_left_is_answered_in_order_and_a_new_prompt_comes_last(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)

    async def before() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="one")
            await client.until(waits)
            for prompt in ("two", "three"):
                await client.command("submit", prompt=prompt)
            await client.until(lambda state: len(state["followUps"]) == 2)
            await client.command("cancel")
            await client.until(is_done)

    async def after() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            state = await client.until(lambda state: state["runs"])
            assert queued(state) == ["two", "three"]
            await client.command("submit", prompt="new")
            state = await client.until(lambda state: len(state["runs"]) == 4 and is_done(state))
            assert [text for text, _ in texts(state)] == ["one", "two", "three", "new"]

    with live.serving_now():
        session = live.create(model=live.script([CALL]))["id"]
        run(before())
    live.script("Answer.")
    with live.serving_now():
        run(after())


def test_a_prompt_waits_beside_a_call_that_a_server_left_waiting(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)

    async def ask() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="one")
            await client.until(waits)

    async def answer() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.until(waits)
            await client.command("submit", prompt="afterwards")
            state = await client.until(queued)
            assert waits(state)
            await client.command("continue")
            assert "waiting for an answer" in (await client.until_error())["message"]
            await client.command("approve", relayId=state["relays"][0]["id"])
            state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
            assert state["relays"][0]["status"] == "approved"
            assert [one["content"] for one in state["messages"][-2:]] == ["afterwards", "One."]

    with live.serving_now():
        session = live.create(model=live.script([CALL]))["id"]
        run(ask())
    live.script("One.")
    with live.serving_now():
        run(answer())


def test_what_waits_is_listed_first_and_known_after_a_restart_without_being_opened(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)

    async def ask(session: str) -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="one")
            await client.until(waits)

    def listed() -> list[tuple[str, bool]]:
        with live.http() as http:
            return [(one["title"], one["waits"]) for one in http.get("/api/sessions").json()["sessions"]]

    question = {"type": "tool_call", "id": "q", "name": "ask_user", "input": {"question": "Which?"}}
    with live.serving_now():
        for title, asks in (("a call", CALL), ("a question", question)):
            run(ask(live.create(model=live.script([asks], name=f"{title}.json"), title=title)["id"]))
        for number in range(3):
            live.create(model=live.script("x"), title=f"idle {number}")
        asking = {("a question", True), ("a call", True)}
        idle = [("idle 2", False), ("idle 1", False), ("idle 0", False)]
        found = listed()
        assert (set(found[:2]), found[2:]) == (asking, idle)
    with live.serving_now():
        found = listed()
        assert (set(found[:2]), found[2:]) == (asking, idle)
    for metadata in live.store.find(Query(active=True)):  # as who was killed the moment that he asked
        metadata.activity = "running"
        live.store.save_metadata(metadata)
    with live.serving_now():
        found = listed()
        assert (set(found[:2]), found[2:]) == (asking, idle)


def test_an_approved_plan_leads_to_the_next_mode_and_another_model_does_not_lead_back(
    live: LiveServer,
) -> None:
    async def work() -> None:
        plan = {"type": "tool_call", "id": "p", "name": "submit_plan", "input": {"plan": "1. Do it"}}
        session = live.create(model=live.script([plan]), mode="plan")
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="plan it")
            state = await client.until(waits)
            await client.command("submit", prompt="begin")
            await other_answers(client, live, "Begun.")
            await client.until(queued)
            await client.command("approve", relayId=state["relays"][0]["id"])
            state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
            assert (state["mode"], state["messages"][-1]["content"]) == ("build", "Begun.")
            await other_answers(client, live, "Again.")
            await client.command("submit", prompt="again")
            state = await client.until(lambda state: len(state["runs"]) == 3 and is_done(state))
            assert (state["mode"], state["messages"][-1]["content"]) == ("build", "Again.")

    run(work())


@pytest.mark.parametrize("is_approved", [True, False])
def test_the_work_begins_when_a_plan_is_approved(live: LiveServer, is_approved: bool) -> None:
    async def work() -> None:
        plan = {"type": "tool_call", "id": "p", "name": "submit_plan", "input": {"plan": "1. Do it"}}
        path = live.folder / "planned.json"
        done = [{"type": "text", "content": "Done, or changed."}]
        path.write_text(
            json.dumps({"goes_by": "conversation", "responses": [{"events": [plan]}, {"events": done}]})
        )
        session = live.create(model=f"scripted/{path}", mode="plan")
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="plan it")
            state = await client.until(waits)
            relay_id = state["relays"][0]["id"]
            if is_approved:
                await client.command("approve", relayId=relay_id)
            else:
                await client.command("deny", relayId=relay_id, reason="shorter")
            state = await client.until(
                lambda state: is_done(state) and state["messages"][-1]["content"] == "Done, or changed."
            )
            assert (state["mode"] == "build") is is_approved
            assert len(state["runs"]) == (2 if is_approved else 1)

    run(work())


def test_what_is_refused_on_a_fresh_socket_makes_no_session(live: LiveServer) -> None:
    attachment = {"mediaType": "image/png", "data": "not base64!"}
    refused: list[dict[str, Any]] = [
        {"type": "submit", "prompt": "  \n"},
        {"type": "submit", "prompt": "look", "attachments": [attachment]},
        {"type": "resume", "prompt": " ", "sessionId": ""},
        {"type": "resume", "prompt": "go on", "sessionId": "no-such-session"},
        {"type": "configure", "config": {"agent": "nobody"}},
        {"type": "configure", "config": {"cwd": "/no/such/place"}},
        {"type": "continue"},
        {"type": "steer", "message": "x"},
        {"type": "approve", "relayId": "x"},
        {"type": "answer", "relayId": "x", "answer": 1},
        {"type": "withdraw", "followUpId": "x"},
        {"type": "rename", "title": "x"},
    ]

    async def work() -> None:
        async with live.connect() as socket:
            client = Watcher(socket)
            for number, command in enumerate(refused):
                await client.send({"type": "commands", "commands": [{**command, "id": str(number)}]})
                assert (await client.until_error())["commandId"] == str(number)
            with live.http() as http:
                assert http.get("/api/sessions").json()["total"] == 0
                for body in ({"prompt": " "}, {"prompt": "x", "agent": "nobody"}):
                    assert http.post("/api/sessions", json=body).status_code == 400
                assert http.get("/api/sessions").json()["total"] == 0
            await client.command("configure", config={"model": live.script("Hello.")})
            await client.command("submit", prompt="and now?")
            assert (await client.until(is_done))["messages"][-1]["content"] == "Hello."

    run(work())
