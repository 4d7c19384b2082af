"""A new conversation that continues what came before a message."""

from __future__ import annotations

from typing import Any

from harness.clients.client import PlainClient
from harness.log.store import read_all
from live_server import TIMEOUT_S, LiveServer, Watcher, is_done, run


def texts(state: dict[str, Any]) -> list[str]:
    return [message["content"] for message in state["messages"] if message["status"] == "complete"]


def ended(live: LiveServer, session: str, runs: int) -> dict[str, Any]:
    with PlainClient(live.url, token=live.access.token, session=session) as client:
        return client.until(lambda state: len(state["runs"]) >= runs and is_done(state), TIMEOUT_S)


def three_turns(live: LiveServer) -> dict[str, Any]:
    """The second prompt came while the first was answered, and waited."""
    session = live.create(model=live.script("Yes.", pause_ms=30))["id"]
    found: dict[str, Any] = {}

    async def work() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            for prompt in ("a", "b"):
                await client.command("submit", prompt=prompt)
            await client.until(lambda state: len(state["runs"]) == 2 and is_done(state))
            await client.command("submit", prompt="c")
            found.update(await client.until(lambda state: len(state["runs"]) == 3 and is_done(state)))

    run(work())
    return found


def test_a_message_can_be_rephrased_and_the_first_conversation_is_unchanged(
    live: LiveServer,
) -> None:
    before = three_turns(live)
    assert texts(before) == ["a", "Yes.", "b", "Yes.", "c", "Yes."]
    asked = {message["content"]: message["id"] for message in before["messages"] if message["role"] == "user"}
    expected = {"a": [], "b": ["a", "Yes."], "c": ["a", "Yes.", "b", "Yes."]}
    for prompt, expected_texts in expected.items():
        model = live.script("Otherwise.", name=f"{prompt}.json")
        branch = live.create(
            continues=before["sessionId"], before=asked[prompt], prompt=f"not {prompt}", model=model
        )
        runs = len(expected_texts) // 2 + 1
        state = ended(live, branch["id"], runs)
        assert texts(state) == [*expected_texts, f"not {prompt}", "Otherwise."]
        assert [one["status"] for one in state["runs"]] == ["completed"] * runs
        assert (branch["title"], state["followUps"]) == (f"not {prompt}", [])
    assert texts(ended(live, before["sessionId"], 3)) == texts(before)


def test_a_rewind_before_a_steering_message_leaves_that_run_cut_off(live: LiveServer) -> None:
    words = [{"type": "text", "content": "word " * 200, "pieces": 200}]
    session = live.create(model=live.script(words, "Then.", pause_ms=10))["id"]
    found: dict[str, Any] = {}

    async def work() -> None:
        async with live.connect(session) as socket:
            client = Watcher(socket)
            await client.command("submit", prompt="a")
            await client.until(lambda state: len(state["messages"]) > 1 and state["messages"][1]["content"])
            await client.command("steer", message="b")
            found.update(await client.until(is_done))

    run(work())
    steered = next(one for one in found["messages"] if one["content"] == "b")
    branch = live.create(continues=session, before=steered["id"], prompt="c", model=live.script("Anew."))
    state = ended(live, branch["id"], 2)
    assert [one["status"] for one in state["runs"]] == ["interrupted", "completed"]
    assert "b" not in texts(state)
    assert texts(state)[-2:] == ["c", "Anew."]


def test_going_back_needs_a_message_of_a_person_and_an_agent_that_can_forget(live: LiveServer) -> None:
    before = three_turns(live)
    first = before["messages"][0]["id"]
    wanted = {"continues": before["sessionId"], "before": first, "prompt": "x"}
    refused = (
        ({**wanted, "before": before["messages"][1]["id"]}, "no user message with this id"),
        ({**wanted, "agent": "replay"}, "cannot go back"),
    )
    with live.http() as http:
        total = http.get("/api/sessions").json()["total"]
        for body, reason in refused:
            answer = http.post("/api/sessions", json=body)
            assert answer.status_code == 400
            assert reason in answer.json()["error"]["message"]
        assert http.get("/api/sessions").json()["total"] == total
    assert list(read_all(live.store, before["sessionId"]))
