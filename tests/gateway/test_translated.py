"""Any program on any model: our own clients ask through a gateway that translates, and get what they would get directly."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from gateway_far_sides import TOKEN
from harness.contracts.model import (
    Ask,
    AssistantTurn,
    Attachment,
    Call,
    SystemTurn,
    ToolSpec,
    ToolTurn,
    UserTurn,
)
from harness.events import Error, Event, Message, ReasoningDelta, StepEnd, TextDelta, UsageDelta
from harness.gateway.ask_reading import attachment_of, read_ask
from harness.gateway.call_events import CallEvents
from harness.gateway.call_records import CallRecords
from harness.gateway.gateway import ModelGateway
from harness.gateway.translated import Translated
from harness.lab import LabServer, ScriptRun, parse_script
from harness.log.raw import RawCall
from harness.models.failure import Retries
from harness.models.registry import open_model
from harness.models.wires.wire import HttpRequest, all_wires

MODELS = {
    "anthropic": ("anthropic/claude-sonnet-4-6", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", ""),
    "chat": ("openai-chat/gpt-4.1", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"),
    "gemini": ("gemini/gemini-2.5-pro", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", ""),
    "responses": ("openai/gpt-5.5", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"),
}
PAIRS = [(one, other) for one, other in itertools.product(MODELS, MODELS) if one != other]
PICTURE = Attachment(
    "image/png",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
)
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"path": {"type": "string"}}})
SAY = ToolSpec("say", "Says.", {"type": "object", "properties": {"words": {"type": "string"}}})
ONCE = Retries(limit=0)

SCENARIOS: dict[str, Any] = {
    "text": [[{"text": "Grüße, 世界 🎉", "pieces": 5}]],
    "reasoning": [[{"reasoning": "Let me think of it.", "pieces": 3}, {"text": "So it is."}]],
    "a call": [[{"text": "I look."}, {"tool": "look", "input": {"path": "a b/ü.txt"}}]],
    "a call without words": [[{"tool": "look", "input": {"path": "x"}}]],
    "calls at once": [
        [
            {"tool": "look", "input": {"path": "a"}},
            {"tool": "say", "input": {"words": 'b\n"c"'}},
            {"tool": "look", "input": {}},
        ]
    ],
    "thought and calls": [[{"reasoning": "Hm."}, {"text": "Now."}, {"tool": "look", "input": {"path": "a"}}]],
    "nested arguments": [
        [{"tool": "say", "input": {"words": "w", "more": {"deep": [1, None, {"x": True}]}}}]
    ],
    "length": [[{"text": "It ends here"}, {"stop": "length"}]],
    "refusal": [[{"text": "No."}, {"stop": "refusal"}]],
    "usage": [[{"text": "x"}, {"usage": {"input": 77, "output": 8, "cache_read": 9, "reasoning": 5}}]],
    "empty words": [[{"text": ""}]],
    "long": [[{"text": "word " * 5000, "pieces": 200}]],
    "words of a stream": [[{"text": "data: [DONE]\n\nevent: message_stop\r\n: {}\n\n", "pieces": 6}]],
    "large arguments": [[{"tool": "say", "input": {"words": 'wörd \\" ' * 4000}}]],
    "overloaded": [[{"fault": "529"}, {"text": "never"}]],
    "not known": [[{"fault": "401"}, {"text": "never"}]],
    "too often": [[{"fault": "429", "retry_after_s": 7}, {"text": "never"}]],
    "broken": [[{"fault": "500"}, {"text": "never"}]],
    "broken in the middle": [
        [{"fault": "529", "after": 4}, {"text": "some words, then an error", "pieces": 8}]
    ],
    "cut": [[{"fault": "drop", "after": 4}, {"text": "some words that are cut off somewhere", "pieces": 8}]],
}


def _environ(wire: str, url: str, key: str) -> dict[str, str]:
    _, url_name, key_name, path = MODELS[wire]
    return {url_name: url + path, key_name: key}


@contextmanager
def translating(far_side: LabServer, wire: str) -> Iterator[tuple[ModelGateway, list[RawCall], list[str]]]:
    """A gateway whose calls a model of this API answers; what it records; what it says is lost."""
    recorded: list[RawCall] = []
    lost: list[str] = []
    opener = partial(_open, MODELS[wire][0], _environ(wire, far_side.url, "sk-the-real-key-of-the-far-side"))
    translated = Translated(opener, on_losses=lost.extend)
    with ModelGateway(translated, token=TOKEN, records=CallRecords(recorded.extend)) as gateway:
        yield gateway, recorded, lost
    translated.close()
    assert not gateway.faults, gateway.faults


def _open(name: str, environ: dict[str, str], retries: Retries) -> Any:
    return open_model(name, environ, retries=retries)


def events_of(name: str, environ: dict[str, str], ask: Ask) -> list[Event]:
    async def work() -> list[Event]:
        return [event async for event in open_model(name, environ, retries=ONCE).answer(ask)]

    return asyncio.run(work())


def gist(events: list[Event], *, usage: bool = True) -> dict[str, Any]:
    """What a program learns of an answer, without ids."""
    message = next((event for event in events if isinstance(event, Message)), None)
    used = next((event.usage for event in events if isinstance(event, UsageDelta)), None)
    error = next((event for event in events if isinstance(event, Error)), None)
    found: dict[str, Any] = {
        "text": message.text if message else None,
        "thought": "".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        "calls": [(one["name"], one["input"]) for one in (message.parts or [])] if message else None,
        "stop": next((event.stop_reason for event in events if isinstance(event, StepEnd)), None),
        "failed": error is not None,
    }
    if usage and used is not None:
        found["usage"] = (
            (used.input or 0) + (used.cache_read or 0) + (used.cache_write or 0),
            (used.output or 0) + (used.reasoning or 0),
        )
    return found


def _lab(turns: Any) -> LabServer:
    lab = LabServer()
    lab.script_run = ScriptRun(parse_script({"turns": turns, "order": "arrival"}))
    return lab


ASK = Ask(turns=[SystemTurn("Be brief."), UserTurn("Go.")], tools=[LOOK, SAY])


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(("program", "model"), PAIRS)
def test_an_answer_is_that_of_the_model_itself(program: str, model: str, scenario: str) -> None:
    with _lab(SCENARIOS[scenario]) as lab:
        expected = gist(events_of(MODELS[model][0], _environ(model, lab.url, "sk-key-of-the-lab-0123"), ASK))
    with _lab(SCENARIOS[scenario]) as lab, translating(lab, model) as (gateway, recorded, _):
        answered = events_of(MODELS[program][0], _environ(program, gateway.url, TOKEN), ASK)
        assert len(lab.requests) == 1  # nothing is asked again: the program does that
    if expected["failed"]:
        assert gist(answered, usage=False)["failed"]
        return
    assert gist(answered) == expected
    calls = CallEvents()
    told = [event for entry in recorded for event in calls.feed(entry)]
    [delta] = [event for event in told if isinstance(event, UsageDelta)]
    assert f"/{delta.model}" in MODELS[model][0]


@pytest.mark.parametrize(("program", "model"), PAIRS)
def test_a_conversation_arrives_whole(program: str, model: str) -> None:
    turns = [
        SystemTurn("Be brief."),
        UserTurn("Look.", (PICTURE,)),
        AssistantTurn(
            "I look.", (Call("call_a1", "look", {"path": "a"}), Call("call_a2", "say", {"words": "b"}))
        ),
        ToolTurn("call_a1", "one\ntwo"),
        ToolTurn(
            "call_a2", "failed: ü", is_error=program in ("anthropic", "gemini")
        ),  # others have no word for it
        UserTurn("And now?"),
    ]
    with _lab([[{"text": "x"}]] * 3) as direct:
        events_of(
            MODELS[model][0],
            _environ(model, direct.url, "sk-key-of-the-lab-0123"),
            Ask(turns=turns, tools=[LOOK, SAY]),
        )
        expected = direct.requests[0].body
    with _lab([[{"text": "x"}]] * 3) as lab, translating(lab, model) as (gateway, _, _lost):
        answered = events_of(
            MODELS[program][0], _environ(program, gateway.url, TOKEN), Ask(turns=turns, tools=[LOOK, SAY])
        )
        assert not gist(answered)["failed"]
        sent = lab.requests[0].body
    assert _said(model, sent) == _said(model, expected)


def _said(wire: str, body: Any) -> Any:
    said = all_wires()[wire].said(body)
    items = [
        (one.role, one.kind, json.dumps(one.value, sort_keys=True), one.name)
        for one in said.items
        if one.kind in ("text", "call", "result", "image")
    ]
    return said.system, items, sorted(said.tools)


@pytest.mark.parametrize("program", MODELS)
def test_the_far_side_gets_its_own_ids_and_signatures_back(program: str) -> None:
    """Ids of calls are those of the model that made them, and its thoughts go back to it with them."""
    model = "anthropic" if program != "anthropic" else "responses"
    script = [[{"reasoning": "Hm."}, {"tool": "look", "input": {"path": "a"}}], [{"text": "Done."}]]
    with _lab(script) as lab, translating(lab, model) as (gateway, _, _lost):
        environ = _environ(program, gateway.url, TOKEN)
        first = events_of(MODELS[program][0], environ, ASK)
        message = next(event for event in first if isinstance(event, Message))
        [part] = message.parts or []
        again = Ask(
            turns=[
                *ASK.turns,
                AssistantTurn(message.text, (Call(part["id"], "look", part["input"]),), message.opaque),
                ToolTurn(part["id"], "nothing"),
            ],
            tools=ASK.tools,
        )
        second = events_of(MODELS[program][0], environ, again)
        assert gist(second)["text"] == "Done."
        sent = json.dumps(lab.requests[1].body)
    if program != "gemini":  # it has no ids
        assert "bGFi" in sent  # the lab's signature


def test_pieces_are_passed_on_as_they_come() -> None:
    """The first words arrive before the model has said its last."""

    class Slow:
        name = "slow/model"

        async def answer(self, ask: Ask) -> Any:
            del ask
            yield TextDelta(id="t", text="first ")
            await asyncio.to_thread(seen.acquire)
            yield TextDelta(id="t", text="last")
            yield Message(role="assistant", text="first last", id="t")
            yield StepEnd(id="", stop_reason="end")

    import threading

    seen = threading.Semaphore(0)
    translated = Translated(lambda _: Slow())
    with ModelGateway(translated, token=TOKEN) as gateway:

        async def work() -> list[str]:
            model = open_model(
                MODELS["anthropic"][0], _environ("anthropic", gateway.url, TOKEN), retries=ONCE
            )
            texts = []
            async for event in model.answer(ASK):
                if isinstance(event, TextDelta):
                    texts.append(event.text)
                    seen.release()
            return texts

        assert "".join(asyncio.run(work())) == "first last"
    translated.close()


def test_a_model_that_raises_is_an_error_of_the_api() -> None:
    class Broken:
        name = "broken/model"

        async def answer(self, ask: Ask) -> Any:
            del ask
            raise RuntimeError("oops")
            yield  # a generator

    translated = Translated(lambda _: Broken())
    with ModelGateway(translated, token=TOKEN) as gateway:
        answered = events_of(MODELS["chat"][0], _environ("chat", gateway.url, TOKEN), ASK)
        assert any(isinstance(event, Error) and "oops" in event.message for event in answered)
        assert not gateway.faults
    translated.close()


OF_CODEX: dict[str, Any] = {
    "model": "m",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Go."}]},
        {
            "type": "custom_tool_call",
            "call_id": "call_1",
            "name": "apply_patch",
            "input": "*** Begin Patch",
        },
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "ok"},
        {"type": "function_call", "call_id": "call_2", "name": "list", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_text", "text": "a"}],
        },
    ],
    "tools": [
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits.",
            "format": {"definition": "start: x"},
        },
        {
            "type": "namespace",
            "name": "agents",
            "tools": [{"type": "function", "name": "list", "parameters": {}}],
        },
        {"type": "web_search"},
    ],
    "tool_choice": "required",
}


def test_free_text_tools_and_namespaces_become_functions() -> None:
    wire = all_wires()["responses"]
    http = HttpRequest(method="POST", path="/v1/responses", query={}, headers={}, body=OF_CODEX)
    reading = read_ask(wire, http, lambda _: None)
    assert [(tool.name, tool.description) for tool in reading.ask.tools] == [
        ("apply_patch", "Edits.\nstart: x"),
        ("agents__list", ""),
    ]
    assert reading.own_tools["apply_patch"].is_free_text
    assert reading.own_tools["agents__list"][:2] == ("list", "agents")
    assert reading.losses == ("the tool web_search, which its provider runs", "tool_choice")
    calls = [call for turn in reading.ask.turns if isinstance(turn, AssistantTurn) for call in turn.calls]
    assert [(call.name, call.input) for call in calls] == [
        ("apply_patch", {"input": "*** Begin Patch"}),
        ("agents__list", {}),
    ]
    results = [turn.text for turn in reading.ask.turns if isinstance(turn, ToolTurn)]
    assert results == ["ok", "a"]


def test_calls_of_free_text_tools_and_namespaces_come_back() -> None:
    script = [[{"tool": "apply_patch", "input": {"input": "*** End"}}, {"tool": "agents__list", "input": {}}]]
    with _lab(script) as lab, translating(lab, "chat") as (gateway, _, lost):
        import urllib.request

        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        request = urllib.request.Request(
            f"{gateway.url}/v1/responses", json.dumps(OF_CODEX).encode(), headers
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            items = json.load(answer)["output"]
        assert "tool_choice" in lost
    assert [(one["type"], one["name"], one.get("namespace"), one.get("input")) for one in items] == [
        ("custom_tool_call", "apply_patch", None, "*** End"),
        ("function_call", "list", "agents", None),
    ]


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize(
    "body",
    [
        {},
        None,
        "text",
        [1],
        {"messages": [None, 1, "x", {"role": 3, "content": {"type": 4}}], "tools": "no", "system": 5},
        {
            "input": [{"type": "function_call"}, {"type": "x_output"}, 7],
            "tools": [{"type": "namespace", "tools": 3}],
        },
        {
            "contents": [{"parts": [{"functionCall": 3}, {"functionResponse": {}}, {"inlineData": 1}]}],
            "tools": [{}],
        },
        {"messages": [{"role": "assistant", "tool_calls": [{}, 1]}, {"role": "tool"}], "max_tokens": "many"},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}
            ]
        },
    ],
)
def test_any_body_is_read_without_an_exception(wire: str, body: Any) -> None:
    http = HttpRequest(method="POST", path="/v1/models/m:generateContent", query={}, headers={}, body=body)
    assert read_ask(all_wires()[wire], http, lambda _: None).ask is not None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "base64", "media_type": "image/png", "data": "AA=="}, ("image/png", "AA==")),
        ({"url": "data:image/png;base64,AA=="}, ("image/png", "AA==")),
        ("data:image/png;base64,AA==", ("image/png", "AA==")),
        ({"mimeType": "image/png", "data": "AA=="}, ("image/png", "AA==")),
        ({"type": "input_image", "image_url": "data:image/png;base64,AA=="}, ("image/png", "AA==")),
        ({"type": "url", "url": "https://example.org/a.png"}, None),
        ({"file_id": "f"}, None),
    ],
)
def test_pictures_in_the_form_of_every_api(value: Any, expected: tuple[str, str] | None) -> None:
    found = attachment_of(value)
    assert ((found.media_type, found.data) if found else None) == expected
