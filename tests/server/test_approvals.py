"""What a client may answer, what an answer grants, and how that is taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from live_server import LiveServer, Watcher, is_done, run, waits


def bash(command: str, id: str) -> dict[str, Any]:
    return {"type": "tool_call", "name": "bash", "id": id, "input": {"command": command}}


def scripted(live: LiveServer, *responses: Any, lanes: dict[str, tuple[Any, ...]] | None = None) -> str:
    """A model whose script follows the conversation; `lanes`: by a word of the first message."""

    def shown_text(given: tuple[Any, ...]) -> list[Any]:
        texts = [[{"type": "text", "content": one}] if isinstance(one, str) else one for one in given]
        return [{"events": one} for one in texts]

    path = live.folder / "going_on.json"
    other = [{"marker": marker, "responses": shown_text(given)} for marker, given in (lanes or {}).items()]
    path.write_text(
        json.dumps({"goes_by": "conversation", "responses": shown_text(responses), "lanes": other})
    )
    return f"scripted/{path}"


def pending(state: dict[str, Any]) -> dict[str, Any]:
    (relay,) = [relay for relay in state["relays"] if relay["status"] == "pending"]
    return dict(relay)


async def next_question(client: Watcher, count: int) -> dict[str, Any]:
    state = await client.until(lambda state: len(state["relays"]) == count and waits(state))
    return pending(state)


def test_always_under_one_command_allows_that_command_and_no_other(live: LiveServer, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("x")

    async def work() -> None:
        model = live.script(
            [bash("/bin/echo one", "a")],
            [bash("/bin/echo one", "b")],
            [bash(f"rm {victim}", "c")],
            [bash(f"/bin/echo one; rm {victim}", "d")],
            "Done.",
        )
        session = live.create(model=model)
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            relay = await next_question(client, 1)
            once, always, reject = relay["options"]
            assert [one["kind"] for one in (once, always, reject)] == [
                "allow-once",
                "allow-always",
                "reject-once",
            ]
            assert always["label"] == "Always allow exactly: /bin/echo one"
            assert always["grants"] == [{"tool": "bash", "command": "/bin/echo one"}]
            await client.command("approve", relayId=relay["id"], always=True)
            second = await next_question(client, 2)
            assert second["input"]["command"] == f"rm {victim}"
            state = await client.until(lambda state: state["grants"])
            assert state["grants"] == [{"id": "grant-1", "label": "exactly: /bin/echo one"}]
            await client.command("deny", relayId=second["id"])
            third = await next_question(client, 3)
            assert third["input"]["command"] == f"/bin/echo one; rm {victim}"
            assert [one["id"] for one in third["options"]] == ["once", "always", "reject"]
            await client.command("deny", relayId=third["id"])
            await client.until(is_done)
            assert victim.exists()
            await client.command("revoke", grantId="nothing")
            assert "no such grant" in (await client.until_error())["message"]
            await client.command("revoke", grantId="grant-1")
            await client.until(lambda state: state["grants"] == [])

    run(work())


def test_an_option_of_the_relay_grants_what_it_shows(live: LiveServer) -> None:
    async def work() -> None:
        model = live.script(
            [bash("git add one", "a")], [bash("git add two", "b")], [bash("git add x > y", "c")], "Done."
        )
        session = live.create(model=model)
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            relay = await next_question(client, 1)
            await client.command("approve", relayId=relay["id"], optionId="everything")
            assert "unknown choice" in (await client.until_error())["message"]
            await client.command("approve", relayId=relay["id"], optionId="pattern")
            second = await next_question(client, 2)
            assert second["input"]["command"] == "git add x > y"
            await client.command("deny", relayId=second["id"])
            state = await client.until(is_done)
            assert state["relays"][0]["choice"] == "pattern"

    run(work())


def test_an_answer_is_no_permission_and_names_its_relay(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([bash("/bin/echo one", "a")], "Done."))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            relay = await next_question(client, 1)
            await client.command("answer", relayId=relay["id"], answer="yes")
            assert "permission" in (await client.until_error())["message"]
            for wrong in (
                {},
                {"toolCallId": ""},
                {"relayId": ""},
                {"relayId": "x", "toolCallId": relay["callId"]},
            ):
                await client.command("approve", **wrong)
                assert "no question with this id" in (await client.until_error())["message"]
            assert pending(client.state)["id"] == relay["id"]
            await client.command("deny", relayId=relay["id"])
            await client.until(is_done)

    run(work())


@pytest.mark.parametrize("answer", [None, 5, {}, {"a": [1, None]}, [1], True])
def test_what_does_not_fit_a_question_is_an_error_and_it_waits_on(live: LiveServer, answer: Any) -> None:
    async def work() -> None:
        ask = {"type": "tool_call", "name": "ask_user", "id": "q", "input": {"question": "Which?"}}
        session = live.create(model=scripted(live, [ask], "Done."))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            relay = await next_question(client, 1)
            await client.command("answer", relayId=relay["id"], answer=answer)
            assert "Invalid answer" in (await client.until_error())["message"]
            assert pending(client.state)["id"] == relay["id"]
            await client.command("answer", relayId=relay["id"], answer="this one")
            state = await client.until(is_done)
            assert "this one" in json.dumps(state)

    run(work())


def test_a_sub_agent_asks_in_the_same_conversation_and_the_state_names_it(live: LiveServer) -> None:
    async def work() -> None:
        spawn = {
            "type": "tool_call",
            "name": "agent",
            "id": "s",
            "input": {"name": "general", "task": "LOOK"},
        }
        inside = ([bash("/bin/echo inside", "b")], "Inside.")
        session = live.create(model=scripted(live, [spawn], "Done.", lanes={"LOOK": inside}))
        async with live.connect(session["id"]) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="go")
            first = await next_question(client, 1)
            assert (first["toolName"], first["subagent"], first["category"]) == ("agent", "", "edit")
            await client.command("approve", relayId=first["id"])
            second = await next_question(client, 2)
            assert (second["toolName"], second["subagent"]) == ("bash", "general")
            assert second["parentCallId"] == first["callId"]
            await client.command("deny", relayId=second["id"])
            await client.until(is_done)

    run(work())
