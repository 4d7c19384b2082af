"""OpenAI's own client in front of an agent: chats, responses, what is asked in them, and what goes wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from harness.log.store import Query
from live_server import TIMEOUT_S, LiveServer, Watcher, run

BASH = '{ tool = "bash", input = { command = "head -c0 /dev/null > made" } }'
ASK = """{ tool = "ask_user", input = { question = "Which colour?", options = [{ label = "red" }, { label = "blue" }] } }"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path)
    server.endpoints = ["openai"]
    with server.serving_now() as serving:
        yield serving


def client_of(server: LiveServer, key: str = "") -> openai.OpenAI:
    token = key or server.access.token
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=token, max_retries=2, timeout=TIMEOUT_S)


def scripted(server: LiveServer, *turns: str, pause_ms: int = 0) -> str:
    """The agent with a model that says this, in one conversation after the other."""
    shown = [turn if turn.startswith("{") else f'{{ text = "{turn}", pieces = 3 }}' for turn in turns]
    lines = "".join(f"  [ {turn} ],\n" for turn in shown)
    path = server.folder / f"script{len(list(server.folder.glob('*.toml')))}.toml"
    path.write_text(f"pause_ms = {pause_ms}\nturns = [\n{lines}]\n")
    return f"native/scripted/{path}"


def user(text: Any) -> Any:
    return {"role": "user", "content": text}


def sessions(server: LiveServer) -> list[str]:
    return [one.session_id for one in server.store.find(Query())]


def test_a_chat_goes_on_in_one_session_whole_and_as_a_stream(served: LiveServer) -> None:
    model, client = scripted(served, "First.", "Second.", "Third."), client_of(served)
    messages = [{"role": "system", "content": "Be short."}, user("one")]
    answer = client.chat.completions.with_raw_response.create(model=model, messages=messages, tools=[])
    first = answer.parse()
    assert (first.choices[0].message.content, first.choices[0].finish_reason) == ("First.", "stop")
    assert first.model == model
    log_id = answer.headers["x-harness-session"]
    messages += [{"role": "assistant", "content": "First."}, user("two")]
    stream = client.chat.completions.create(
        model=model, messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    pieces = [one.choices[0].delta.content or "" for one in chunks if one.choices]
    assert len([piece for piece in pieces if piece]) > 1
    assert sessions(served) == [log_id]
    assert "".join(pieces) == "Second."
    assert chunks[-1].usage is not None
    # The same history again is another branch: the session has gone on.
    third = client.chat.completions.with_raw_response.create(model=model, messages=messages)
    assert third.headers["x-harness-session"] != log_id
    named_one = client.chat.completions.create(
        model=model, messages=[user("three")], extra_headers={"x-harness-session": log_id}
    )
    assert named_one.choices[0].message.content == "Third."


def test_what_a_chat_would_have_to_ask_is_denied_and_the_text_says_it(served: LiveServer) -> None:
    model = scripted(served, BASH, "I could not.")
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    answer = client_of(served).chat.completions.with_raw_response.create(
        model=model, messages=[user("make it")], tools=tools
    )
    message = answer.parse().choices[0].message
    assert message.tool_calls is None
    assert message.content is not None
    assert "Not allowed" in message.content
    assert "Nobody can be asked in a chat." in message.content
    assert message.content.endswith("I could not.")
    assert answer.headers["x-harness-ignored"] == "tools"
    assert not (served.folder / "made").exists()


def test_a_session_that_may_do_more_than_those_of_the_endpoint_is_refused(served: LiveServer) -> None:
    """The token is enough for everything, but a program that was given this endpoint is to have what it was given."""
    model, client = scripted(served, "First.", "Second."), client_of(served)
    answer = client.chat.completions.with_raw_response.create(model=model, messages=[user("one")])
    named = {"x-harness-session": answer.headers["x-harness-session"]}
    response = client.responses.create(model=model, input="two")

    async def give_more(log_id: str) -> None:
        async with served.connect(log_id) as socket:
            page = Watcher(socket)
            await page.command("configure", config={"permissionMode": "fullAuto"})
            await page.until(
                lambda _: served.store.metadata(log_id).settings.get("permissionMode") == "fullAuto"
            )

    for log_id in sessions(served):
        run(give_more(log_id))
    with pytest.raises(openai.PermissionDeniedError, match="may do more without asking"):
        client.chat.completions.create(model=model, messages=[user("go on")], extra_headers=named)
    with pytest.raises(openai.PermissionDeniedError, match="may do more without asking"):
        client.responses.create(model=model, input="go on", previous_response_id=response.id)


def test_a_response_asks_for_permission_and_the_next_one_goes_on(served: LiveServer) -> None:
    model, client = scripted(served, BASH, "Made.", "Bye."), client_of(served)
    first = client.responses.create(model=model, input="make it")
    assert first.status == "completed"
    asked = first.output[-1]
    assert asked.type == "mcp_approval_request"
    with pytest.raises(openai.BadRequestError, match="is not answered"):
        client.responses.create(model=model, input="well?", previous_response_id=first.id)
    reply = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
    with client.responses.stream(model=model, input=[reply], previous_response_id=first.id) as stream:  # type: ignore[list-item]
        kinds = [event.type for event in stream]
        second = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert [one.type for one in second.output] == ["mcp_call", "message"]
    assert second.output_text == "Made."
    assert (served.folder / "made").exists()
    again = client.responses.create(model=model, input=[reply], previous_response_id=first.id)  # type: ignore[list-item]
    assert again.id == second.id  # it was answered: what came of it is the answer
    third = client.responses.create(model=model, input="bye", previous_response_id=second.id)
    assert third.output_text == "Bye."
    assert len(sessions(served)) == 1


def test_a_question_of_a_response_is_answered_by_the_next_input(served: LiveServer) -> None:
    model, client = scripted(served, ASK, "So be it."), client_of(served)
    first = client.responses.create(model=model, input="ask me")
    assert "Which colour?" in first.output_text
    assert "- blue" in first.output_text
    second = client.responses.create(model=model, input="blue", previous_response_id=first.id)
    assert second.output_text == "So be it."


def test_a_session_continues_after_the_server_was_started_again(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    server.endpoints = ["openai"]
    model = scripted(server, BASH, "Made.")
    with server.serving_now():
        first = client_of(server).responses.create(model=model, input="make it")
    with server.serving_now():
        reply: Any = {
            "type": "mcp_approval_response",
            "approval_request_id": first.output[-1].id,
            "approve": False,
        }
        second = client_of(server).responses.create(model=model, input=[reply], previous_response_id=first.id)
    assert second.output_text == "Made."
    assert not (tmp_path / "made").exists()


def test_a_history_that_nobody_knows_is_the_context_of_a_new_session(served: LiveServer) -> None:
    model = scripted(served, "Yes.")
    messages: Any = [user("My name is Ada."), {"role": "assistant", "content": "Hello."}, user("And now?")]
    answer = client_of(served).chat.completions.create(model=model, messages=messages)
    assert answer.choices[0].message.content == "Yes."
    (log_id,) = sessions(served)
    with served.http() as http:
        prompt = http.get(f"/api/sessions/{log_id}").json()["prompt"]
    assert "My name is Ada." in prompt
    assert prompt.endswith("And now?")


def test_models_are_agents_and_unknown_ones_are_refused(served: LiveServer) -> None:
    client = client_of(served)
    names = [one.id for one in client.models.list()]
    assert names[0] == "native"
    assert client.models.retrieve("native").owned_by == "harness"
    for name in ("gpt-4o", "", "no/such", "../x"):
        with pytest.raises(openai.NotFoundError) as refused:
            client.chat.completions.create(model=name, messages=[user("x")])
        assert refused.value.code == "model_not_found"


def test_a_run_that_fails_is_an_error_in_all_four_ways_and_runs_once(served: LiveServer) -> None:
    client = client_of(served)
    missing = f"native/scripted/{served.folder}/nothing.json"
    with pytest.raises(openai.APIStatusError) as whole:
        client.chat.completions.create(model=missing, messages=[user("x")])
    assert whole.value.status_code in (400, 422)
    count = len(sessions(served))
    assert count <= 1  # the client has not repeated it
    with suppress(openai.APIError):
        for _ in client.chat.completions.create(model=missing, messages=[user("x")], stream=True):
            pass
        pytest.fail("a stream that fails raises")
    with suppress(openai.BadRequestError):
        assert client.responses.create(model=missing, input="x").status == "failed"


@pytest.mark.parametrize(
    "body",
    [
        {"model": "native"},
        {"model": "native", "messages": []},
        {"model": "native", "messages": [{"role": "assistant", "content": "x"}]},
        {"model": "native", "messages": [user([{"type": "image_url", "image_url": {"url": "http://x/y"}}])]},
        {"model": 3, "messages": [user("x")]},
        [],
    ],
)
def test_a_request_of_another_shape_is_refused_as_the_api_does(served: LiveServer, body: Any) -> None:
    with served.http() as http:
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "code", "param"}
    assert sessions(served) == []


def test_prompts_that_are_too_large_and_sessions_and_responses_that_are_not_there(served: LiveServer) -> None:
    client = client_of(served)
    with pytest.raises(openai.APIStatusError) as large:
        client.chat.completions.create(model="native", messages=[user("x" * (5 * 1024 * 1024))])
    assert large.value.status_code == 413
    for session in ("nope", "../../etc/passwd"):
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(
                model="native", messages=[user("x")], extra_headers={"x-harness-session": session}
            )
    for response in ("resp_nope.1", "resp_../x.1", "other"):
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="native", input="x", previous_response_id=response)


def test_without_the_token_and_unless_it_is_enabled_there_is_nothing(
    served: LiveServer, live: LiveServer
) -> None:
    with pytest.raises(openai.AuthenticationError):
        client_of(served, "wrong").models.list()
    with live.http() as http:
        for path in ("/v1/models", "/v1/models/native"):
            assert http.get(path).status_code == 404
        for path in ("/v1/chat/completions", "/v1/responses", "/agui", "/agui/native"):
            assert http.post(path, json={}).status_code in (404, 405)


def test_a_client_that_goes_away_stops_its_run(served: LiveServer) -> None:
    slow = '{ text = "word word word word", pieces = 400 }'
    body = {"model": scripted(served, slow, pause_ms=100), "messages": [user("go")], "stream": True}
    with (
        httpx.Client(headers=served.bearer, timeout=TIMEOUT_S) as http,
        http.stream("POST", f"{served.url}/v1/chat/completions", json=body) as answer,
    ):
        log_id = answer.headers["x-harness-session"]
        next(answer.iter_lines())
    ended = threading.Event()
    with served.http() as http:
        for _ in range(600):
            if http.get(f"/api/sessions/{log_id}").json()["outcome"] == "interrupted":
                return
            ended.wait(0.05)
    pytest.fail("it runs on")


def test_requests_to_one_session_at_once_get_their_own_answers(served: LiveServer) -> None:
    """All were sent, and the second one got the answer to the first."""
    client, texts = client_of(served), ["First.", "Second.", "Third.", "Fourth."]
    model = scripted(served, *texts, pause_ms=20)
    client.chat.completions.create(model=model, messages=[user("begin")])
    (session,) = sessions(served)
    headers = {**served.bearer, "x-harness-session": session}
    body = {"model": model, "messages": [user("go on")]}

    async def answers() -> list[str]:
        async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http:
            posts = [http.post(f"{served.url}/v1/chat/completions", json=body) for _ in range(3)]
            found = [answer.json() for answer in await asyncio.gather(*posts)]
            return sorted(one["choices"][0]["message"]["content"] for one in found)

    assert asyncio.run(answers()) == sorted(texts[1:])
