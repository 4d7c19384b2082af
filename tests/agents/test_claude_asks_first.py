"""Claude Code with `permissions="ask"`: settings that allow calls without asking do not count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.agents.claude.driver import ClaudeControl
from harness.contracts.driver import Send
from harness.contracts.request import Permissions, Request
from harness.events import RelayReply


def driver(permissions: Permissions) -> ClaudeControl:
    return ClaudeControl(Request(agent="claude", permissions=permissions), "line")


def written(moves: Any) -> list[Any]:
    return [msgspec.json.decode(move.data) for move in moves if isinstance(move, Send)]


@pytest.mark.parametrize("permissions", ["ask", "read-only"])
def test_everything_is_asked_about_where_the_program_is_held_to_something(permissions: Permissions) -> None:
    [asks] = written(driver(permissions).begin())
    [default] = written(driver("agent-default").begin())
    assert asks["request"]["hooks"] == {"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["ask"]}]}
    assert default["request"]["hooks"] is None


@pytest.mark.parametrize(
    "tool",
    [
        "Bash",
        "Write",
        "Edit",
        "mcp__server__tool",
        "WebFetch",
        "Unheard",
        "Read",
        "Grep",
        "Glob",
        "Skill",
        "Agent",
        "Task",
        "SendMessage",
    ],
)
def test_all_that_acts_is_asked_about(tool: str) -> None:
    [answer] = written(driver("ask").receive(callback(tool)))
    output = answer["response"]["response"]["hookSpecificOutput"]
    assert output == {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
    assert answer["response"]["request_id"] == 0


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode", "TodoWrite"])
def test_what_only_concerns_the_conversation_is_not(tool: str) -> None:
    [answer] = written(driver("ask").receive(callback(tool)))
    assert answer["response"]["response"] == {}


@pytest.mark.parametrize(
    "tool", ["Bash", "Write", "Skill", "Agent", "SendMessage", "WebFetch", "mcp__a__b", "New"]
)
def test_what_does_more_than_read_is_denied_where_it_may_only_read(tool: str) -> None:
    """Earlier versions run `ls` and `git status` although they are told to ask."""
    [answer] = written(driver("read-only").receive(callback(tool)))
    assert answer["response"]["response"]["hookSpecificOutput"]["permissionDecision"] == "deny"
    [answer] = written(driver("read-only").receive(callback("Read")))
    assert answer["response"]["response"]["hookSpecificOutput"]["permissionDecision"] == "ask"


def test_commands_are_asked_about_once_its_plan_is_approved() -> None:
    claude = driver("read-only")
    plan = {"subtype": "can_use_tool", "tool_name": "ExitPlanMode", "input": {"plan": "1. Run it."}}
    claude.receive({"type": "control_request", "request_id": 7, "request": plan})
    [relay_id] = claude.open
    claude.answer(RelayReply(id=relay_id, approved=True))
    [answer] = written(claude.receive(callback("Bash")))
    assert answer["response"]["response"]["hookSpecificOutput"]["permissionDecision"] == "ask"


def callback(tool: str) -> dict[str, Any]:
    request = {"subtype": "hook_callback", "callback_id": "ask", "input": {"tool_name": tool}}
    return {"type": "control_request", "request_id": 0, "request": request}
