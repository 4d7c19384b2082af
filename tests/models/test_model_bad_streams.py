"""Model APIs against servers that misbehave: garbage, silence, broken pieces, and clients that leave early."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chat_chunks import DONE, call, calls_of, chat, chunk
from harness.contracts.model import Ask, UserTurn
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    StepEnd,
    TextDelta,
    TextRetracted,
    Usage,
    UsageDelta,
    Warning,
)
from harness.models.failure import Retries
from harness.models.http import HttpTimeouts
from model_asking import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    HELLO,
    KEY,
    RESPONSES,
    all_of,
    ask,
    collect,
    kinds,
    only,
)
from model_far_side import FarSide, chunks, data, silence, status, stream, stream_then_silence


def test_garbage_is_left_out_and_reported() -> None:
    broken = ["{not json", "[1,2", '{"choices":7}', "\ud83d".encode("utf-16", "surrogatepass").hex()]
    events = chat(
        *broken, chunk({"content": "Hi."}), b": comment\nevent: x\nid: 7\n\n", chunk({}, "stop"), DONE
    )
    assert only(events, Message).text == "Hi."
    assert only(events, Warning).code == "unreadable_stream"
    assert only(events, Warning).message.startswith("4 pieces")


@pytest.mark.parametrize("api", [ANTHROPIC, RESPONSES, CHAT, GEMINI], ids=lambda api: api.model)
@pytest.mark.parametrize(
    "reply",
    [stream(), stream(b"\xff\xfe\x00garbage\n\n"), stream("nonsense"), chunks([], kind="application/json")],
    ids=["nothing", "bytes", "no json", "empty json"],
)
def test_an_answer_with_nothing_in_it_is_an_error_after_new_tries(api: Any, reply: Any) -> None:
    with FarSide(reply) as far_side:
        events = ask(api.open(far_side.url))
    assert kinds(events)[:2] == ["Warning", "Warning"]
    assert kinds(events)[-2:] == ["Error", "StepEnd"]
    assert only(events, Error).code == "empty_answer"
    assert len(far_side.requests) == 3


def test_bytes_may_be_cut_anywhere() -> None:
    events = [
        chunk({"content": "Grüße 🙂"}),
        chunk(call('{"path":', id="c1", index=0)),
        chunk({}, "tool_calls"),
        DONE,
    ]
    whole = b"".join(map(data, events)).replace(b"\n\n", b"\r\n\r\n")
    results = []
    for size in (1, 2, 3, 7, len(whole)):
        with FarSide(chunks([whole[at : at + size] for at in range(0, len(whole), size)])) as far_side:
            message = only(ask(CHAT.open(far_side.url)), Message)
        results.append((message.text, message.parts))
    assert results[0][0] == "Grüße 🙂"
    assert all(result == results[0] for result in results)


def test_a_line_may_be_as_long_as_it_is() -> None:
    text = "x" * 5_000_000
    assert only(chat(chunk({"content": text}), chunk({}, "stop"), DONE), Message).text == text


def test_data_may_stand_on_several_lines_and_need_not_end() -> None:
    pretty = b'data: {"choices":\ndata: [{"delta": {"content": "Hi."}}]}\n\n'
    last = data(chunk({}, "stop")).rstrip()
    assert only(chat(pretty, last), Message).text == "Hi."


def test_an_end_without_a_reason_is_one_but_no_end_is_not() -> None:
    assert only(chat(chunk({"content": "Hi."}), DONE), StepEnd).stop_reason == "end"
    events = chat(chunk({"content": "Hi"}))
    assert only(events, Error).code == "connection_lost"
    assert all_of(events, Message) == []


def test_a_server_that_leaves_the_stream_open_is_not_waited_for() -> None:
    reply = stream_then_silence(chunk({"content": "Hi."}), chunk({}, "stop"), DONE)
    with FarSide(reply) as far_side:
        assert only(ask(CHAT.open(far_side.url)), Message).text == "Hi."
        assert far_side.hangups.acquire(timeout=60)


@pytest.mark.parametrize(
    ("api", "event", "code"),
    [
        (ANTHROPIC, {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}, "overloaded_error"),
        (RESPONSES, {"type": "error", "code": "server_error", "message": "Busy."}, "server_error"),
        (RESPONSES, {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Busy."}}}, "server_error"),
        (CHAT, {"error": {"code": 503, "message": "Busy."}}, "http_503"),
        (GEMINI, {"error": {"code": 503, "status": "UNAVAILABLE", "message": "Busy."}}, "UNAVAILABLE"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_error_inside_of_a_stream_is_an_error(api: Any, event: Any, code: str) -> None:
    with FarSide(stream(event)) as far_side:
        events = ask(api.open(far_side.url))
    assert kinds(events) == ["Warning", "Warning", "Error", "StepEnd"]
    assert (only(events, Error).message, only(events, Error).code) == ("Busy.", code)


def test_an_error_after_the_first_word_takes_it_back_and_asks_again() -> None:
    busy = {"error": {"code": 503, "message": "Busy."}}
    begun = stream(chunk({"reasoning_content": "Hm."}), chunk({"content": "Hi"}), busy)
    with FarSide(begun, stream(chunk({"content": "Hello."}), chunk({}, "stop"), DONE)) as far_side:
        events = ask(CHAT.open(far_side.url))

    first = ["ReasoningDelta", "TextDelta", "TextRetracted", "TextRetracted", "Warning"]
    assert kinds(events) == [*first, "TextDelta", "Message", "StepEnd"]
    thought, said = only(events, ReasoningDelta).id, all_of(events, TextDelta)[0].id
    assert [event.id for event in all_of(events, TextRetracted)] == [said, thought]
    assert only(events, Message).text == "Hello."
    assert only(events, Message).id not in (said, thought)


def test_an_error_after_the_first_word_that_does_not_pass_is_final() -> None:
    events = chat(
        chunk({"content": "Hi"}), {"error": {"code": "context_length_exceeded", "message": "Full."}}
    )
    assert kinds(events) == ["TextDelta", "Error", "StepEnd"]


def test_an_answer_that_always_breaks_off_is_an_error_in_the_end() -> None:
    events = chat(chunk({"content": "Hi"}))
    tried = ["TextDelta", "TextRetracted", "Warning"]
    assert kinds(events) == [*tried, *tried, "TextDelta", "Error", "StepEnd"]
    assert only(events, Error).message == "the answer broke off before its end"


def test_a_call_that_broke_off_is_never_made() -> None:
    half = stream(chunk(call('{"path": "a', index=0, id="one")))
    whole = stream(chunk(call('{"path": "b"}', index=0, id="two")), chunk({}, "tool_calls"), DONE)
    with FarSide(half, whole) as far_side:
        events = ask(CHAT.open(far_side.url))

    assert calls_of(events) == [{"type": "tool_call", "id": "two", "name": "read", "input": {"path": "b"}}]


def test_a_blocked_prompt_is_an_error() -> None:
    with FarSide(stream({"promptFeedback": {"blockReason": "SAFETY"}})) as far_side:
        events = ask(GEMINI.open(far_side.url))
    assert only(events, Error).code == "SAFETY"
    assert len(far_side.requests) == 1


def test_kinds_of_events_that_are_newer_than_we_are_do_no_harm() -> None:
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}}
    new_delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "song_delta", "tune": "la"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "new_reason"}, "usage": {"output_tokens": 1}}
    with FarSide(
        stream({"type": "ping"}, {"type": "new"}, text, new_delta, end, {"type": "message_stop"})
    ) as far_side:
        events = ask(ANTHROPIC.open(far_side.url))
    assert only(events, Message).text == "Hi."
    assert only(events, StepEnd).stop_reason == "new_reason"
    assert all_of(events, Warning) == []


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (b"<html><head><title>x</title></head><body><h1>502</h1> bad gateway</body>", "HTTP 400: 502 bad gateway", "http_400"),
        (b"", "HTTP 400", "http_400"),
        (b'{"error":"model not loaded"}', "model not loaded", "http_400"),
        (b'{"detail":"no such model"}', "no such model", "http_400"),
        (b'{"error":{"message":"bad","code":400,"metadata":{"raw":"inner"}}}', "bad: inner", "http_400"),
        (b'[{"error":{"message":"bad","status":"INVALID_ARGUMENT"}}]', "bad", "INVALID_ARGUMENT"),
    ],
)  # fmt: skip
def test_a_refusal_of_any_form_is_reported(body: bytes, message: str, code: str) -> None:
    with FarSide(status(400, body)) as far_side:
        error = only(ask(CHAT.open(far_side.url)), Error)
    assert (error.message, error.code) == (message, code)


@pytest.mark.parametrize(
    ("code", "body", "headers"),
    [
        (429, b'{"error":{"code":"insufficient_quota","message":"Pay."}}', {}),
        (500, b"", {"x_should_retry": "false"}),
        (429, b"", {"retry_after": "3600"}),
        (404, b"", {"retry_after": "0"}),
        (301, b"", {"location": "/elsewhere"}),
    ],
)
def test_what_no_waiting_helps_against_is_not_tried_again(
    code: int, body: bytes, headers: dict[str, str]
) -> None:
    with FarSide(status(code, body, **headers)) as far_side:
        events = ask(CHAT.open(far_side.url))
    assert kinds(events) == ["Error", "StepEnd"]
    assert len(far_side.requests) == 1
    if "3600" in headers.values():
        assert "in 3600 s" in only(events, Error).message


@pytest.mark.parametrize(
    "headers",
    [{"retry_after_ms": "1"}, {"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, {"retry_after": "soon"}],
)
def test_when_to_come_back_may_be_stated_in_many_ways(headers: dict[str, str]) -> None:
    answer = stream(chunk({"content": "Hi."}), chunk({}, "stop"), DONE)
    with FarSide(status(429, b"", **headers), answer) as far_side:
        events = ask(CHAT.open(far_side.url))
    assert kinds(events)[0] == "Warning"
    assert only(events, Message).text == "Hi."


def test_a_server_that_says_nothing_is_given_up() -> None:
    with FarSide(silence) as far_side:
        model = CHAT.open(far_side.url, timeouts=HttpTimeouts(silence_s=0.05))
        events = ask(model)
        assert far_side.hangups.acquire(timeout=60)
    assert kinds(events) == ["Warning", "Warning", "Error", "StepEnd"]
    assert only(events, Error).code == "timeout"


def test_a_server_that_falls_silent_is_given_up() -> None:
    with FarSide(stream_then_silence(chunk({"content": "Hi"}))) as far_side:
        events = ask(CHAT.open(far_side.url, timeouts=HttpTimeouts(silence_s=0.05)))
        assert far_side.hangups.acquire(timeout=60)
    tried = ["TextDelta", "TextRetracted", "Warning"]
    assert kinds(events) == [*tried, *tried, "TextDelta", "Error", "StepEnd"]
    assert only(events, Error).message.endswith("has stopped sending")


def test_where_no_one_listens_is_an_error() -> None:
    with FarSide(silence) as far_side:
        url = far_side.url
    events = ask(CHAT.open(url))
    assert kinds(events) == ["Warning", "Warning", "Error", "StepEnd"]
    assert only(events, Error).code == "connection"
    assert url in only(events, Error).message


def test_closing_an_answer_closes_the_socket() -> None:
    async def leave_after_the_first_word(url: str) -> None:
        answer = CHAT.open(url).answer(HELLO)
        assert isinstance(await anext(answer), TextDelta)
        await answer.aclose()  # type: ignore[attr-defined]
        assert await asyncio.to_thread(far_side.hangups.acquire, timeout=60)

    with FarSide(stream_then_silence(chunk({"content": "Hi"}))) as far_side:
        asyncio.run(leave_after_the_first_word(far_side.url))


@pytest.mark.parametrize("reply", [stream_then_silence(chunk({"content": "Hi"})), silence])
def test_cancelling_the_caller_closes_the_socket(reply: Any) -> None:
    async def cancel(url: str) -> None:
        task = asyncio.create_task(collect(CHAT.open(url)))
        assert await asyncio.to_thread(far_side.arrivals.acquire, timeout=60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(far_side.hangups.acquire, timeout=60)

    with FarSide(reply) as far_side:
        asyncio.run(cancel(far_side.url))


def test_cancelling_ends_the_wait_for_a_new_try() -> None:
    async def cancel(url: str) -> None:
        model = CHAT.open(url, retries=Retries(first_wait_s=60, longest_backoff_s=60))
        answer = model.answer(HELLO)
        assert isinstance(await anext(answer), Warning)
        task = asyncio.ensure_future(anext(answer))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with FarSide(status(503, b"")) as far_side:
        asyncio.run(cancel(far_side.url))


def test_a_connection_serves_again_and_ends_with_its_loop() -> None:
    async def three(model: Any) -> None:
        for _ in range(3):
            assert only(await collect(model), Message).text == "Hi."

    with FarSide(stream(chunk({"content": "Hi."}), chunk({}, "stop"), DONE)) as far_side:
        model = CHAT.open(far_side.url)
        asyncio.run(three(model))
        assert far_side.connections == 1
        asyncio.run(three(model))
        assert far_side.connections == 2


def test_a_model_may_be_asked_by_several_at_once() -> None:
    async def many(model: Any) -> list[list[Event]]:
        return await asyncio.gather(*(collect(model) for _ in range(20)))

    with FarSide(stream(chunk({"content": "Hi."}), chunk({}, "stop"), DONE)) as far_side:
        answers = asyncio.run(many(CHAT.open(far_side.url)))
    assert [only(events, Message).text for events in answers] == ["Hi."] * 20


def test_thoughts_that_are_distinguished_are_no_output() -> None:
    usage = {"input_tokens": 3, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    with FarSide(stream(text, end, {"type": "message_stop"})) as far_side:
        used = only(ask(ANTHROPIC.open(far_side.url)), UsageDelta)
    assert used.usage == Usage(input=3, output=5, reasoning=4)


def test_a_text_that_is_not_unicode_can_be_sent() -> None:
    with FarSide(stream(chunk({"content": "Hi."}), chunk({}, "stop"), DONE)) as far_side:
        ask(CHAT.open(far_side.url), Ask(turns=[UserTurn("half \ud83d pair")]))
    assert far_side.requests[0]["messages"][0]["content"] == "half ? pair"


def test_a_key_is_sent_as_the_api_wants_it_and_not_in_the_address() -> None:
    for api in (ANTHROPIC, RESPONSES, CHAT, GEMINI):
        with FarSide(status(400, b"no")) as far_side:
            ask(api.open(far_side.url))
        assert KEY not in far_side.paths[0]
