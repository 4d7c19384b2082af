"""Several servers on one PostgreSQL: a client may connect to any of them, and one that dies is replaced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import postgres_server
from harness.clients.client import PlainClient
from harness.clients.conversations.backend import Backend, Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.clients.conversations.shared_backend import SharedBackend, open_backend
from harness.events import Message, SessionStart
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Store
from harness.log.stores.postgres.commands import TakenCommand
from harness.log.stores.postgres.store import PostgresStore
from live_server import TIMEOUT_S, LiveServer, Watcher, is_done, run, waits
from serve_program import serve_program

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: psycopg is not installed")

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "/bin/echo from the shell"}}
SLOW = {"type": "tool_call", "name": "bash", "input": {"command": "sleep 60"}}
QUESTION = {"type": "tool_call", "name": "ask_user", "input": {"question": "Which one?"}}


@pytest.fixture
def url() -> str:
    return postgres_server.url()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


def letting_go(store: Store, default: Setup) -> Backend:
    assert isinstance(store, PostgresStore)
    return SharedBackend(LocalBackend(store, default, is_shared=True, idle_s=0), store)


def impatient(store: Store, default: Setup) -> Backend:
    assert isinstance(store, PostgresStore)
    return SharedBackend(LocalBackend(store, default, is_shared=True), store, taken_within_s=1.5)


def commands_in(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT key, command, taken_by, result FROM harness_commands").fetchall()


def until_asked(url: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not commands_in(url):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def is_going_on(state: dict[str, Any]) -> bool:
    return bool(state["runs"]) and state["status"] == "running" and state["capabilities"]["cancel"]


def calls(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [call for message in state["messages"] for call in message.get("toolCalls", ())]


def test_what_one_server_runs_is_watched_on_another_which_takes_over_when_it_dies(
    tmp_path: Path, url: str, store: PostgresStore
) -> None:
    async def work() -> None:
        events = [{"type": "text", "content": "word " * 60, "pieces": 60}, CALL]
        model = here.script(events, "After all.", pause_ms=20)
        with serve_program(tmp_path, "--store", url) as other:
            session = other.create(model=model, prompt="go")
            async with here.connect(session) as socket:
                client = Watcher(socket)
                state = await client.until(waits)
                texts = [one for one in client.messages if "word" in str(one)]
                assert len(texts) > 5  # piece by piece, not at the end
                assert state["isLive"] is True
                other.kill()
                here.script("After all.", name="script.json")  # a script starts again with its server
                state = await client.until(lambda state: state["runs"][0]["status"] == "suspended")
                state = await client.until(lambda state: not state["isLive"])
                assert state["capabilities"]["answer"] is True
                assert state["relays"][0]["status"] == "pending"
                await client.command("approve", relayId=state["relays"][0]["id"])
                state = await client.until(is_done)
                assert state["runs"][0]["status"] == "completed"
                assert "from the shell" in state["messages"][1]["toolCalls"][0]["output"]
                assert state["messages"][1]["content"].endswith("After all.")
                await client.command("submit", prompt="again")
                state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))

    here = LiveServer(tmp_path, store)
    with here.serving_now(open_backend):
        run(work())


def test_every_command_reaches_the_server_that_runs_the_conversation(
    tmp_path: Path, url: str, store: PostgresStore
) -> None:
    async def work() -> None:
        model = here.script([CALL], [QUESTION], "Heard it all.", [SLOW], "Well then.")
        script = json.loads((tmp_path / "script.json").read_text())
        (tmp_path / "script.json").write_text(json.dumps({**script, "goes_by": "conversation"}))
        with serve_program(tmp_path, "--store", url) as other:
            session = other.create(model=model, prompt="go")
            async with here.connect(session) as socket:
                client = Watcher(socket)
                state = await client.until(waits)
                capabilities = state["capabilities"]
                assert {name for name, can in capabilities.items() if can} == {
                    "submit",
                    "steer",
                    "answer",
                    "cancel",
                }
                await client.command("steer", message="and hurry")
                await client.command("submit", prompt="next")
                await client.command("submit", prompt="never mind")
                state = await client.until(lambda state: len(state["followUps"]) == 2)
                await client.command("withdraw", followUpId=state["followUps"][1]["id"])
                await client.until(lambda state: len(state["followUps"]) == 1)
                await client.command("approve", relayId=state["relays"][0]["id"])
                state = await client.until(lambda state: len(state["relays"]) == 2 and waits(state))
                await client.command("answer", relayId=state["relays"][1]["id"], answer="The second.")
                state = await client.until(lambda state: len(state["runs"]) == 2 and waits(state))
                said = [
                    one["content"]
                    for one in state["messages"]
                    if (one["role"], one["status"]) == ("user", "complete")
                ]
                assert said == ["go", "and hurry", "next"]
                outputs = [call["output"] for call in calls(state)]
                assert "from the shell" in outputs[0]
                assert "The second." in outputs[1]
                await client.command("deny", relayId=state["relays"][2]["id"], reason="too slow")
                state = await client.until(is_done)
                assert state["relays"][2]["reason"] == "too slow"
        assert commands_in(url) == []

    here = LiveServer(tmp_path, store)
    with here.serving_now(open_backend):
        run(work())


def test_a_run_elsewhere_is_stopped_configured_and_renamed_and_then_deleted_from_here(
    tmp_path: Path, url: str, store: PostgresStore
) -> None:
    async def work() -> None:
        model = here.script([SLOW], [SLOW], "Said.")
        with serve_program(tmp_path, "--store", url) as other:
            session = other.create(model=model, prompt="go", permissionMode="fullAuto")
            async with here.connect(session) as socket:
                client = Watcher(socket)
                await client.until(lambda state: is_going_on(state) and calls(state))
                await client.command("submit", prompt="later")
                await client.until(lambda state: len(state["followUps"]) == 1)
                await client.command("cancel")
                state = await client.until(is_done)
                assert state["runs"][0]["status"] == "interrupted"
                await client.command("continue")
                await client.until(
                    lambda state: len(state["runs"]) == 2 and is_going_on(state) and len(calls(state)) == 2
                )
                await client.command("submit", prompt="never")
                await client.until(lambda state: len(state["followUps"]) == 1)
                await client.command("cancel", queue="clear")
                state = await client.until(is_done)
                assert state["followUps"] == []
                config = {"mode": "plan", "permissionMode": "readOnly"}
                await client.command("configure", config=config)
                await client.until(lambda state: state["mode"] == "plan")
                with here.http() as http:
                    named = http.patch(f"/api/sessions/{session}", json={"title": "Mine"}).json()
                    assert (named["title"], named["permissionMode"]) == ("Mine", "readOnly")
                    state = await client.until(lambda state: state["title"] == "Mine")
                    await client.command("withdraw", followUpId="nothing", id="w")
                    error = await client.until_error()
                    assert error["message"].startswith("no such prompt is queued")
                    assert error["commandId"] == "w"
                    await client.command("configure", config={"agent": "nobody"})
                    assert "unknown agent: nobody" in (await client.until_error())["message"]
                    commands = [{"type": "steer", "message": "x"}]
                    refused = http.post(f"/api/sessions/{session}/commands", json={"commands": commands})
                    assert (refused.status_code, refused.json()["error"]["message"]) == (
                        400,
                        "nothing is running",
                    )
                    assert http.delete(f"/api/sessions/{session}").status_code == 204
                    assert http.get(f"/api/sessions/{session}").status_code == 404
        assert commands_in(url) == []

    here = LiveServer(tmp_path, store)
    with here.serving_now(open_backend):
        run(work())


def test_of_two_simultaneous_answers_the_first_counts_and_the_other_is_refused(
    tmp_path: Path, url: str, store: PostgresStore
) -> None:
    async def work() -> None:
        model = here.script([CALL], "Done.")
        with serve_program(tmp_path, "--store", url) as other:
            session = other.create(model=model, prompt="go")
            async with here.connect(session) as near, other.connect(session) as far:
                clients = [Watcher(near), Watcher(far)]
                for client in clients:
                    await client.until(waits)
                relay = clients[0].state["relays"][0]["id"]
                await asyncio.gather(
                    clients[0].command("approve", relayId=relay),
                    clients[1].command("deny", relayId=relay, reason="no"),
                )
                for client in clients:
                    await client.until(is_done)
                shown_text = [await _refusals(client) for client in clients]
                assert sorted(map(len, shown_text)) == [0, 1]
                assert "the first answer counts" in next(filter(None, shown_text))[0]
                statuses = {client.state["relays"][0]["status"] for client in clients}
                assert statuses == ({"approved"} if not shown_text[0] else {"denied"})

    here = LiveServer(tmp_path, store)
    with here.serving_now(open_backend):
        run(work())


async def _refusals(client: Watcher) -> list[str]:
    """All errors that it was sent; a command that fails marks the end of what came before."""
    await client.command("withdraw", followUpId="nothing", id="the end")
    while (await client.until_error()).get("commandId") != "the end":
        pass
    return [
        one["message"]
        for one in client.messages
        if one["type"] == "error" and one.get("commandId") != "the end"
    ]


def test_what_a_server_did_not_take_before_it_died_is_carried_out_by_the_one_that_asked(
    tmp_path: Path, url: str, store: PostgresStore
) -> None:
    async def work() -> None:
        model = here.script([CALL], "Never said.")
        with serve_program(tmp_path, "--store", url) as other:
            session = other.create(model=model, prompt="go")
            async with here.connect(session) as socket:
                client = Watcher(socket)
                state = await client.until(waits)
                os.kill(other.pid, signal.SIGSTOP)  # it has the conversation, and takes nothing
                await client.command("submit", prompt="and then")
                await asyncio.to_thread(until_asked, url)
                here.script("Said.", name="script.json")  # a script starts again with its server
                other.kill()
                await client.until(lambda state: len(state["followUps"]) == 1)
                await client.command("approve", relayId=state["relays"][0]["id"])
                state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
                said = [(one["role"], one["content"]) for one in state["messages"]]
                assert said == [
                    ("user", "go"),
                    ("assistant", "Said."),
                    ("user", "and then"),
                    ("assistant", "Said."),
                ]
                await client.command("steer", message="too late")
                assert "nothing is running" in (await client.until_error())["message"]
        assert commands_in(url) == []

    here = LiveServer(tmp_path, store)
    with here.serving_now(open_backend):
        run(work())


class Holder:
    """Another process that has a conversation, as the database sees it: with connections of its own."""

    def __init__(self, url: str, log_id: str) -> None:
        self.store = PostgresStore(url)
        self.hub = Hub(self.store, log_id, self.store.open(log_id))

    def take(self) -> TakenCommand:
        """The next command; it is never answered."""
        while not (taken := self.store.commands.take()):
            time.sleep(0.01)
        return taken[0]

    def die(self) -> None:
        with psycopg.connect(self.store._writing._url, autocommit=True) as connection:
            with self.store._writing.use() as own:
                process_id = own.info.backend_pid
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (process_id,))


@pytest.fixture
def finished(tmp_path: Path, store: PostgresStore) -> Iterator[tuple[LiveServer, str]]:
    """A server, and a conversation that no server has loaded."""
    here = LiveServer(tmp_path, store)
    with here.serving_now(impatient):
        session = here.create(model=here.script("Said."), prompt="go")["id"]
        with PlainClient(here.url, token=here.access.token, session=session) as client:
            client.until(is_done, TIMEOUT_S)
        assert here.application is not None
        assert here.application.channels is not None
        channels = here.application.channels
        asyncio.run_coroutine_threadsafe(channels.backend.unload(session), channels.loop).result(TIMEOUT_S)
        yield here, session


@pytest.mark.parametrize("was_done", [False, True], ids=["not done", "done"])
def test_what_a_server_took_before_it_died_is_carried_out_once(
    url: str, finished: tuple[LiveServer, str], was_done: bool
) -> None:
    here, session = finished
    holder = Holder(url, session)
    commands = {"commands": [{"type": "submit", "prompt": "once"}]}
    with here.http() as http, ThreadPoolExecutor() as pool:
        answer = pool.submit(http.post, f"/api/sessions/{session}/commands", json=commands)
        assert b"once" in holder.take().command
        if was_done:
            run_id = new_run_id(time.time_ns() // 1_000_000)
            source = holder.hub.source(run_id)
            source.append([SessionStart(agent="native"), Message(role="user", text="once")])
        holder.die()
        assert answer.result(TIMEOUT_S).status_code == 202
    with PlainClient(here.url, token=here.access.token, session=session) as client:
        state = client.until(lambda state: len(state["runs"]) == 2 and is_done(state), TIMEOUT_S)
    said = [one["content"] for one in state["messages"] if one["role"] == "user"]
    assert said == ["go", "once"]
    assert state["runs"][1]["status"] == ("interrupted" if was_done else "completed")
    assert commands_in(url) == []
    holder.store.close()


def test_a_command_that_is_not_taken_is_withdrawn_and_the_client_gets_an_error(
    url: str, finished: tuple[LiveServer, str]
) -> None:
    here, session = finished
    holder = Holder(url, session)
    commands = {"commands": [{"type": "submit", "prompt": "to nobody"}]}
    with here.http() as http:
        refused = http.post(f"/api/sessions/{session}/commands", json=commands)
    assert (refused.status_code, commands_in(url)) == (409, [])
    assert "does not take commands: nothing was done" in refused.json()["error"]["message"]
    assert holder.store.commands.take() == []
    holder.hub.close()
    holder.store.close()


def test_a_conversation_in_which_nothing_happens_is_anybodys_though_it_is_watched(
    tmp_path: Path, url: str, store: PostgresStore
) -> None:
    async def work() -> None:
        model = one.script("First.", "Second.")
        session = one.create(model=model)["id"]
        async with one.connect(session) as here, two.connect(session) as there:
            first, second = Watcher(here), Watcher(there)
            await first.command("submit", prompt="one")
            await first.until(is_done)
            assert one.application is not None
            assert one.application.channels is not None
            channels = one.application.channels
            while store.is_live(session):  # what comes after a run may still go on
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(channels.sweep(), channels.loop))
            await second.command("submit", prompt="two")
            for client in (first, second):
                state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
                said = [message["content"] for message in state["messages"]]
                assert said[:3] == ["one", "First.", "two"]

    (tmp_path / "two").mkdir()
    one, two = LiveServer(tmp_path, store), LiveServer(tmp_path / "two", PostgresStore(url))
    with one.serving_now(letting_go), two.serving_now(letting_go):
        run(work())
    assert isinstance(two.store, PostgresStore)
    two.store.close()


def test_a_server_whose_connection_broke_asks_the_one_that_took_over(
    tmp_path: Path, url: str, store: PostgresStore
) -> None:
    """Neither of them writes what is in no log."""

    async def work() -> None:
        model = one.script("First.", "Second.", "Third.")
        session = one.create(model=model)["id"]
        async with one.connect(session) as here, two.connect(session) as there:
            first, second = Watcher(here), Watcher(there)
            await first.command("submit", prompt="one")
            await first.until(is_done)
            assert store.is_live(session)
            with store._writing.use() as own, psycopg.connect(url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", (own.info.backend_pid,))
            await second.command("submit", prompt="two")
            await second.until(lambda state: len(state["runs"]) == 2 and is_done(state))
            await first.command("submit", prompt="three")
            for client in (first, second):
                state = await client.until(lambda state: len(state["runs"]) == 3 and is_done(state))
                said = [message["content"] for message in state["messages"] if message["role"] == "user"]
                assert said == ["one", "two", "three"]
        assert two.application is not None
        assert two.application.channels is not None
        assert two.application.channels.backend.hub(session) is not None

    (tmp_path / "two").mkdir()
    one, two = LiveServer(tmp_path, store), LiveServer(tmp_path / "two", PostgresStore(url))
    with one.serving_now(open_backend), two.serving_now(open_backend):
        run(work())
    assert isinstance(two.store, PostgresStore)
    two.store.close()


def test_a_session_that_another_server_only_has_loaded_can_be_continued_here(
    tmp_path: Path, url: str, store: PostgresStore
) -> None:
    here = LiveServer(tmp_path, store)
    with here.serving_now(open_backend), serve_program(tmp_path, "--store", url) as other:
        session = other.create(model=here.script("First."), prompt="one")
        with PlainClient(here.url, token=here.access.token, session=session) as client:
            client.until(is_done, TIMEOUT_S)
        assert store.is_live(session)
        forked = here.create(continues=session, model=here.script("Second."), prompt="two")
        with PlainClient(here.url, token=here.access.token, session=forked["id"]) as client:
            state = client.until(lambda state: len(state["runs"]) == 2 and is_done(state), TIMEOUT_S)
        assert [one["content"] for one in state["messages"]] == ["one", "First.", "two", "Second."]
