"""Kilo Code: where it differs from OpenCode, whose stream it shares."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

import agent_runs
from harness.agents.kilo.agent import AGENT
from harness.contracts.request import Request
from harness.events import Error, Result, SessionStart, ToolEnd, ToolStart, Warning
from harness.events.operation import Command, Search, Write

events_of = partial(agent_runs.play, "kilo", prompt="")


def call(name: str, input: Any, **state: Any) -> dict[str, Any]:
    part = {"tool": name, "callID": "call_1", "state": {"status": "completed", "input": input, **state}}
    return {"type": "tool_use", "sessionID": "k-1", "part": part}


def test_every_option_of_a_request_has_its_argument() -> None:
    command = AGENT.command(Request(agent="kilo", prompt="Hi", model="lab/m", continue_last=True), ())

    assert command.args == (
        *("run", "--format", "json", "--thinking", "--auto"),
        *("--model", "lab/m", "--continue"),
    )
    assert command.stdin == b"Hi"


def test_read_only_forbids_edits_and_commands_to_every_agent() -> None:
    command = AGENT.command(Request(agent="kilo", prompt="Look", permissions="read-only"), ())

    assert command.args == ("run", "--format", "json", "--thinking", "--agent", "plan")
    assert msgspec.json.decode(command.env["KILO_PERMISSION"]) == {"edit": "deny", "bash": "deny"}


def test_a_write_belongs_to_the_session_that_the_record_names() -> None:
    events = events_of(call("write", {"filePath": "/repo/a", "content": "x\ny\n"}))

    start = next(event for event in events if isinstance(event, SessionStart))
    assert (start.session_id, start.agent) == ("k-1", "kilo")
    written = next(event for event in events if isinstance(event, ToolStart)).operations
    assert written == [Write(path="/repo/a", start_line=1, end_line=2)]


def test_a_task_may_name_its_agent_in_the_input() -> None:
    events = events_of(call("task", {"sessionId": "sub-1", "name": "reviewer"}))

    child = [event for event in events if event.run_id == "call_1"]
    assert isinstance(child[0], SessionStart)
    assert (child[0].session_id, child[0].name) == ("sub-1", "reviewer")
    assert isinstance(child[-1], Result)
    assert child[-1].success


def test_tools_of_its_own_are_known() -> None:
    asked = [
        ("background_process", {"action": "start", "command": "npm start"}, [Command(command="npm start")]),
        ("codesearch", {"query": "foo"}, [Search(query="foo")]),
        ("goal", {"action": "start"}, []),
    ]
    for name, input, operations in asked:
        start = next(event for event in events_of(call(name, input)) if isinstance(event, ToolStart))
        assert (start.operations, start.raw) == (operations, None)


def test_a_call_that_completes_without_success_has_failed() -> None:
    events = events_of(call("link_pr", {"url": "x"}, metadata={"ok": False}))

    assert next(event for event in events if isinstance(event, ToolEnd)).success is False


def test_an_error_that_stderr_repeats_is_emitted_once() -> None:
    message = "run ended with an auto-rejected permission; pass --auto for autonomous use"
    repeated = f"\x1b[91m\x1b[1mError: \x1b[0m{message}\n"
    events = events_of({"type": "error", "sessionID": "k-1", "error": message}, stderr=repeated, exit_code=1)

    assert [event for event in events if isinstance(event, Error)] == [
        Error(message=message, code="permission_denied")
    ]
    assert not any(isinstance(event, Warning) for event in events)
