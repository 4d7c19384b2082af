"""`/api/inbox` and `/ws/inbox`: all sessions over one socket, and answers that are bound to what was shown."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from websockets.asyncio.client import ClientConnection, connect

from harness.clients.commands import Approve
from harness.clients.commands import Command as AnyCommand
from harness.clients.conversations.backend import ConversationStatus
from harness.clients.conversations.local_socket import LocalSocketServer
from harness.clients.conversations.shared_backend import open_backend
from harness.events import Relay, Result, ToolStart, Usage, UsageDelta
from harness.events.operation import Command
from harness.folds.inbox.asks import arguments_hash
from harness.folds.page_state.object_stream import apply
from harness.log.store import Metadata
from live_server import TIMEOUT_S, LiveServer, recorded, run
from test_approvals import bash, scripted


class InboxClient:
    """Keeps the rows and the states that it was sent."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.rows: dict[str, dict[str, Any]] = {}
        self.counts: dict[str, int] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.messages: list[dict[str, Any]] = []

    async def send(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await asyncio.wait_for(self.socket.recv(), TIMEOUT_S))
        self.messages.append(message)
        match message["type"]:
            case "inbox":
                self.rows = {row["id"]: row for row in message["rows"]}
                self.counts = message["counts"]
            case "rows":
                self.rows |= {row["id"]: row for row in message["changed"]}
                for removed in message["removed"]:
                    self.rows.pop(removed, None)
                self.counts = message["counts"]
            case "state":
                self.states[message.get("key") or message["session"]] = message["state"]
            case "delta":
                place = message.get("key") or message["session"]
                self.states[place] = apply(self.states[place], message["operations"])
        return message

    async def until(self, is_so: Callable[[], Any]) -> Any:
        while not (found := is_so()):
            await self.receive()
        return found

    async def next(self, kind: str) -> dict[str, Any]:
        while (message := await self.receive())["type"] != kind:
            pass
        return message


def inbox(live: LiveServer, client: str = "") -> connect:
    place = f"ws://{live.host}/ws/inbox" + (f"?client={client}" if client else "")
    return connect(place, additional_headers=live.bearer, compression=None, max_size=None)


def asked(client: InboxClient, session: str) -> Callable[[], Any]:
    return lambda: client.rows.get(session, {}).get("asks")


def test_more_commands_than_fit_in_a_message_are_refused_and_none_is_carried_out(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=scripted(live, "Done."))["id"]
        async with inbox(live) as socket:
            client = InboxClient(socket)
            await client.send(type="subscribe", session=session)
            await client.until(lambda: session in client.states)
            many = [{"type": "rename", "title": str(number)} for number in range(65)]
            await client.send(type="commands", session=session, commands=many)
            error = await client.next("error")
            assert (error["session"], error["message"]) == (session, "at most 64 commands in one message")
            assert live.store.metadata(session).name == ""
            await client.send(type="commands", session=session, commands=many[:1])
            await client.until(lambda: client.states[session]["title"] == "0")

    run(work())


def test_rows_come_at_once_and_as_they_change(live: LiveServer) -> None:
    async def work() -> None:
        model = scripted(live, [bash("/bin/echo one", "a")], "Done.")
        async with inbox(live) as socket:
            client = InboxClient(socket)
            first = await client.receive()
            assert (first["type"], first["rows"], first["total"]) == ("inbox", [], 0)
            session = live.create(model=model, prompt="go", title="Mine")["id"]
            (ask,) = await client.until(asked(client, session))
            row = client.rows[session]
            assert (row["state"], row["title"], row["agentName"]) == ("needs-approval", "Mine", "native")
            assert (ask["title"], ask["subject"]) == ("run a command", "/bin/echo one")
            assert client.counts["needsYou"] == 1
            assert row["can"]["answer"]
            answer = {
                "session": session,
                "relayId": ask["id"],
                "argumentsHash": ask["argumentsHash"],
                "action": "approve",
            }
            await client.send(type="answerMany", answers=[answer])
            results = await client.next("answers")
            assert results["answers"] == [{"session": session, "relayId": ask["id"]}]
            await client.until(lambda: client.rows[session]["state"] == "succeeded")
            assert client.rows[session]["isUnseen"]
            await client.send(type="seen", session=session)
            await client.until(lambda: not client.rows[session]["isUnseen"])
            with live.http() as http:
                listed = http.get("/api/inbox").json()
                assert listed["rows"] == [client.rows[session]]
                assert listed["counts"] == client.counts
                assert http.delete(f"/api/sessions/{session}").status_code == 204
            await client.until(lambda: session not in client.rows)

    run(work())


def test_an_answer_for_what_was_not_shown_changes_nothing(live: LiveServer) -> None:
    async def work() -> None:
        model = scripted(live, [bash("/bin/echo one", "a")], "Done.")
        session = live.create(model=model, prompt="go")["id"]
        async with inbox(live) as socket:
            client = InboxClient(socket)
            (ask,) = await client.until(asked(client, session))
            command = {"type": "approve", "relayId": ask["id"], "argumentsHash": "0" * 64, "id": "x"}
            await client.send(type="commands", session=session, commands=[command])
            error = await client.next("error")
            assert error["session"] == session
            assert error["commandId"] == "x"
            assert "It changed, look again" in error["message"]
            answer = {"session": session, "relayId": ask["id"], "argumentsHash": "1", "action": "deny"}
            with live.http() as http:
                (result,) = http.post("/api/inbox/answers", json={"answers": [answer]}).json()["answers"]
                assert "It changed" in result["error"]
                assert http.get("/api/inbox").json()["rows"][0]["state"] == "needs-approval"

    run(work())


def test_all_of_a_long_question_can_be_read(live: LiveServer) -> None:
    async def work() -> None:
        command = "/bin/echo one # " + "harmless words " * 3_000 + "\necho HIDDEN-PART"
        session = live.create(model=scripted(live, [bash(command, "a")], "Done."), prompt="go")["id"]
        async with inbox(live) as socket:
            client = InboxClient(socket)
            (ask,) = await client.until(asked(client, session))
            assert (ask["isCut"], "HIDDEN-PART" in ask["subject"]) == (True, False)
            with live.http() as http:
                place = f"/api/sessions/{session}/asks/"
                whole = http.get(place + quote(ask["id"], safe="")).json()
                assert (whole["subject"], whole["isCut"]) == (command, False)
                assert whole["argumentsHash"] == ask["argumentsHash"]
                assert http.get(place + "other").status_code == 404

    run(work())


def test_the_first_answer_counts_and_the_second_learns_who_gave_it(live: LiveServer) -> None:
    async def work() -> None:
        model = scripted(live, [bash("/bin/echo one", "a")], "Done.")
        session = live.create(model=model, prompt="go")["id"]
        async with inbox(live, "laptop") as one, inbox(live, "phone") as two:
            first, second = InboxClient(one), InboxClient(two)
            (ask,) = await first.until(asked(first, session))
            await second.until(asked(second, session))
            command = {"type": "approve", "relayId": ask["id"], "argumentsHash": ask["argumentsHash"]}
            await first.send(type="commands", session=session, commands=[command])
            await first.until(lambda: not first.rows[session]["asks"])
            await second.send(type="commands", session=session, commands=[command])
            error = await second.next("error")
            assert error["message"].startswith("laptop answered first")
            assert error["code"] == "already_answered"
            await first.send(type="commands", session=session, commands=[command])
            error = await first.next("error")
            assert error["message"].startswith("this was answered already")
            assert error["code"] == "already_answered"
            shown_text = [one for message in second.messages for one in message.get("answered", [])]
            assert shown_text == [
                {"session": session, "relayId": ask["id"], "by": "laptop", "action": "approve"}
            ]

    run(work())


def test_conversations_are_subscribed_to_over_the_same_socket(live: LiveServer) -> None:
    async def work() -> None:
        sessions = [live.create(model=live.script("Hello there.", name=f"{n}.json"))["id"] for n in range(2)]
        async with inbox(live) as socket:
            client = InboxClient(socket)
            for session in sessions:
                await client.send(type="subscribe", session=session)
                await client.send(
                    type="commands", session=session, commands=[{"type": "submit", "prompt": "hi"}]
                )
            for session in sessions:
                await client.until(
                    lambda session=session: (
                        [
                            one["content"]
                            for one in client.states.get(session, {}).get("messages", [])
                            if one["status"] == "complete"
                        ]
                        == ["hi", "Hello there."]
                    )
                )
            await client.send(type="unsubscribe", session=sessions[0])
            await client.send(type="subscribe", session="unknown")
            error = await client.next("error")
            assert (error["session"], error["message"][:15]) == ("unknown", "unknown session")

    run(work())


def test_a_conversation_begins_under_a_key(live: LiveServer) -> None:
    async def work() -> None:
        model = live.script("Hello.")
        async with inbox(live) as socket:
            client = InboxClient(socket)
            await client.send(type="subscribe", session="", key="k1")
            await client.until(lambda: "k1" in client.states)
            assert client.states["k1"]["capabilities"]["submit"]
            await client.send(
                type="commands",
                key="k1",
                commands=[
                    {"type": "configure", "config": {"model": model}},
                    {"type": "submit", "prompt": "hi"},
                ],
            )
            await client.until(
                lambda: [one["content"] for one in client.states["k1"]["messages"]] == ["hi", "Hello."]
            )
            (session,) = {m["session"] for m in client.messages if m.get("key") and m["session"]}
            await client.until(lambda: client.rows.get(session, {}).get("state") == "succeeded")

    run(work())


def test_what_today_cost(live: LiveServer) -> None:
    def used(hub: Any, log_id: str) -> None:
        hub.source(log_id).append([UsageDelta(usage=Usage(input=1, cost_usd=0.5)), Result(success=True)])
        hub.close()

    used(*recorded(live))
    with live.http() as http:
        today = http.get("/api/inbox").json()["today"]
    agent = {"agent": "Claude Code", "agentName": "claude", "costUsd": 0.5, "isCostComplete": True}
    assert today == {"costUsd": 0.5, "isCostComplete": True, "limitUsd": None, "byAgent": [agent]}

    async def work() -> None:
        async with inbox(live) as socket:
            assert (await InboxClient(socket).receive())["today"] == today

    run(work())


def test_garbage_is_an_error_and_the_socket_stays(live: LiveServer) -> None:
    async def work() -> None:
        async with inbox(live) as socket:
            client = InboxClient(socket)
            for text in (
                "",
                "{",
                "[]",
                '{"type":"nothing"}',
                '{"type":"commands","commands":[{"type":"x"}]}',
            ):
                await socket.send(text)
                assert "not a message" in (await client.next("error"))["message"]
            await client.send(type="commands", session="", commands=[{"type": "submit", "prompt": "x"}])
            assert "no session is named" in (await client.next("error"))["message"]

    run(work())


def test_it_needs_a_login(live: LiveServer) -> None:
    assert httpx.get(f"{live.url}/api/inbox").status_code == 401
    assert httpx.post(f"{live.url}/api/inbox/answers", json={"answers": []}).status_code == 401


def _asking_run(live: LiveServer) -> tuple[Any, Relay, str]:
    """As of `harness run` in another process, which waits."""
    hub, log_id = recorded(live)
    call = ToolStart(call_id="c", tool_name="Bash", operations=[Command(command="make")])
    relay = Relay(id="q", call_id="c", tool_name="Bash", input={"command": "make"})
    hub.source(log_id).append([call, relay])
    stored = hub.follower(0)
    (asked_now,) = [event for event in stored.poll() if isinstance(event, Relay)]
    stored.close()
    return hub, asked_now, log_id


def test_a_run_of_another_program_is_a_row_and_can_be_answered(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    taken: list[AnyCommand] = []
    came = threading.Event()

    def carry_out(command: AnyCommand) -> None:
        taken.append(command)
        came.set()

    status = ConversationStatus(is_running=True, can_answer=True, can_steer=True, can_cancel=True)
    with LiveServer(tmp_path).serving_now(open_backend) as live:

        async def work() -> None:
            async with inbox(live) as socket:
                client = InboxClient(socket)
                await client.receive()
                hub, relay, log_id = await asyncio.to_thread(_asking_run, live)
                channel = LocalSocketServer(log_id, carry_out, lambda: status)
                assert channel.is_open
                (ask,) = await client.until(asked(client, log_id))
                assert client.rows[log_id]["state"] == "needs-approval"
                assert ask["argumentsHash"] == arguments_hash(relay)
                await client.until(lambda: client.rows[log_id]["can"]["answer"])
                command = {"type": "approve", "relayId": "q", "argumentsHash": ask["argumentsHash"]}
                await client.send(type="commands", session=log_id, commands=[command])
                assert await asyncio.to_thread(came.wait, TIMEOUT_S)
                assert taken == [Approve(relay_id="q", arguments_hash=ask["argumentsHash"])]
                hub.source(log_id).append([Result(success=True)])
                await client.until(lambda: client.rows[log_id]["state"] == "succeeded")
                channel.close()
                hub.close()

        run(work())


def test_a_run_whose_process_died_is_lost(live: LiveServer) -> None:
    async def work() -> None:
        async with inbox(live) as socket:
            client = InboxClient(socket)
            await client.receive()
            hub, log_id = await asyncio.to_thread(recorded, live)
            await client.until(lambda: client.rows.get(log_id, {}).get("state") == "running")
            hub.close()
            await client.until(lambda: client.rows[log_id]["state"] == "lost")
            assert client.rows[log_id]["failure"]["code"] == "lost"

    run(work())


def test_a_client_that_stalls_gets_all_rows_instead(live: LiveServer) -> None:
    async def work() -> None:
        from harness.server.live.frames import Packet

        async with inbox(live) as socket:
            client = InboxClient(socket)
            await client.receive()
            assert live.application is not None
            assert live.application.inbox is not None
            (take,) = live.application.inbox.takers
            place = take.__self__  # type: ignore[attr-defined]
            place._is_sending = True
            for _ in range(100):
                take(Packet(b'{"type":"rows","changed":[],"removed":[],"counts":{}}'))
            place._is_sending = False
            again = await client.next("inbox")
            assert again["total"] == 0

    run(work())


def test_rows_of_logs_at_rest_are_read_from_the_index(live: LiveServer) -> None:
    live.store.create(Metadata(session_id="old", updated_ms=1000, created_ms=1000)).close()
    with live.http() as http:
        ends = time.monotonic() + 60
        while not (rows := http.get("/api/inbox").json()["rows"]) and time.monotonic() < ends:
            time.sleep(0.02)
    assert rows[0]["id"] == "old"
