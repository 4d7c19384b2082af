"""Clients: one that comes back by itself, one without an event loop, one in the terminal, one for assistant-ui."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli.chat.served_chat import TerminalTranscript
from harness.clients.client import HarnessClient, PlainClient, to_thread
from harness.clients.commands import Approve, Cancel, Submit
from harness.errors import UnknownSession, UsageError
from live_server import TIMEOUT_S, LiveServer, is_done, run, waits

CALL = {"type": "tool_call", "name": "bash", "input": {"command": "/bin/echo from the shell"}}


def test_a_client_sends_commands_and_shows_the_state(live: LiveServer) -> None:
    async def work() -> None:
        session = live.create(model=live.script([CALL], "Done."))
        async with HarnessClient(live.url, token=live.access.token, session=session["id"]) as client:
            await client.send(Submit(prompt="go"))
            state = await client.until(waits)
            await client.send({"type": "approve", "relayId": state["relays"][0]["id"]})
            await client.send(Approve(relay_id="nobody"))
            state = await client.until(is_done)
            assert state["messages"][-1]["content"] == "Done."
            await client.until(lambda _state: client.errors)
            assert "no question with this id" in client.errors[0]

    run(work())


def test_what_is_asked_while_the_server_is_away_is_asked_when_it_is_back(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)

    async def work() -> None:
        with live.serving_now():
            session = live.create(model=live.script("Back."))
            client = HarnessClient(live.url, token=live.access.token, session=session["id"])
            await client.open()
        await client.until(lambda _state: not client.is_connected)
        await client.send(Submit(prompt="are you there?"))
        with live.serving_now():
            state = await client.until(is_done)
            assert state["messages"][-1]["content"] == "Back."
            assert client.connections == 2
            await client.close()

    run(work())


def test_a_client_without_a_session_comes_back_to_the_one_that_it_began(tmp_path: Path) -> None:
    live = LiveServer(tmp_path)

    async def work() -> None:
        with live.serving_now():
            client = HarnessClient(live.url, token=live.access.token)
            await client.open()
            await client.send({"type": "configure", "config": {"model": live.script("Begun.")}})
            await client.send(Submit(prompt="begin"))
            started = await client.until(is_done)
            assert client.connections == 1
        await client.until(lambda _state: not client.is_connected)
        with live.serving_now():
            state = await client.until(lambda _state: client.is_connected)
            assert (state["sessionId"], state["messages"]) == (started["sessionId"], started["messages"])
            assert client.connections == 2
            await client.close()

    run(work())


def test_what_will_never_work_is_reported_at_once(live: LiveServer) -> None:
    async def work() -> None:
        with pytest.raises(UsageError, match="401"):
            await HarnessClient(live.url, token="wrong").open()
        with pytest.raises(UnknownSession):
            await HarnessClient(live.url, token=live.access.token, session="nobody").open()

    with pytest.raises(UsageError):
        HarnessClient("ftp://x", token="x")
    run(work())


def test_the_plain_client_does_the_same_without_an_event_loop(live: LiveServer) -> None:
    session = live.create(model=live.script([CALL], "x"))
    with PlainClient(live.url, token=live.access.token, session=session["id"]) as client:
        assert client.state["sessionId"] == session["id"]
        client.send(Submit(prompt="go"))
        client.until(waits, TIMEOUT_S)
        with pytest.raises(TimeoutError):
            client.until(is_done, 0.05)
        client.send(Cancel())
        assert client.until(is_done, TIMEOUT_S)["runs"][0]["status"] == "interrupted"
        assert next(client.states()) == client.state
    with pytest.raises(UsageError):
        PlainClient(live.url, token="wrong").open()


def test_a_plain_state_becomes_messages_of_assistant_ui() -> None:
    state = {
        "status": "running",
        "messages": [
            {"id": "1", "role": "user", "content": "hi", "status": "complete"},
            {
                "id": "2",
                "role": "assistant",
                "content": "Hello",
                "status": "streaming",
                "toolCalls": [
                    {"id": "a", "name": "bash", "status": "running"},
                    {"id": "b", "name": "read", "status": "error"},
                    {"id": "c", "name": "list", "status": "complete"},
                ],
            },
            {"id": "3", "role": "assistant", "content": " ", "status": "error"},
        ],
        "error": "no money",
    }
    thread = to_thread(state)
    user, assistant, failed = thread["messages"]
    assert thread["isRunning"] is True
    assert user["content"] == [{"type": "text", "text": "hi"}]
    assert user["attachments"] == []
    assert assistant["status"] == {"type": "running"}
    assert [part["type"] for part in assistant["content"]] == ["text", *["tool-call"] * 3]
    running, bad, good = assistant["content"][1:]
    assert (running["args"], running["argsText"], "result" in running) == ({}, "", False)
    assert (bad["isError"], good["isError"]) == (True, False)
    assert failed["content"] == []
    assert failed["status"] == {"type": "incomplete", "reason": "error", "error": "no money"}


def test_our_own_state_becomes_ordered_parts_with_approvals_and_sub_agents(live: LiveServer) -> None:
    session = live.create(
        model=live.script(
            [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "Look:"}, CALL], "Done."
        )
    )
    with PlainClient(live.url, token=live.access.token, session=session["id"]) as client:
        client.send(Submit(prompt="go"))
        state = client.until(waits, TIMEOUT_S)
        message = to_thread(state)["messages"][-1]
        assert [part["type"] for part in message["content"]] == ["reasoning", "text", "tool-call"]
        assert message["status"] == {"type": "requires-action", "reason": "tool-calls"}
        approval = message["content"][2]["approval"]
        assert approval["id"] == state["relays"][0]["id"]
        assert [option["kind"] for option in approval["options"]] == [
            "allow-once",
            "allow-always",
            "reject-once",
        ]
        client.send(Approve(relay_id=approval["id"]))
        message = to_thread(client.until(is_done, TIMEOUT_S))["messages"][-1]
        assert message["content"][2]["approval"] == {"id": approval["id"], "approved": True}
        assert "from the shell" in message["content"][2]["result"]
        assert message["status"] == {"type": "complete", "reason": "stop"}


def test_a_transcript_shows_everything_once() -> None:
    def state(**call: Any) -> dict[str, Any]:
        text = call.pop("text")
        call = {
            "id": "c",
            "name": "bash",
            "input": {"command": "ls"},
            "status": "running",
            "exitCode": None,
            **call,
        }
        parts = [{"type": "text", "text": text}, {"type": "tool", "callId": "c"}]
        return {
            "status": "running",
            "messages": [
                {"role": "user", "status": "complete", "content": "hi\x1b[2J"},
                {"role": "assistant", "parts": parts, "toolCalls": [call]},
            ],
        }

    transcript = TerminalTranscript()
    assert transcript.news(state(text="Hel")) == "\n> hi␛[2J\nHel\n· bash: ls\n"
    assert transcript.news(state(text="Hello")) == "lo"
    assert transcript.news(state(text="Hello", status="error", exitCode=2)) == "\n  ✗ bash (exit code 2)\n"
    assert transcript.news(state(text="Hello", status="error", exitCode=2)) == ""


def test_a_transcript_shows_the_end_of_what_a_command_wrote_and_why_a_call_failed() -> None:
    def shown(**call: Any) -> str:
        shown_text = {
            "id": "c",
            "name": "t",
            "input": {},
            "status": "complete",
            "exitCode": 0,
            "operations": [],
            **call,
        }
        message = {"role": "assistant", "parts": [{"type": "tool", "callId": "c"}], "toolCalls": [shown_text]}
        return TerminalTranscript().news({"status": "idle", "messages": [message]})

    command = [{"kind": "command", "command": "seq 9"}]
    output = "".join(f"{number}\x1b\n" for number in range(9))
    lines = "".join(f"    {number}␛\n" for number in range(3, 9))
    assert shown(operations=command, output=output) == f"· t\n  ✓ t\n    … 3 more lines before\n{lines}"
    assert shown(operations=[{"kind": "read", "path": "a"}], output="all of it") == "· t\n  ✓ t\n"
    assert shown(status="error", exitCode=None, output="no such file") == "· t\n  ✗ t\n    no such file\n"


def test_a_session_can_be_followed_and_answered_from_a_terminal(live: LiveServer) -> None:
    session = live.create(model=live.script([CALL], "All done."))
    token = live.folder / "server" / "token"
    words = ["attach", session["id"], "--url", live.url, "--token-file", str(token)]
    program = [sys.executable, "-c", "from harness.cli.main import entry; entry()", *words]
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        text=True,
    ) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        assert attached.stderr is not None
        attached.stdin.write("go on\n")
        attached.stdin.flush()
        assert "may it call bash: /bin/echo from the shell" in attached.stderr.readline()
        attached.stdin.write("y\n")
        attached.stdin.flush()
        out = ""
        while "All done." not in out:
            out += attached.stdout.readline() or pytest.fail(out)
        attached.stdin.write("/quit\n")
        attached.stdin.flush()
        assert attached.wait(TIMEOUT_S) == 0
    assert "> go on" in out
    assert "✓ bash" in out


def test_who_has_nothing_to_show_sees_what_is_there(live: LiveServer) -> None:
    session = live.create(model=live.script("All done."), prompt="go on")
    token = live.folder / "server" / "token"
    words = ["attach", session["id"], "--url", live.url, "--token-file", str(token)]
    program = [sys.executable, "-c", "from harness.cli.main import entry; entry()", *words]
    for _ in range(2):  # while it runs, and when it has ended
        done = subprocess.run(
            program, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "> go on" in done.stdout
        assert "All done." in done.stdout
