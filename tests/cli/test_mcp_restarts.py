"""`harness mcp`: questions that somebody else answers, and servers that are started again while a task is going on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from acp_editor import Editor
from test_cli_mcp import RawClient, Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def state_of(client: RawClient, task: str, *, besides: str = "working") -> dict[str, Any]:
    until_s = time.monotonic() + 60
    while (state := client.modern("tasks/get", taskId=task))["status"] == besides:
        assert time.monotonic() < until_s
        time.sleep(0.05)
    return state


def killed(client: RawClient) -> None:
    client.process.kill()
    client.process.wait(20)
    for pipe in (client.process.stdin, client.process.stdout):
        assert pipe is not None
        pipe.close()


def test_a_form_is_withdrawn_when_the_question_is_answered_elsewhere(shop: Shop) -> None:
    client = RawClient(shop)
    client.call("initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}})
    call = {"name": "run_agent", "arguments": {"prompt": "write"}}
    client.send(json.dumps({"jsonrpc": "2.0", "id": "run", "method": "tools/call", "params": call}).encode())
    asked = client.read()
    assert asked["method"] == "elicitation/create"
    with Editor(shop.environment) as editor:
        (row,) = editor.call("session/list")["sessions"]
        editor.call("session/load", sessionId=row["sessionId"], cwd=str(shop.work), mcpServers=[])
        withdrawn = client.read()
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == asked["id"]
        done = client.read()
        assert (done["id"], done["result"]["structuredContent"]["outcome"]) == ("run", "completed")
    client.close()


def test_a_task_goes_on_when_its_server_was_killed_while_it_asked(shop: Shop) -> None:
    first = RawClient(shop)
    task = first.modern("tools/call", name="run_agent", arguments={"prompt": "write"})["taskId"]
    state_of(first, task)
    killed(first)
    second = RawClient(shop)
    state = state_of(second, task)
    assert state["status"] == "input_required"
    ((relay, form),) = state["inputRequests"].items()
    choice = form["params"]["requestedSchema"]["properties"]["answer"]["enum"][0]
    answers = {relay: {"action": "accept", "content": {"answer": choice}}}
    second.modern("tasks/update", taskId=task, inputResponses=answers)
    state = state_of(second, task)
    assert state["result"]["structuredContent"]["text"] == "The purple file is there."
    assert (shop.work / "made.txt").exists()
    second.close()
    third = RawClient(shop)  # and its result is still known
    assert state_of(third, task)["result"] == state["result"] | {
        "structuredContent": {
            key: value
            for key, value in state["result"]["structuredContent"].items()
            if key != "files_changed"
        }
    }
    third.close()


def test_a_task_whose_server_was_killed_while_it_worked_is_over(shop: Shop) -> None:
    script = Path(shop.command[-1].removeprefix("scripted/"))
    script.write_text('turns = [ [ { tool = "bash", input = { command = "sleep 60" } } ] ]\n')
    shop.command += ["--permissions", "full-access"]
    first = RawClient(shop)
    task = first.modern("tools/call", name="run_agent", arguments={"prompt": "sleep"})["taskId"]
    killed(first)
    second = RawClient(shop)
    state = state_of(second, task)
    assert state["status"] == "cancelled"
    second.call("initialize", protocolVersion="2025-11-25")
    waited = second.call("tools/call", name="wait_agent", arguments={"session": task, "seconds": 20})[
        "result"
    ]
    assert waited["isError"] is True
    assert waited["structuredContent"]["outcome"] == "interrupted"
    second.close()


def test_a_question_that_is_not_answered_is_answered_with_that(shop: Shop) -> None:
    """A form that was closed, or that came back without an answer, left the run waiting for ever."""
    script = Path(shop.command[-1].removeprefix("scripted/"))
    options = '[ { label = "red" }, { label = "blue" } ]'
    asking = f'[ {{ tool = "ask_user", input = {{ question = "Which?", options = {options} }} }} ]'
    script.write_text(f'turns = [ {asking}, [ {{ text = "I choose." }} ] ]\n')
    client = RawClient(shop)
    for response in ({"action": "decline"}, {"action": "accept", "content": {"confirm": True}}):
        task = client.modern("tools/call", name="run_agent", arguments={"prompt": "ask"})["taskId"]
        ((relay, _form),) = state_of(client, task)["inputRequests"].items()
        client.modern("tasks/update", taskId=task, inputResponses={"unknown": response, relay: response})
        assert state_of(client, task)["result"]["structuredContent"]["text"] == "I choose."
    client.close()


def test_a_request_says_which_protocol_it_is_of(shop: Shop) -> None:
    client = RawClient(shop)
    meta = "io.modelcontextprotocol/"
    for wrong in ({}, {f"{meta}clientCapabilities": {}}, {f"{meta}protocolVersion": "2026-07-28"}):
        assert client.call("tools/list", _meta=wrong)["error"]["code"] == -32602
    whole = {f"{meta}protocolVersion": "2026-07-28", f"{meta}clientCapabilities": {}}
    for method in ("initialize", "ping", "prompts/list"):
        assert client.call(method, _meta=whole)["error"]["code"] == -32601
    assert "result" in client.call("ping")
    client.call("initialize", protocolVersion="2025-11-25")
    assert "result" in client.call("tools/list")
    for method in ("tasks/get", "server/discover"):
        assert client.call(method)["error"]["code"] == -32601
    client.close()


def test_a_task_of_nobody_is_not_known(shop: Shop) -> None:
    client = RawClient(shop)
    for task in ("nope", "01a1f4ed-5cd0-7b57-a22a-647f9c71b375", "../../etc/passwd", "claude:x"):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {
                "extensions": {"io.modelcontextprotocol/tasks": {}}
            },
        }
        assert client.call("tasks/get", taskId=task, _meta=meta)["error"]["code"] == -32602
    client.close()
