"""Calls that another provider's model or another agent made, or a model made up: every API takes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from harness.contracts.model import Ask, AssistantTurn, Call, ToolTurn, UserTurn
from harness.models.registry import open_model
from model_asking import KEY, READ

CALLS = (
    Call("run_shell_command__run_shell_command_1794726735148_0", "functions.bash", None),
    Call("step-1:1", "", ["a", "list"]),
    Call("call_1", "read", {"path": "a"}),
)


class Told(NamedTuple):
    """The calls of a request: id, name and arguments; and the ids of those that have a result."""

    calls: list[tuple[str, str, Any]]
    answered: list[str]


def of_anthropic(body: Any) -> Told:
    _asked, answer, results = body["messages"]
    calls = [(block["id"], block["name"], block["input"]) for block in answer["content"]]
    return Told(calls, [block["tool_use_id"] for block in results["content"]])


def of_responses(body: Any) -> Told:
    _asked, *items = body["input"]
    made = [item for item in items if item["type"] == "function_call"]
    calls = [(item["call_id"], item["name"], msgspec.json.decode(item["arguments"])) for item in made]
    return Told(calls, [item["call_id"] for item in items if item["type"] == "function_call_output"])


def of_chat(body: Any) -> Told:
    _asked, answer, *results = body["messages"]
    made = [(call["id"], call["function"]) for call in answer["tool_calls"]]
    calls = [(id, call["name"], msgspec.json.decode(call["arguments"])) for id, call in made]
    return Told(calls, [message["tool_call_id"] for message in results])


def of_gemini(body: Any) -> Told:
    """It distinguishes calls by their names and places alone."""
    _asked, answer, results = body["contents"]
    made = [part["functionCall"] for part in answer["parts"]]
    calls = [(call["name"], call["name"], call["args"]) for call in made]
    return Told(calls, [part["functionResponse"]["name"] for part in results["parts"]])


@pytest.mark.parametrize(
    ("model", "told_in", "shape"),
    [
        ("anthropic/claude-sonnet-4-6", of_anthropic, "[a-zA-Z0-9_-]{1,64}"),
        ("openai/gpt-5.5", of_responses, ".{1,64}"),
        ("openai-chat/some-model", of_chat, ".{1,40}"),
        ("mistral/medium", of_chat, "[a-zA-Z0-9]{9}"),
        ("gemini/gemini-2.5-pro", of_gemini, "[a-zA-Z0-9_-]{1,64}"),
    ],
)
def test_they_are_reported_as_the_api_takes_them(
    model: str, told_in: Callable[[Any], Told], shape: str
) -> None:
    turns = [UserTurn("go"), AssistantTurn("", CALLS), *(ToolTurn(call.id, "done") for call in CALLS)]
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY")
    wire = open_model(model, dict.fromkeys(keys, KEY))._wire  # type: ignore[attr-defined]
    emitted = told_in(msgspec.json.decode(wire.prepare(Ask(turns=turns, tools=[READ])).body))

    assert [name for _id, name, _arguments in emitted.calls] == ["functions_bash", "unknown", "read"]
    assert [arguments for *_, arguments in emitted.calls] == [{}, {"input": ["a", "list"]}, {"path": "a"}]
    ids = [id for id, *_ in emitted.calls]
    assert ids == emitted.answered
    assert len(set(ids)) == len(CALLS)
    assert all(re.fullmatch(shape, id) for id in ids)
