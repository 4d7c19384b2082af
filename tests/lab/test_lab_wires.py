"""Every API says the same of the same turn, in its own words, streamed or whole."""

from __future__ import annotations

import json

import pytest

from harness.models.wires.wire import pieces
from lab_answers import READERS
from lab_client import ROUTES, Client, Serve, ask, question

UNICODE = 'ünï ⟶ 漢字 👩‍👩‍👧 "quoted" \\ \u2028 line \u2029 end\r\n\ttab'
TURN = [
    {"reasoning": "First I think."},
    {"text": UNICODE},
    {"tool": "shell", "input": {"command": "echo ünï", "n": [1, None, True]}},
    {"tool": "shell", "input": {}},
    {"usage": {"input": 11, "output": 7, "cache_read": 5, "cache_write": 3, "reasoning": 2}},
]
USAGE = {
    "anthropic": {
        "input_tokens": 11,
        "output_tokens": 9,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 3,
    },
    "chat": {
        "prompt_tokens": 19,
        "completion_tokens": 9,
        "total_tokens": 28,
        "prompt_tokens_details": {"cached_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
    "responses": {
        "input_tokens": 19,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 28,
    },
    "gemini": {
        "promptTokenCount": 19,
        "candidatesTokenCount": 7,
        "totalTokenCount": 28,
        "cachedContentTokenCount": 5,
        "thoughtsTokenCount": 2,
    },
}
STOPS = {
    "anthropic": ("tool_use", "end_turn", "max_tokens", "refusal"),
    "chat": ("tool_calls", "stop", "length", "content_filter"),
    "responses": ("completed", "completed", "incomplete", "incomplete"),
    "gemini": ("STOP", "STOP", "MAX_TOKENS", "SAFETY"),
}
WIRES = sorted(ROUTES)
FORMS = [
    pytest.param(wire, stream, id=f"{wire}-{'stream' if stream else 'whole'}") for wire, stream in READERS
]


@pytest.mark.parametrize(("wire", "stream"), FORMS)
def test_a_turn_arrives_as_it_was_written(serve: Serve, wire: str, stream: bool) -> None:
    reply = ask(serve({"turns": [TURN]}).port, wire, stream=stream)
    made = READERS[wire, stream](reply)
    assert reply.status == 200
    assert made.text == UNICODE
    assert made.reasoning == "First I think."
    assert made.calls == [("shell", {"command": "echo ünï", "n": [1, None, True]}), ("shell", {})]
    assert made.stop == STOPS[wire][0]
    assert made.usage == made.usage | USAGE[wire]
    assert len(set(made.ids)) == len(made.ids)


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_comes_in_pieces_under_the_right_type(serve: Serve, wire: str) -> None:
    reply = ask(serve({"turns": [{"text": "0123456789", "pieces": 5}]}).port, wire)
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["transfer-encoding"] == "chunked"
    assert READERS[wire, True](reply).pieces == 5


@pytest.mark.parametrize(("wire", "stream"), FORMS)
@pytest.mark.parametrize(
    ("parts", "expected"), [([], 1), ([{"stop": "length"}], 2), ([{"stop": "refusal"}], 3)]
)
def test_why_it_ended_is_said(
    serve: Serve, wire: str, stream: bool, parts: list[dict[str, str]], expected: int
) -> None:
    port = serve({"turns": [[{"text": "Well"}, *parts]]}).port
    assert READERS[wire, stream](ask(port, wire, stream=stream)).stop == STOPS[wire][expected]


@pytest.mark.parametrize(("wire", "stream"), FORMS)
def test_an_answer_without_anything_is_still_an_answer(serve: Serve, wire: str, stream: bool) -> None:
    port = serve({"turns": [[]], "usage": {"output": 0}}).port
    made = READERS[wire, stream](ask(port, wire, stream=stream))
    assert (made.text, made.reasoning, made.calls) == ("", "", [])


def test_tools_of_free_text_have_calls_of_their_own_in_responses(serve: Serve) -> None:
    patch = "*** Begin Patch\n*** End Patch\n"
    port = serve(
        {"turns": [[{"tool": "apply_patch", "input": patch}, {"tool": "wait", "namespace": "team"}]]}
    ).port
    reply = ask(port, "responses")
    custom, function = reply.events[-1][1]["response"]["output"]
    assert (custom["type"], custom["input"]) == ("custom_tool_call", patch)
    assert (function["type"], function["namespace"], function["arguments"]) == ("function_call", "team", "{}")
    assert READERS["responses", True](reply).calls[0] == ("apply_patch", patch)


def test_gemini_streams_an_array_when_it_is_not_asked_for_events(serve: Serve) -> None:
    path = "/v1beta/models/lab-model:streamGenerateContent"
    with Client(serve({"turns": [TURN]}).port) as client:
        reply = client.ask("POST", path, question("gemini", "Go.", stream=True))
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.data) > 3
    assert READERS["gemini", False](reply).text == UNICODE


def test_gemini_escapes_what_its_own_client_takes_for_the_end_of_a_line(serve: Serve) -> None:
    body = ask(serve({"turns": [TURN]}).port, "gemini").body
    assert b"\\u2028" in body
    assert "\u2028".encode() not in body


def test_tokens_are_counted_and_models_listed_for_every_client(serve: Serve) -> None:
    with Client(serve({"turns": [[]]}).port) as client:
        assert client.ask("POST", "/v1/messages/count_tokens", {"messages": []}).data["input_tokens"] > 0
        assert client.ask("POST", "/v1beta/models/x:countTokens", {}).data["totalTokens"] > 0
        theirs = client.ask("GET", "/v1/models?limit=9", headers={"anthropic-version": "2023-06-01"}).data
        assert theirs["data"][0]["type"] == "model"
        assert client.ask("GET", "/v1/models").data["data"][0]["object"] == "model"
        assert client.ask("GET", "/v1beta/models").data["models"][0]["name"].startswith("models/")
        google = {"x-goog-api-key": "k"}
        assert client.ask("GET", "/v1/models", headers=google).data["models"][0]["displayName"]


def test_a_model_of_any_name_is_there_for_every_client(serve: Serve) -> None:
    with Client(serve({"turns": [[]]}).port) as client:
        theirs = client.ask("GET", "/v1/models/my-model", headers={"anthropic-version": "2023-06-01"}).data
        assert (theirs["type"], theirs["id"]) == ("model", "my-model")
        assert client.ask("GET", "/v1/models/maker/my-model").data["id"] == "maker/my-model"
        assert client.ask("GET", "/v1beta/models/my-model").data["name"] == "models/my-model"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "body",
    [None, 7, "text", [], {}, {"messages": 5, "input": 5, "contents": 5}, {"messages": [], "input": []}],
)
def test_a_request_without_a_conversation_is_refused_in_the_words_of_its_api(
    serve: Serve, wire: str, body: object
) -> None:
    server = serve({"turns": [{"text": "ok"}]})
    field = {"responses": "input", "gemini": "contents"}.get(wire, "messages")
    with Client(server.port) as client:
        raw = json.dumps(body).encode() if body != "text" else b"{ not json \xff"
        reply = client.ask("POST", ROUTES[wire], raw=raw)
    assert reply.status == 400
    assert f"`{field}`" in reply.data["error"]["message"]
    assert (reply.data.get("type") == "error") is (wire == "anthropic")
    assert [(entry.outcome, entry.wire) for entry in server.requests] == [("unreadable", wire)]


@pytest.mark.parametrize("wire", WIRES)
def test_a_conversation_of_any_shape_is_answered(serve: Serve, wire: str) -> None:
    strange = [3, {"role": ["x"], "content": 7, "parts": {"text": 5}}]
    with Client(serve({"turns": [{"text": "ok"}]}).port) as client:
        body = {"messages": strange, "input": strange, "contents": strange, "tools": 7, "model": []}
        assert client.ask("POST", ROUTES[wire], body).status == 200


def test_a_text_is_one_part_of_a_whole_gemini_answer(serve: Serve) -> None:
    script = {"turns": [[{"reasoning": "Let me think."}, {"text": "Hello there.", "pieces": 3}]]}
    reply = ask(serve(script).port, "gemini", stream=False)
    parts = reply.data["candidates"][0]["content"]["parts"]
    assert parts == [{"text": "Let me think.", "thought": True}, {"text": "Hello there."}]


@pytest.mark.parametrize(("text", "count", "made"), [("1234567", 5, 5), ("12", 5, 2), ("123456789", None, 4)])
def test_a_text_comes_in_as_many_pieces_as_are_asked_for(text: str, count: int | None, made: int) -> None:
    found = pieces(text, count)
    assert (len(found), "".join(found), min(map(len, found)) > 0) == (made, text, True)
