"""Which turn answers which request: that follows from the request itself, however often it is made."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.contracts.script import StatusFault
from harness.errors import UsageError
from harness.lab import ScriptRun, parse_script
from harness.lab.script_run import OVER
from harness.models.wires.wire import AnswerText, ModelRequest
from lab_answers import READERS
from lab_client import ROUTES, Client, Serve, ask, question

SHELL = {"tool": "shell", "input": {"command": "echo"}}
CHAT = ROUTES["chat"]


def conversation(*answers: dict[str, Any], prompt: str = "Go.") -> dict[str, Any]:
    """A chat in which these answers were given, each with a result after it."""
    body = question("chat", prompt, stream=False)
    for number, answer in enumerate(answers):
        body["messages"] += [{"role": "assistant", **answer}, {"role": "tool", "content": f"result {number}"}]
    return body


def answer_text(port: int, body: dict[str, Any], wire: str = "chat") -> str:
    with Client(port) as client:
        return READERS[wire, False](client.ask("POST", ROUTES[wire], body)).text


def test_the_turn_is_found_by_the_answers_that_the_conversation_holds(serve: Serve) -> None:
    port = serve({"turns": [{"text": "one"}, {"text": "two"}, {"text": "three"}]}).port
    assert answer_text(port, conversation()) == "one"
    assert answer_text(port, conversation({"content": "one"}, {"content": "two"})) == "three"
    assert answer_text(port, conversation({"content": "one"})) == "two"
    assert answer_text(port, conversation({"content": "one"})) == "two"


@pytest.mark.parametrize("wire", sorted(ROUTES))
def test_every_api_shows_how_far_a_conversation_is(serve: Serve, wire: str) -> None:
    port = serve({"turns": [[SHELL, SHELL], {"text": "two"}, {"text": "three"}]}).port
    body = question(wire, "Go.", stream=False)
    with Client(port) as client:
        first = client.ask("POST", ROUTES[wire], body).data
        match wire:
            case "anthropic":
                results = [{"type": "tool_result", "tool_use_id": block["id"]} for block in first["content"]]
                body["messages"] += [
                    {"role": "assistant", "content": first["content"]},
                    {"role": "user", "content": results},
                ]
            case "chat":
                message = first["choices"][0]["message"]
                body["messages"] += [
                    message,
                    *({"role": "tool", "tool_call_id": call["id"]} for call in message["tool_calls"]),
                ]
            case "responses":
                outputs = [
                    {"type": "function_call_output", "call_id": item["call_id"]} for item in first["output"]
                ]
                body["input"] += [*first["output"], *outputs]
            case _:
                content = first["candidates"][0]["content"]
                body["contents"] += [
                    content,
                    {"role": "user", "parts": [{"functionResponse": {"response": {}}}]},
                ]
        assert READERS[wire, False](client.ask("POST", ROUTES[wire], body)).text == "two"


def test_calls_of_one_answer_that_come_back_one_by_one_are_one_answer(serve: Serve) -> None:
    port = serve({"turns": [[SHELL, SHELL], {"text": "two"}]}).port
    with Client(port) as client:
        calls = client.ask("POST", CHAT, conversation()).data["choices"][0]["message"]["tool_calls"]
    assert answer_text(port, conversation(*({"tool_calls": [call]} for call in calls))) == "two"


def test_a_server_that_is_to_remember_is_reminded_by_the_id(serve: Serve) -> None:
    port = serve({"turns": [{"text": "one"}, {"text": "two"}]}).port
    first = ask(port, "responses", stream=False).data
    body = question("responses", "And?", stream=False) | {"previous_response_id": first["id"]}
    assert answer_text(port, body, "responses") == "two"


def test_a_conversation_is_chosen_by_its_marker_in_the_opening_or_the_system_prompt(serve: Serve) -> None:
    lanes = {"child": {"marker": "CHILD-MARK", "turns": [{"text": "child one"}, {"text": "child two"}]}}
    server = serve({"turns": [{"text": "main one"}, {"text": "main two"}], "lanes": lanes})
    assert answer_text(server.port, conversation(prompt="Do CHILD-MARK now")) == "child one"
    assert (
        answer_text(server.port, conversation({"content": "child one"}, prompt="Do CHILD-MARK now"))
        == "child two"
    )
    answers = conversation()
    answers["messages"].insert(
        0, {"role": "system", "content": [{"type": "text", "text": "You are CHILD-MARK."}]}
    )
    assert answer_text(server.port, answers) == "child one"
    later = conversation({"content": "main one. I start CHILD-MARK."})
    later["messages"].append({"role": "user", "content": "CHILD-MARK is back"})
    assert answer_text(server.port, later) == "main two"
    assert [(entry.lane, entry.turn) for entry in server.requests] == [
        ("child", 0),
        ("child", 1),
        ("child", 0),
        ("main", 1),
    ]


def test_a_script_that_is_over_says_so_or_repeats_its_last_turn(serve: Serve) -> None:
    server = serve({"turns": [{"text": "one"}]})
    assert answer_text(server.port, conversation({"content": "one"})) == OVER
    assert server.requests[0].outcome == "over"
    port = serve({"turns": [{"text": "one"}], "repeat_last": True}).port
    assert answer_text(port, conversation({"content": "one"}, {"content": "one"})) == "one"
    only_lanes = serve({"lanes": {"a": {"marker": "MARK", "turns": [{"text": "one"}]}}})
    assert answer_text(only_lanes.port, conversation()) == OVER


def test_turns_may_be_taken_in_order_of_arrival(serve: Serve) -> None:
    turns = [[{"fault": "500"}, {"text": "one"}], {"text": "two"}]
    port = serve({"turns": turns, "order": "arrival"}).port
    assert ask(port, "chat").status == 500
    assert [answer_text(port, conversation()) for _ in range(3)] == ["one", "two", OVER]


def test_many_conversations_may_be_open_at_once(serve: Serve) -> None:
    turns = [{"text": f"turn {number}"} for number in range(5)]
    lanes = {
        f"lane{lane}": {"marker": f"MARK-{lane}.", "turns": [{"text": f"{lane}/{n}"} for n in range(5)]}
        for lane in range(4)
    }
    server = serve({"turns": turns, "lanes": lanes})

    def converse(lane: int) -> list[str]:
        answers = []
        for number in range(5):
            body = conversation(*({"content": f"{lane}/{n}"} for n in range(number)), prompt=f"MARK-{lane}.")
            answers.append(answer_text(server.port, body))
        return answers

    with ThreadPoolExecutor(8) as pool:
        for lane, answers in zip(range(4), pool.map(converse, range(4)), strict=True):
            assert answers == [f"{lane}/{number}" for number in range(5)]
    assert sorted(entry.number for entry in server.requests) == list(range(1, 21))


def test_side_requests_are_answered_beside_the_script(serve: Serve) -> None:
    script = {
        "turns": [{"text": "one"}],
        "side": {"text": "A title", "toolless": True, "markers": ["MEMORY"]},
    }
    server = serve(script)
    assert answer_text(server.port, question("chat", "Name it", stream=False, tools=())) == "A title"
    assert answer_text(server.port, question("chat", "MEMORY agent", stream=False)) == "A title"
    assert answer_text(server.port, conversation()) == "one"
    assert [entry.outcome for entry in server.requests] == ["side", "side", "answered"]
    assert server.requests[0].lane == "side"


def test_by_default_a_request_without_tools_is_a_conversation(serve: Serve) -> None:
    port = serve({"turns": [{"text": "one"}]}).port
    assert answer_text(port, question("chat", "Hi", stream=False, tools=())) == "one"


SCHEMA = {
    "type": "object",
    "required": ["title", "kind", "count", "tags", "inner"],
    "properties": {
        "title": {"type": "string"},
        "kind": {"enum": ["a", "b"]},
        "count": {"type": ["integer", "null"], "minimum": 3},
        "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
        "inner": {"anyOf": [{"type": "OBJECT", "properties": {"x": {"const": 5}}}, {"type": "null"}]},
        "left out": {"type": "string"},
    },
}
SAMPLE = {"title": "Lab session", "kind": "a", "count": 3, "tags": [False], "inner": {"x": 5}}


@pytest.mark.parametrize(
    ("wire", "more"),
    [
        ("anthropic", {"output_format": {"type": "json_schema", "schema": SCHEMA}}),
        ("chat", {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
        ("responses", {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        ("gemini", {"generationConfig": {"responseJsonSchema": SCHEMA}}),
    ],
)
def test_a_side_request_for_json_gets_json_that_fits(serve: Serve, wire: str, more: dict[str, Any]) -> None:
    import json

    port = serve({"turns": [[]], "side": {"toolless": True}}).port
    body = question(wire, "Classify", stream=False, tools=()) | more
    assert json.loads(answer_text(port, body, wire)) == SAMPLE


def test_a_tool_that_must_be_called_is_called(serve: Serve) -> None:
    port = serve({"turns": [{"text": "one"}]}).port
    offered = {"type": "function", "function": {"name": "session_title", "parameters": SCHEMA}}
    choice = {"type": "function", "function": {"name": "session_title"}}
    body = question("chat", "Go.", stream=False) | {"tools": [offered], "tool_choice": choice}
    with Client(port) as client:
        made = READERS["chat", False](client.ask("POST", CHAT, body))
    assert made.calls == [("session_title", SAMPLE)]


def test_a_tool_that_must_be_called_is_called_as_the_script_says(serve: Serve) -> None:
    port = serve({"turns": [{"tool": "extract", "input": {"name": "Ada"}}, {"text": "Thanks."}]}).port
    offered = {"type": "function", "function": {"name": "extract", "parameters": SCHEMA}}
    choice = {"type": "function", "function": {"name": "extract"}}
    body = question("chat", "Go.", stream=False) | {"tools": [offered], "tool_choice": choice}
    with Client(port) as client:
        made = READERS["chat", False](client.ask("POST", CHAT, body))
    assert made.calls == [("extract", {"name": "Ada"})]


def test_an_input_takes_what_the_latest_results_hold(serve: Serve) -> None:
    given = {
        "first": "{{agent_id: (\\w+)}}",
        "second": "{{2 agent_id: (\\w+)}}",
        "all": ["{{all session \\d+}}"],
        "number": "{{session (\\d+)}}",
        "missing": "{{nothing like it}}",
        "plain": "{not one}",
    }
    port = serve({"turns": [SHELL, {"tool": "wait", "input": given}]}).port
    body = conversation({"content": "x"})
    body["messages"][-1:] = [
        {"role": "tool", "content": "agent_id: a1, session 7"},
        {"role": "tool", "content": [{"type": "text", "text": "agent_id: b2, session 8"}]},
    ]
    with Client(port) as client:
        made = READERS["chat", False](client.ask("POST", CHAT, body))
    assert made.calls == [
        (
            "wait",
            {
                "first": "a1",
                "second": "b2",
                "all": [["session 7", "session 8"]],
                "number": 7,
                "missing": "",
                "plain": "{not one}",
            },
        )
    ]


def test_an_expression_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"turns\[0\]\.input: '\(' is no regular expression"):
        parse_script({"turns": [{"tool": "x", "input": {"a": ["{{(}}"]}}]})


def test_a_call_by_intent_needs_an_agent() -> None:
    with pytest.raises(UsageError, match="`read` is a call by intent") as caught:
        ScriptRun(parse_script({"turns": [{"call": "read", "path": "a"}]}))
    assert "--agent" in caught.value.hint


@pytest.mark.parametrize("wire", ["anthropic", "chat", "responses", "gemini"])
def test_an_answer_that_the_agent_wrote_itself_is_no_turn(serve: Serve, wire: str) -> None:
    lanes = {"child": {"marker": "MARK", "turns": [{"text": "child one"}]}}
    server = serve({"turns": [{"text": "main one"}, {"text": "main two"}], "lanes": lanes})
    field, answerer, content = {
        "anthropic": ("messages", "assistant", "content"),
        "chat": ("messages", "assistant", "content"),
        "responses": ("input", "assistant", "content"),
        "gemini": ("contents", "model", "parts"),
    }[wire]

    def asked(*texts: str) -> str:
        body = question(wire, "This is the context.", stream=False)
        roles = itertools.cycle((answerer, "user"))
        body[field] += [
            {"role": role, content: [{"text": text}] if wire == "gemini" else text}
            for role, text in zip(roles, texts, strict=False)
        ]
        with Client(server.port) as client:
            return READERS[wire, False](client.ask("POST", ROUTES[wire], body)).text

    assert asked("Got it. Thanks for the context!", "Do it.") == "main one"
    assert asked("Got it.", "Do it.", "main one", "Go on.") == "main two"
    assert asked("Got it.", "Do it with MARK.") == "child one"
    assert asked("main one", "Go on.") == "main two"


def test_a_thread_that_the_server_remembers_is_continued(serve: Serve) -> None:
    port = serve({"turns": [{"text": "one"}, {"text": "two"}]}).port
    first = ask(port, "anthropic", stream=False).data
    thread = {"thread": {"type": "continue", "previous_message_id": first["id"]}}
    assert answer_text(port, question("anthropic", "And?", stream=False) | thread, "anthropic") == "two"


def test_a_stream_says_what_was_used_only_where_that_is_asked_for(serve: Serve) -> None:
    port = serve({"turns": [{"text": "one"}]}).port
    body = question("chat", "x", stream=True)
    del body["stream_options"]
    with Client(port) as client:
        chunks = [data for _, data in client.ask("POST", CHAT, body).events if isinstance(data, dict)]
    assert all(chunk["choices"] for chunk in chunks)


OLD = {
    "goes_by": "conversation",
    "responses": [
        {"events": [{"type": "text", "content": "one"}]},
        {"events": [{"type": "error", "message": "boom"}]},
    ],
    "lanes": [{"marker": "COUNT", "responses": [{"events": [{"type": "text", "content": "Two."}]}]}],
}


def test_a_script_of_the_old_spelling_is_served_too() -> None:
    def asked(answers: int, opening: str = "Hi.") -> ModelRequest:
        return ModelRequest(model="m", system="", opening=opening, answers=answers)

    run = ScriptRun(parse_script(OLD))
    assert run.reply(asked(0), 1).answer.parts == (AnswerText("one", None),)
    assert run.reply(asked(2), 2).answer.parts == (AnswerText("one", None),)
    assert run.reply(asked(0, "COUNT them"), 3).answer.parts == (AnswerText("Two.", None),)
    failure = run.reply(asked(1), 4).failure
    assert isinstance(failure, StatusFault)
    assert (failure.fault, failure.message) == ("500", "boom")
