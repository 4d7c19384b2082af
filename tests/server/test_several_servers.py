"""Several servers on one PostgreSQL: a client may connect to any of them, and one that dies is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_program import serve_program
from serving_world import ServingWorld, Watcher, is_done, run, waits

import postgres_server
from harness.interfaces.server.conversations import Conversations
from harness.interfaces.server.desk import Desk, Setup
from harness.log.store import Store
from harness.log.stores.postgres import PostgresStore
from harness.rendering.state.shapes import CAPABILITIES

pytest.importorskip("psycopg", reason="no PostgreSQL: psycopg is not installed")

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "echo from the shell"}}


@pytest.fixture
def url() -> str:
    return postgres_server.url()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


def letting_go(store: Store, default: Setup) -> Desk:
    return Conversations(store, default, is_shared=True, idle_s=0)


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
                assert state["capabilities"] == dict.fromkeys(CAPABILITIES, False)
                for command in ({"type": "submit", "prompt": "me too"}, {"type": "cancel"}):
                    await client.command(**command)
                    error = await client.until_error()
                    assert f"being written by process {other.pid} on " in error["message"]
                other.kill()
                here.script("After all.", name="script.json")  # a script begins anew with its server
                state = await client.until(lambda state: state["runs"][0]["status"] == "suspended")
                assert (state["capabilities"]["answer"], state["isLive"]) == (True, False)
                assert state["relays"][0]["status"] == "pending"
                await client.command("approve", relayId=state["relays"][0]["id"])
                state = await client.until(is_done)
                assert state["runs"][0]["status"] == "completed"
                assert "from the shell" in state["messages"][1]["toolCalls"][0]["output"]
                assert state["messages"][1]["content"].endswith("After all.")
                await client.command("submit", prompt="again")
                state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))

    here = ServingWorld(tmp_path, store)
    with here.serving_now():
        run(work())


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
            assert one.server is not None
            assert one.server.rooms is not None
            rooms = one.server.rooms
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(rooms.sweep(), rooms.loop))
            await second.until(lambda state: state["capabilities"]["submit"])
            await second.command("submit", prompt="two")
            for client in (first, second):
                state = await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
                said = [message["content"] for message in state["messages"]]
                assert said[:3] == ["one", "First.", "two"]

    (tmp_path / "two").mkdir()
    one, two = ServingWorld(tmp_path, store), ServingWorld(tmp_path / "two", PostgresStore(url))
    with one.serving_now(letting_go), two.serving_now(letting_go):
        run(work())
    assert isinstance(two.store, PostgresStore)
    two.store.close()
