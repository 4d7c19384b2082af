"""What a person reads in an editor or in a client of MCP before allowing something: all of it, of every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from harness.clients.acp.questions import question_of
from harness.clients.mcp.agent_runs import form_of
from harness.events import Event, Relay, RelayCall, SessionStart
from harness.folds.run_events.translation import WireTranslation
from harness.folds.session.encoding import to_wire
from harness.folds.session.lifecycle import approval_required
from harness.folds.standards.agui import AgUiFold
from harness.folds.standards.openai import ResponseFold

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


@pytest.mark.parametrize("client", ["class", "run events", "AG-UI", "Responses"])
def test_a_client_that_is_a_program_gets_every_call_of_a_question(client: str) -> None:
    """A function that allows `ls` must not have allowed what came with it."""
    asked = replace(relay("ls", LONG), run_id="r1")
    log: list[Event] = [SessionStart(run_id="r1", agent="droid"), asked]
    run_events, agui, responses = WireTranslation(), AgUiFold(), ResponseFold("m")
    told: dict[str, Callable[[], object]] = {
        "class": lambda: to_wire(approval_required(asked)),
        "run events": lambda: [run_events.feed(event) for event in log],
        "AG-UI": lambda: [*map(agui.feed, log), agui.finish()],
        "Responses": lambda: [*map(responses.feed, log), responses.finish()],
    }
    assert "HIDDEN-PART" in str(told[client]())


def test_a_question_for_one_call_is_written_as_before() -> None:
    assert approval_required(relay("ls")).calls is None
