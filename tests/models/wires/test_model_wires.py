"""Every model API against the lab's server: what is asked, what comes back, and what goes wrong on the way."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import harness
from harness.contracts.model import (
    Ask,
    AssistantTurn,
    Attachment,
    Call,
    SystemTurn,
    ToolTurn,
    Turn,
    UserTurn,
)
from harness.events import (
    Error,
    Message,
    ReasoningDelta,
    StepEnd,
    TextDelta,
    TextRetracted,
    ToolInputDelta,
    UsageDelta,
    Warning,
)
from harness.events.usage import Usage
from harness.lab.script_run import ScriptRun
from harness.lab.server import LabServer
from harness.models.http import ModelEndpoint
from harness.models.responses import Responses
from harness.models.script_file import parse_script
from model_asking import (
    ANTHROPIC,
    APIS,
    CHAT,
    GEMINI,
    HELLO,
    KEY,
    READ,
    RESPONSES,
    Api,
    all_of,
    ask,
    kinds,
    only,
    text_of,
    turn_of,
)

Lab = Callable[..., LabServer]

LOOKING = [
    {"reasoning": "The file will tell."},
    {"text": "Let me look."},
    {"tool": "read", "input": {"path": "a.txt"}},
    {"tool": "read", "input": {"path": "b.txt"}},
]
PNG = Attachment("image/png", b64encode(b"\x89PNG").decode(), "dot.png")
PDF = Attachment("application/pdf", b64encode(b"%PDF-").decode(), "page.pdf")
NOTES = Attachment("text/plain", b64encode(b"buy milk").decode(), "notes.txt")
PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def lab() -> Iterator[Lab]:
    servers: list[LabServer] = []

    def start(*turns: Any, **options: Any) -> LabServer:
        script = {"turns": list(turns), "side": {"toolless": False}, **options}
        servers.append(LabServer(ScriptRun(parse_script(script))))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
        assert server.faults == []


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> Api:
    return APIS[request.param]


def test_an_answer_comes_in_pieces_then_whole_then_counted(api: Api, lab: Lab) -> None:
    events = ask(api.open(lab(LOOKING).url), Ask(turns=[UserTurn("hi")], tools=[READ]))
    assert text_of(events, ReasoningDelta) == "The file will tell."
    assert text_of(events, TextDelta) == "Let me look."
    assert len(all_of(events, TextDelta)) > 1
    assert text_of(events, ToolInputDelta) == '{"path":"a.txt"}{"path":"b.txt"}'
    assert kinds(events)[-3:] == ["Message", "UsageDelta", "StepEnd"]
    message = only(events, Message)
    assert (message.role, message.text) == ("assistant", "Let me look.")
    assert {message.id} == {delta.id for delta in all_of(events, TextDelta)}
    assert message.id not in {delta.id for delta in all_of(events, ReasoningDelta)}
    first, second = message.parts or []
    assert (first["type"], first["name"], first["input"]) == ("tool_call", "read", {"path": "a.txt"})
    assert first["id"] != second["id"]
    assert {delta.call_id for delta in all_of(events, ToolInputDelta)} == {first["id"], second["id"]}
    assert only(events, StepEnd).stop_reason == "tool_calls"


def test_what_the_model_reasoned_goes_back_to_it_and_to_no_one_else(api: Api, lab: Lab) -> None:
    server = lab(LOOKING, {"text": "Done."})
    model = api.open(server.url)
    turns: list[Turn] = [UserTurn("hi")]
    turn = turn_of(ask(model, Ask(turns=turns, tools=[READ])))
    turns += [turn, *(ToolTurn(call.id, f"content of {call.input['path']}") for call in turn.calls)]
    events = ask(model, Ask(turns=turns, tools=[READ]))
    assert only(events, Message).text == "Done."
    assert only(events, StepEnd).stop_reason == "end"
    ask(api.open(server.url, model=f"{api.model}-other"), Ask(turns=turns, tools=[READ]))
    own, others = (msgspec.json.encode(entry.body).decode() for entry in server.requests[1:])
    for body in (own, others):
        assert "content of a.txt" in body
        assert body.index("Let me look.") < body.index("a.txt") < body.index("b.txt")
    signature = {ANTHROPIC: "bGFiLXNpZ25hdHVyZQ==", RESPONSES: "bGFi", GEMINI: "bGFiLXNpZ25hdHVyZQ=="}.get(
        api
    )
    if signature:
        assert (own.count(signature), others.count(signature)) == (1, 0)
    if api in (ANTHROPIC, RESPONSES):
        assert own.index(signature or "") < own.index("Let me look.")


def test_reasoning_written_as_text_goes_back_to_servers_that_want_it(lab: Lab) -> None:
    from harness.models.chat import ChatCompletions, Habits
    from harness.models.http import HttpModel

    server = lab(LOOKING, {"text": "Done."})
    endpoint = ModelEndpoint(provider="deepseek", model="some", url=f"{server.url}/v1", key=KEY)
    model = HttpModel(endpoint, ChatCompletions(endpoint, Habits(wants_reasoning=True)))
    turn = turn_of(ask(model, Ask(turns=[UserTurn("hi")], tools=[READ])))
    results = [ToolTurn(call.id, "x") for call in turn.calls]
    ask(model, Ask(turns=[UserTurn("hi"), turn, *results], tools=[READ]))
    assert server.requests[1].body["messages"][1]["reasoning_content"] == "The file will tell."


def test_classes_of_tokens_are_separate(api: Api, lab: Lab) -> None:
    tokens = {"input": 100, "output": 20, "cache_read": 30, "cache_write": 0, "reasoning": 7}
    used = only(ask(api.open(lab([{"text": "Hi."}, {"usage": tokens}]).url)), UsageDelta)
    expected = {
        ANTHROPIC: Usage(input=100, output=27, cache_read=30, cache_write=0),  # does not report reasoning
        RESPONSES: Usage(input=100, output=20, cache_read=30, cache_write=0, reasoning=7),
        CHAT: Usage(input=100, output=20, cache_read=30, reasoning=7),
        GEMINI: Usage(input=100, output=20, cache_read=30, reasoning=7),
    }
    assert used.usage == expected[api]
    assert used.model == api.model
    assert used.id


@pytest.mark.parametrize("stop", ["length", "refusal"])
def test_the_reason_of_an_end_has_one_name_everywhere(api: Api, lab: Lab, stop: str) -> None:
    events = ask(api.open(lab([{"text": "Hm."}, {"stop": stop}]).url))
    assert only(events, StepEnd).stop_reason == stop
    assert only(events, Message).text == "Hm."


@pytest.mark.parametrize("stop", ["length", "refusal"])
def test_a_run_whose_answer_was_cut_short_has_failed(
    api: Api, lab: Lab, stop: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(api.url_variable, lab([{"text": "Hm."}, {"stop": stop}]).url + api.path)
    monkeypatch.setenv(api.key_variable, KEY)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    result = harness.start(
        harness.Request(agent="native", prompt="go", model=api.model, cwd=str(tmp_path))
    ).wait()
    assert (result.success, result.outcome, result.stop_reason) == (False, "failed", stop)


def test_arguments_that_are_cut_off_are_marked(api: Api, lab: Lab) -> None:
    call = [{"tool": "read", "input": {"path": "a.txt"}}, {"fault": "malformed_arguments"}]
    events = ask(api.open(lab(call).url), Ask(turns=[UserTurn("hi")], tools=[READ]))
    (part,) = only(events, Message).parts or []
    assert part["input"]["__toolParseError"] is True
    if api is not GEMINI:  # names them, and does not show them
        assert part["input"]["rawArguments"] == '{"path":"a'
    assert part["input"]["parseError"]


def test_a_refusal_is_an_error_in_the_providers_own_words(api: Api, lab: Lab) -> None:
    server = lab([{"text": "never"}, {"fault": "401", "message": f"the key {KEY} is not valid"}])
    events = ask(api.open(server.url))
    assert kinds(events) == ["Error", "StepEnd"]
    error = only(events, Error)
    assert error.message == "the key *** is not valid"
    assert error.code == {ANTHROPIC: "authentication_error", GEMINI: "UNAUTHENTICATED"}.get(
        api, "invalid_api_key"
    )
    assert only(events, StepEnd).stop_reason == "error"
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", ["429", "500", "503", "529"])
def test_a_provider_that_cannot_answer_now_is_asked_again(api: Api, lab: Lab, fault: str) -> None:
    server = lab([{"text": "Here."}, {"fault": fault, "retry_after_s": 0.01, "message": "Too busy."}])
    events = ask(api.open(server.url))
    assert kinds(events)[0] == "Warning"
    retry = only(events, Warning)
    assert retry.code == "retry"
    assert retry.message.startswith("Too busy. (")
    assert "asking again in 0." in retry.message
    assert only(events, Message).text == "Here."
    assert len(server.requests) == 2


def test_a_provider_that_never_can_is_not_asked_forever(api: Api, lab: Lab) -> None:
    server = lab([{"text": "never"}, {"fault": "503", "times": "always", "message": "Down."}])
    events = ask(api.open(server.url))
    assert kinds(events) == ["Warning", "Warning", "Error", "StepEnd"]
    assert only(events, Error).message == "Down."
    assert len(server.requests) == 3


def test_a_connection_lost_before_the_first_word_is_reopened(api: Api, lab: Lab) -> None:
    server = lab([{"text": "Here."}, {"fault": "drop", "after": 0}])
    events = ask(api.open(server.url))
    assert (kinds(events)[0], only(events, Warning).code) == ("Warning", "retry")
    assert only(events, Message).text == "Here."


def test_a_connection_lost_in_the_middle_takes_the_answer_back_and_asks_again(api: Api, lab: Lab) -> None:
    server = lab([{"text": "A long story."}, {"fault": "drop"}])
    events = ask(api.open(server.url))
    first = next(event for event in events if isinstance(event, TextDelta))
    assert only(events, TextRetracted).id == first.id
    assert only(events, Warning).code == "retry"
    stands = [event.text for event in all_of(events, TextDelta) if event.id != first.id]
    assert "".join(stands) == only(events, Message).text == "A long story."
    assert len(server.requests) == 2


def test_a_connection_that_is_always_lost_in_the_middle_is_an_error(api: Api, lab: Lab) -> None:
    server = lab([{"text": "A long story."}, {"fault": "drop", "times": "always"}])
    events = ask(api.open(server.url))
    assert text_of(events, TextDelta)
    assert kinds(events)[-2:] == ["Error", "StepEnd"]
    assert only(events, Error).code == "connection_lost"
    assert all_of(events, Message) == []
    assert len(server.requests) == 3


def test_images_and_documents_are_shown(api: Api, lab: Lab) -> None:
    server = lab({"text": "I see."})
    ask(api.open(server.url), Ask(turns=[UserTurn("look", (PNG, PDF, NOTES))]))
    body = msgspec.json.encode(server.requests[0].body).decode()
    assert PNG.data in body
    assert PDF.data in body
    assert "buy milk" in body
    assert body.index(PNG.data) < body.index("look")


def test_what_a_tool_shows_is_shown(api: Api, lab: Lab) -> None:
    server = lab({"text": "never"}, {"text": "I see."})
    calls = (Call("call_1", "read", {"path": "dot.png"}), Call("call_2", "read", {"path": "b.txt"}))
    turns = [UserTurn("look"), AssistantTurn("", calls), ToolTurn("call_1", "", attachments=(PNG,))]
    turns.append(ToolTurn("call_2", "not there", is_error=True))
    assert only(ask(api.open(server.url), Ask(turns=turns, tools=[READ])), Message).text == "I see."
    body = server.requests[0].body
    assert PNG.data in msgspec.json.encode(body).decode()
    if api is CHAT:
        assert [message["role"] for message in body["messages"]] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "user",
        ]
    if api is ANTHROPIC:
        assert [block.get("is_error") for block in body["messages"][2]["content"]] == [None, True]
    if api is GEMINI:
        assert body["contents"][2]["parts"][2]["functionResponse"] == {
            "name": "read",
            "response": {"error": "not there"},
        }


def test_a_file_that_no_model_can_be_shown_is_named(api: Api, lab: Lab) -> None:
    server = lab({"text": "I see."})
    archive = Attachment("application/zip", b64encode(b"PK").decode(), "all.zip")
    ask(api.open(server.url), Ask(turns=[UserTurn("look", (archive,))]))
    body = msgspec.json.encode(server.requests[0].body).decode()
    assert "all.zip of type application/zip cannot be shown" in body
    assert archive.data not in body


def test_a_failure_with_a_picture_is_no_error_for_an_api_that_allows_only_text_in_one(lab: Lab) -> None:
    server = lab({"text": "never"}, {"text": "I see."})
    turns = [UserTurn("look"), AssistantTurn("", (Call("call_1", "click", {}),))]
    turns.append(ToolTurn("call_1", "the page broke", is_error=True, attachments=(PNG,)))
    ask(ANTHROPIC.open(server.url), Ask(turns=turns, tools=[READ]))
    (block,) = server.requests[0].body["messages"][2]["content"]
    assert "is_error" not in block
    assert [part["type"] for part in block["content"]] == ["text", "image"]


def test_an_answer_can_be_held_to_a_schema(api: Api, lab: Lab) -> None:
    server = lab({"text": '{"name":"Ada"}'})
    events = ask(api.open(server.url), Ask(turns=[UserTurn("who?")], schema=PERSON))
    assert only(events, Message).text == '{"name":"Ada"}'
    body = server.requests[0].body
    shut = {**PERSON, "additionalProperties": False}
    if api is ANTHROPIC:
        assert body["output_config"]["format"] == {"type": "json_schema", "schema": shut}
    elif api is RESPONSES:
        assert body["text"]["format"] == {
            "type": "json_schema",
            "name": "answer",
            "schema": shut,
            "strict": True,
        }
    elif api is CHAT:
        assert body["response_format"]["json_schema"] == {"name": "answer", "schema": shut, "strict": True}
    else:
        assert body["generationConfig"]["responseJsonSchema"] == PERSON


def test_instructions_come_first_and_may_come_later(api: Api, lab: Lab) -> None:
    server = lab({"text": "Yes."})
    turns = [SystemTurn("Be brief."), SystemTurn("Be kind."), UserTurn("hi"), SystemTurn("Stop now.")]
    ask(api.open(server.url), Ask(turns=turns))
    body = msgspec.json.encode(server.requests[0].body).decode()
    assert "Be brief.\\n\\nBe kind." in body
    assert body.count("Stop now.") == 1


def test_limits_are_passed_on(api: Api, lab: Lab) -> None:
    server = lab({"text": "Yes."})
    ask(api.open(server.url), Ask(turns=[UserTurn("hi")], max_output_tokens=77, temperature=0.5))
    body = server.requests[0].body
    options = body.get("generationConfig", body)
    assert 77 in options.values()
    assert options["temperature"] == 0.5


def test_how_much_to_reason_is_passed_on(api: Api, lab: Lab) -> None:
    server = lab({"text": "Yes."})
    ask(api.open(server.url), Ask(turns=[UserTurn("hi")], effort="low"))
    body = server.requests[0].body
    emitted = {
        ANTHROPIC: lambda: (body["thinking"]["type"], body["output_config"]["effort"]),
        RESPONSES: lambda: body["reasoning"],
        CHAT: lambda: body["reasoning_effort"],
        GEMINI: lambda: body["generationConfig"]["thinkingConfig"],
    }[api]()
    assert (
        emitted
        == {
            ANTHROPIC: ("adaptive", "low"),
            RESPONSES: {"effort": "low", "summary": "auto"},
            CHAT: "low",
            GEMINI: {"includeThoughts": True, "thinkingBudget": 1024},
        }[api]
    )


def test_a_conversation_is_encoded_once(api: Api, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    server = lab({"text": "One."}, {"text": "Two."})
    model = api.open(server.url)
    wire = model._wire  # type: ignore[attr-defined]
    counted: list[Turn] = []
    encode_one = wire._turns._encode_one
    monkeypatch.setattr(wire._turns, "_encode_one", lambda turn: (counted.append(turn), encode_one(turn))[1])
    turns: list[Turn] = [UserTurn("hi")]
    turns.append(turn_of(ask(model, Ask(turns=turns))))
    turns.append(UserTurn("and?"))
    ask(model, Ask(turns=list(turns)))
    assert counted == turns


def test_a_prompt_is_cached_as_far_as_it_stays_the_same(lab: Lab) -> None:
    server = lab({"text": "never"}, {"text": "Yes."})
    turns = [SystemTurn("Be brief."), UserTurn("one"), AssistantTurn("1"), UserTurn("two")]
    ask(ANTHROPIC.open(server.url), Ask(turns=turns, tools=[READ]))
    body = server.requests[0].body
    assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert ["cache_control" in message["content"][-1] for message in body["messages"]] == [True, False, True]
    assert msgspec.json.encode(body).count(b"cache_control") <= 4


def test_a_conversation_with_calls_defines_tools_even_where_none_may_be_called(lab: Lab) -> None:
    server = lab({"text": "never"}, {"text": "In short."})
    turns = [UserTurn("hi"), AssistantTurn("", (Call("call_1", "read", {}),)), ToolTurn("call_1", "x")]
    events = ask(ANTHROPIC.open(server.url), Ask(turns=turns))
    assert only(events, Message).text == "In short."
    body = server.requests[0].body
    assert [tool["name"] for tool in body["tools"]] == ["read"]
    assert body["tool_choice"] == {"type": "none"}


def test_a_model_that_takes_a_budget_is_given_one(lab: Lab) -> None:
    server = lab({"text": "Yes."})
    model = ANTHROPIC.open(server.url, model="anthropic/claude-haiku-4-5")
    ask(model, Ask(turns=[UserTurn("hi")], effort="medium", temperature=0.2))
    body = server.requests[0].body
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert "temperature" not in body


def test_a_key_is_in_no_event(api: Api, lab: Lab) -> None:
    server = lab([{"text": "Hi."}, {"fault": "500", "message": f"broken for {KEY}"}])
    model = api.open(server.url)
    events = ask(model, HELLO)
    assert len(events) > 3
    assert KEY not in msgspec.json.encode(events).decode()
    assert KEY not in repr((model, vars(model)))


def test_one_conversation_is_named_alike_by_every_model_object() -> None:
    """OpenAI finds what it has read by this name: a new one with every message is a cache that is never hit."""

    def key(conversation_id: str) -> str:
        endpoint = ModelEndpoint(provider="openai", model="gpt-5", url="http://localhost")
        asked = Responses(endpoint).prepare(Ask(turns=(UserTurn("hi"),), conversation_id=conversation_id))
        return str(msgspec.json.decode(asked.body)["prompt_cache_key"])

    assert key("a" * 100) == key("a" * 100)
    assert len({key("a" * 100), key("b"), key(""), key("")}) == 4
    assert len(key("a" * 100)) <= 64
