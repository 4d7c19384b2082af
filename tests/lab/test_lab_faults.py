"""What a script says goes wrong does go wrong, as often as it says, and then goes right."""

from __future__ import annotations

import json
import time

import pytest

from lab_answers import READERS
from lab_client import ROUTES, Client, Cut, Serve, ask, question, route

WIRES = sorted(ROUTES)
STREAMED = json.dumps(question("chat", "Go.", stream=True)).encode()
KINDS = {
    "anthropic": {
        401: "authentication_error",
        429: "rate_limit_error",
        500: "api_error",
        529: "overloaded_error",
    },
    "chat": {401: "invalid_api_key", 429: "rate_limit_exceeded", 500: "server_error", 529: "server_error"},
    "responses": {
        401: "invalid_api_key",
        429: "rate_limit_exceeded",
        500: "server_error",
        529: "server_error",
    },
    "gemini": {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 529: "UNAVAILABLE"},
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_a_request_is_refused_in_the_words_of_its_api(serve: Serve, wire: str, status: int) -> None:
    server = serve({"turns": [[{"fault": str(status), "message": "Not now."}, {"text": "Now."}]]})
    reply = ask(server.port, wire)
    assert reply.status == status
    assert reply.headers["content-type"] == "application/json"
    assert "Not now." in reply.data["error"]["message"]
    assert KINDS[wire][status] in str(reply.data)
    assert server.requests[0].outcome == "refused"
    assert READERS[wire, True](ask(server.port, wire)).text == "Now."


@pytest.mark.parametrize("wire", WIRES)
def test_how_long_to_wait_is_said(serve: Serve, wire: str) -> None:
    port = serve({"turns": [[{"fault": "429", "retry_after_s": 1.5}, {"text": "Now."}]]}).port
    reply = ask(port, wire)
    assert reply.headers["retry-after"] == "1.5"
    assert wire != "gemini" or reply.data["error"]["details"][0]["retryDelay"] == "1.5s"


def test_faults_come_one_after_the_other_and_again_once_the_turn_was_answered(serve: Serve) -> None:
    faults = [{"fault": "500", "times": 2}, {"fault": "429"}, {"fault": "drop", "after": 0}]
    server = serve({"turns": [[*faults, {"text": "Now."}]]})
    for _ in range(2):
        assert [ask(server.port, "chat").status for _ in range(3)] == [500, 500, 429]
        with pytest.raises(Cut):
            ask(server.port, "chat")
        assert ask(server.port, "chat").status == 200
    assert [entry.status for entry in server.requests[:5]] == [500, 500, 429, 0, 200]


def test_a_fault_may_stay_for_ever(serve: Serve) -> None:
    port = serve({"turns": [[{"fault": "401", "times": "always"}, {"text": "Never."}]]}).port
    assert {ask(port, "anthropic").status for _ in range(4)} == {401}


def test_each_conversation_meets_its_own_faults(serve: Serve) -> None:
    port = serve({"turns": [[{"fault": "500"}, {"text": "Now."}]]}).port
    assert [ask(port, "chat", prompt).status for prompt in ("a", "b", "a", "b")] == [500, 500, 200, 200]


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_breaks_off_in_the_middle_of_its_first_part(serve: Serve, wire: str) -> None:
    text = "0123456789"
    server = serve({"turns": [[{"fault": "drop"}, {"text": text, "pieces": 10}, {"tool": "shell"}]]})
    with Client(server.port) as client:
        reply = client.ask("POST", route(wire, stream=True), question(wire, "Go.", stream=True))
        assert reply.is_cut
        assert client.is_closed()
    assert b'"0"' in reply.body
    assert b'"9"' not in reply.body
    assert b"shell" not in reply.body
    assert server.requests[0].outcome == "dropped"
    made = READERS[wire, True](ask(server.port, wire))
    assert (made.text, len(made.calls)) == (text, 1)


@pytest.mark.parametrize("wire", WIRES)
def test_a_whole_answer_breaks_off_too(serve: Serve, wire: str) -> None:
    port = serve({"turns": [[{"fault": "drop"}, {"text": "x" * 500}]]}).port
    reply = ask(port, wire, stream=False)
    assert reply.is_cut
    assert 0 < len(reply.body) < int(reply.headers["content-length"])


def test_a_stream_may_break_off_after_so_many_events(serve: Serve) -> None:
    port = serve({"turns": [[{"fault": "drop", "after": 3}, {"text": "0123456789", "pieces": 10}]]}).port
    assert [name for name, _ in ask(port, "anthropic").events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
    ]


@pytest.mark.parametrize(("wire", "stream"), READERS)
def test_arguments_may_be_no_json(serve: Serve, wire: str, stream: bool) -> None:
    turn = [{"fault": "malformed_arguments", "times": 1}, {"tool": "shell", "input": {"command": "echo hi"}}]
    port = serve({"turns": [turn]}).port
    made = READERS[wire, stream](ask(port, wire, stream=stream))
    if wire == "gemini":
        assert (made.calls, made.stop) == ([], "MALFORMED_FUNCTION_CALL")
    else:
        ((name, arguments),) = made.calls
        assert name == "shell"
        assert isinstance(arguments, str)
        assert '{"command":"echo hi"}'.startswith(arguments)
    mended = READERS[wire, stream](ask(port, wire, stream=stream))
    assert mended.calls == [("shell", {"command": "echo hi"})]


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_may_be_huge(serve: Serve, wire: str) -> None:
    port = serve({"turns": [[{"text": "So:"}, {"fault": "huge", "bytes": 2_000_000}]]}).port
    assert len(READERS[wire, True](ask(port, wire)).text) == 2_000_003


def test_a_slow_answer_takes_its_time_and_comes_bit_by_bit(serve: Serve) -> None:
    slow = {"fault": "slow", "pause_s": 0.02, "wait_s": 0.1}
    port = serve({"turns": [[slow, {"text": "0123456789", "pieces": 10}]]}).port
    began = time.monotonic()
    with Client(port) as client:
        client.send("POST", ROUTES["chat"], {"content-length": str(len(STREAMED))}, STREAMED)
        first = client.connection.recv(65536)
        assert time.monotonic() - began >= 0.1
        assert b"[DONE]" not in first
        client.buffer = first
        assert READERS["chat", True](client.receive()).text == "0123456789"
    assert time.monotonic() - began >= 0.1 + 12 * 0.02


def test_closing_the_server_ends_a_slow_answer_at_once(serve: Serve) -> None:
    server = serve({"turns": [[{"fault": "slow", "pause_s": 60}, {"text": "Never."}]]})
    with Client(server.port) as client:
        client.send("POST", ROUTES["chat"], {"content-length": str(len(STREAMED))}, STREAMED)
        client._until(b"\r\n\r\n")
        began = time.monotonic()
        server.close()
        assert client.is_closed()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("wire", WIRES)
def test_every_status_that_a_gateway_may_give_can_be_scripted_as_a_number_too(
    serve: Serve, wire: str
) -> None:
    for status in (402, 408, 409, 413, 422, 502, 504):
        port = serve({"turns": [[{"fault": status}, {"text": "Then."}]]}).port
        refused = ask(port, wire)
        assert refused.status == status
        assert refused.data["error"]["message"]
        assert READERS[wire, False](ask(port, wire, stream=False)).text == "Then."


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_began_well_may_have_an_error(serve: Serve, wire: str) -> None:
    fault = {"fault": 529, "after": 3, "message": "Too many."}
    server = serve({"turns": [[fault, {"text": "Hello there.", "pieces": 5}]]})
    broken = ask(server.port, wire, stream=True)
    *sent, (kind, last) = broken.events
    error = last["response"]["error"] if wire == "responses" else last["error"]
    assert (broken.status, len(sent), error["message"]) == (200, 3, "Too many.")
    assert kind == {"anthropic": "error", "responses": "response.failed"}.get(wire, "")
    assert READERS[wire, True](ask(server.port, wire, stream=True)).text == "Hello there."
    assert [entry.outcome for entry in server.requests] == ["refused", "answered"]
    assert ask(server.port, wire, stream=False).status == 529
