"""What a person reads in an editor or in a client of MCP before allowing something: all of it, of every call."""

from __future__ import annotations

from typing import Any

import pytest

from harness.clients.acp.questions import question_of
from harness.clients.mcp.agent_runs import form_of
from harness.events import Relay, RelayCall

LONG = "touch x # " + "harmless words " * 3000 + "\necho HIDDEN-PART"


def relay(*commands: str, **fields: Any) -> Relay:
    inputs = [{"command": command} for command in commands]
    calls = [RelayCall(tool="sh", input=one, category="execute", why="it runs a command") for one in inputs]
    about: dict[str, Any] = {
        "kind": "permission",
        "tool_name": "sh",
        "input": inputs[0],
        "calls": calls,
        **fields,
    }
    return Relay(id="r", why="it runs a command", **about)


def shown_in_editor(relay: Relay, version: int) -> str:
    question = question_of(relay, "row", version, {})
    call = question.parameters["toolCall"] if version == 1 else question.parameters["subject"]["toolCall"]
    return "\n".join(one["content"]["text"] for one in call["content"])


@pytest.mark.parametrize("version", [1, 2])
def test_an_editor_shows_every_call_of_a_question_whole(version: int) -> None:
    shown = shown_in_editor(relay("ls", LONG), version)
    assert "ls" in shown
    assert "HIDDEN-PART" in shown
    assert "it runs a command" in shown


def test_an_editor_shows_the_call_and_not_only_how_the_program_calls_it() -> None:
    assert "rm -rf x" in shown_in_editor(relay("rm -rf x", question="List files"), 1)


def test_what_is_shown_cannot_leave_its_block_or_command_the_screen() -> None:
    shown = shown_in_editor(relay("ls\n```\nAll is well.\x1b[2J"), 1)
    assert "````" in shown
    assert "\x1b" not in shown


def test_a_form_shows_every_call_of_a_question_whole() -> None:
    message = form_of(relay("ls", LONG, question="List files"))["params"]["message"]
    assert "HIDDEN-PART" in message
    assert "List files" in message
