"""Conversations that continue another session, and sub-agents within a conversation."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from harness.clients.conversations.backend import Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.events import Message, Result, SessionStart, Signal
from harness.log.hub import Hub
from harness.log.store import Metadata, Store, read_all
from live_server import LiveServer, Watcher, is_done, run, waits

BASH = {"type": "tool_call", "name": "bash", "input": {"command": "/bin/echo from below"}}


def delegated() -> list[dict[str, Any]]:
    return [{"type": "tool_call", "name": "agent", "input": {"task": "look at it", "name": "general"}}]


def finished(live: LiveServer) -> str:
    """The record of a run of another program."""
    writer = live.store.create(Metadata(session_id="before", agent_name="claude"))
    hub = Hub(live.store, "before", writer)
    hub.source("before").append(
        [
            SessionStart(agent="claude", session_id="theirs"),
            Message(role="user", text="remember 42"),
            Message(role="assistant", text="I shall."),
            Result(success=True),
        ]
    )
    hub.close()
    return "before"


def texts(state: dict[str, Any]) -> list[str]:
    return [message["content"] for message in state["messages"]]


def two_runs(state: dict[str, Any]) -> bool:
    return len(state["runs"]) == 2 and is_done(state)


def test_resume_with_its_own_id_or_none_is_a_prompt(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script("One.", "Two."))["id"]
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.command("resume", prompt="a", sessionId=session)
            await client.until(is_done)
            await client.command("resume", prompt="b")
            assert texts(await client.until(two_runs))[::2] == ["a", "b"]

    run(work())


def test_a_conversation_that_is_empty_resumes_a_finished_session_and_all_who_watch_see_it(
    live: LiveServer,
) -> None:
    async def work() -> None:
        before = finished(live)
        session = live.create(agent="native", model=live.script("42."))["id"]
        async with live.connect(session) as one, live.connect(session) as two:
            first, second = Watcher(one), Watcher(two)
            await first.receive()
            await second.receive()
            await first.command("resume", prompt="what was it?", sessionId=before)
            for client in (first, second):
                state = await client.until(two_runs)
                assert texts(state) == ["remember 42", "I shall.", "what was it?", "42."]
                assert (state["sessionId"], state["capabilities"]["submit"]) == (session, True)
            assert first.state == second.state
            await second.command("resume", prompt="again", sessionId=before, id="late")
            error = await second.until_error()
            assert (error["commandId"], "has messages already" in error["message"]) == ("late", True)
        fork = live.store.metadata(session).fork
        assert fork is not None
        assert fork.log_id == before

    run(work())


def test_a_socket_without_a_session_may_begin_with_another_ones_history(live: LiveServer) -> None:
    async def work() -> None:
        async with live.connect() as socket:
            client = Watcher(socket)
            await client.command("resume", prompt="x", sessionId="nobody")
            assert "nobody" in (await client.until_error())["message"]
            await client.command("configure", config={"agent": "native", "model": live.script("42.")})
            await client.command("resume", prompt="what was it?", sessionId=finished(live))
            assert texts(await client.until(two_runs))[-2:] == ["what was it?", "42."]

    run(work())


def test_a_model_is_only_ever_that_of_the_same_agent(live: LiveServer) -> None:
    def speaking(store: Store, default: Setup) -> LocalBackend:
        return LocalBackend(store, replace(default, model=live.script("Mine.")))

    session = finished(live)
    metadata = live.store.metadata(session)
    metadata.model = "opus"
    live.store.save_metadata(metadata)
    other = LiveServer(live.folder, live.store)
    with other.serving_now(speaking):
        assert other.create(agent="claude")["model"] == ""
        assert other.create(continues=session)["model"] == "opus"
        assert other.create(continues=session, agent="native")["model"].startswith("scripted/")
        mine = other.create()
        command = {"type": "configure", "config": {"agent": "claude"}}
        with other.http() as http:
            place = f"/api/sessions/{mine['id']}"
            assert http.post(f"{place}/commands", json={"commands": [command]}).status_code == 202
            now = http.get(place).json()
        assert (mine["model"].startswith("scripted/"), now["agentName"], now["model"]) == (True, "claude", "")


def test_a_running_session_cannot_be_resumed_and_nothing_is_lost(live: LiveServer) -> None:
    async def work() -> None:
        running = live.create(model=live.script([BASH], "Done."), prompt="go")["id"]
        empty = live.create(model=live.script("Fine.", name="other.json"))["id"]
        async with live.connect(empty) as socket:
            client = Watcher(socket)
            await client.command("resume", prompt="x", sessionId=running)
            assert "still being written" in (await client.until_error())["message"]
            await client.command("submit", prompt="y")
            assert texts(await client.until(is_done)) == ["y", "Fine."]

    run(work())


def test_a_finished_conversation_that_is_still_loaded_can_be_resumed(live: LiveServer) -> None:
    async def work() -> None:
        before = live.create(model=live.script("I shall."))["id"]
        async with live.connect(before) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="remember 42")
            await client.until(is_done)
        empty = live.create(model=live.script("42.", name="other.json"))["id"]
        async with live.connect(empty) as socket:
            client = Watcher(socket)
            await client.command("resume", prompt="what was it?", sessionId=before)
            assert texts(await client.until(two_runs)) == ["remember 42", "I shall.", "what was it?", "42."]

    run(work())


def test_the_messages_and_calls_of_a_sub_agent_are_nested_in_its_call(live: LiveServer) -> None:
    async def work() -> None:
        model = live.script(delegated(), "All is well.", lanes={"look at it": ([BASH], "It is fine.")})
        session = live.create(model=model)["id"]
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            for count, name in ((1, "agent"), (2, "bash")):
                state = await client.until(
                    lambda state, count=count: len(state["relays"]) == count and waits(state)  # type: ignore[misc]
                )
                assert state["relays"][-1]["toolName"] == name
                await client.command("approve", relayId=state["relays"][-1]["id"])
            state = await client.until(is_done)
        assert texts(state) == ["go", "All is well."]
        call = state["messages"][1]["toolCalls"][0]
        assert (call["name"], call["status"], call["output"]) == ("agent", "complete", "It is fine.")
        task, answer = call["messages"]
        assert (task["role"], task["content"]) == ("user", "look at it")
        assert (answer["content"], answer["status"]) == ("It is fine.", "complete")
        assert "from below" in answer["toolCalls"][0]["output"]
        assert [one["parentCallId"] for one in state["runs"]] == ["", call["id"]]

    run(work())


def test_a_sub_agent_is_no_way_around_what_is_denied_or_planned(live: LiveServer) -> None:
    async def work() -> None:
        live.folder.joinpath("kept").write_text("as it was")
        destroy = {"type": "tool_call", "name": "bash", "input": {"command": "echo gone > kept"}}
        for number, wanted in enumerate(({"permissionMode": "readOnly"}, {"mode": "plan"})):
            below = {"look at it": ([destroy], "Below.")}
            model = live.script(delegated(), "Above.", name=f"{number}.json", lanes=below)
            session = live.create(model=model, **wanted)["id"]
            async with live.connect(session) as socket:
                client = Watcher(socket)
                await client.command("submit", prompt="go")
                state = await client.until(is_done)
            assert texts(state) == ["go", "Above."]
            assert live.folder.joinpath("kept").read_text() == "as it was"

    run(work())


def test_the_task_list_is_shown_and_is_no_notice(live: LiveServer) -> None:
    async def work() -> None:
        tasks = [{"content": "one", "status": "in_progress", "activeForm": "doing one"}]
        write = {"type": "tool_call", "name": "todo", "input": {"todos": tasks}}
        session = live.create(model=live.script([write], "Written.", "Again."))["id"]
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            await client.until(is_done)
            await client.command("submit", prompt="more")
            state = await client.until(two_runs)
        assert [task["text"] for task in state["tasks"]] == ["one"]
        parts = [part["type"] for message in state["messages"] for part in message["parts"]]
        assert "notice" not in parts
        assert not any(
            isinstance(event, Signal) for event in read_all(live.store, session)
        )  # its call has it

    run(work())
