"""Sending a message: it is waited for, it joins the active run, and files come with it."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path

from harness.contracts.model import UserTurn
from harness.events import Message, SessionStart
from harness.folds.session.events import HarnessEvent
from harness.log.stores.files import FileStore
from harness_kit import Model, call, log_of, opened
from running_kit import YOLO, Gate, Live, check, ends, halting, in_loop, started, starts, texts, waiting


@in_loop
async def test_a_message_is_answered_before_sending_it_returns(tmp_path: Path) -> None:
    async with opened(Model("Hello."), storage=FileStore(str(tmp_path))) as (harness, record):
        await harness.send_message(content="hi")
        assert not harness.session.run.is_running()
        assert texts(record, "user") == ["hi"]
        assert texts(record) == ["Hello."]
        assert (starts(record), ends(record)) == (1, ["complete"])
        order = [name for name in record.types if name in ("agent_start", "message_end", "agent_end")]
        assert order == ["agent_start", "message_end", "message_end", "agent_end"]
        check(harness, log_of(harness))


@in_loop
async def test_a_thread_is_made_for_the_first_message() -> None:
    async with opened(Model("Hello.")) as (harness, record):
        assert harness.session.thread.get_id() is None
        await harness.send_message(content="hi")
        assert record.types.index("thread_created") < record.types.index("agent_start")
        assert harness.session.thread.is_set()


@in_loop
async def test_two_who_speak_at_once_before_there_is_a_thread_speak_in_one() -> None:
    async with opened(Model("One.", "Two.")) as (harness, record):
        await asyncio.gather(harness.send_message(content="a"), harness.send_message(content="b"))
        await harness.session.wait_until_idle()
        assert len(record.named("thread_created")) == 1
        assert texts(record, "user") == ["a", "b"]
        check(harness, log_of(harness))


@in_loop
async def test_what_is_said_to_a_running_agent_joins_its_run_and_returns_at_once() -> None:
    gate = Gate()
    model = Live(call("work"), "All done.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="work"))
        await gate.come()
        await harness.send_message(content="and hurry")
        assert not first.done()
        gate.open()
        await first
        assert model.received() == ["work", "and hurry"]
        assert (starts(record), ends(record)) == (1, ["complete"])
        assert len([event for event in log_of(harness) if isinstance(event, SessionStart)]) == 1


@in_loop
async def test_what_is_said_while_the_last_answer_streams_is_answered_in_the_same_run() -> None:
    gate = Gate()
    model = Live(halting(gate), "Also that.")
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="one"))
        await gate.come()
        await harness.send_message(content="two")
        gate.open()
        await first
        assert texts(record) == ["Let me see.", "Also that."]
        assert texts(record, "user") == ["one", "two"]
        assert starts(record) == 1


@in_loop
async def test_what_a_listener_says_at_the_end_of_a_run_is_answered_in_the_next() -> None:
    model = Model("One.", "Two.")
    async with opened(model) as (harness, record):
        sent: list[str] = []

        async def again(event: HarnessEvent) -> None:
            if event.type == "agent_end" and not sent:
                sent.append("again")
                await harness.send_message(content="again")

        harness.subscribe(again)
        await harness.send_message(content="first")
        await record.until(lambda: len(ends(record)) == 2)
        await harness.session.wait_until_idle()
        assert model.received() == ["first", "again"]


@in_loop
async def test_the_request_context_reaches_the_factories_of_tools() -> None:
    seen: list[object] = []

    def tools(context: dict[str, object]) -> list[object]:
        seen.append(context.get("user"))
        return []

    async with opened(Model("Yes."), tools=tools) as (harness, _):
        from harness.session.config import RequestContext

        await harness.send_message(content="hi", request_context=RequestContext(user="ann"))
        assert seen == ["ann"]


@in_loop
async def test_a_message_that_waits_may_be_given_up_without_the_run() -> None:
    gate = Gate()
    async with opened(Live(halting(gate))) as (harness, record):
        sending = started(harness.send_message(content="go"))
        await gate.come()
        sending.cancel()
        await asyncio.wait([sending])
        assert harness.session.run.is_running()
        gate.open()
        await harness.session.wait_until_idle()
        assert ends(record) == ["complete"]


@in_loop
async def test_text_files_are_written_into_the_message_and_fenced() -> None:
    model = Model("Read.")
    encoded = b64encode(b'{"a": 1}').decode()
    async with opened(model) as (harness, record):
        await harness.send_message(
            content="look",
            files=[
                {"data": "plain\nwords", "mediaType": "text/plain", "filename": "a.txt"},
                {"data": f"data:application/json;base64,{encoded}", "mediaType": "application/json"},
                {"data": "a ```` b", "mediaType": "text/markdown", "filename": "b.md"},
            ],
        )
        [said] = model.received()
        assert said == (
            "look\n\n[File: a.txt]\n```\nplain\nwords\n```\n\n"
            '[Attached file]\n```\n{"a": 1}\n```\n\n'
            "[File: b.md]\n`````\na ```` b\n`````"
        )
        assert texts(record, "user") == [said]


@in_loop
async def test_images_and_other_files_stay_files_for_the_model_and_in_the_log() -> None:
    model = Model("Seen.")
    async with opened(model) as (harness, record):
        await harness.send_message(
            content="what is it?",
            files=[
                {"data": "data:image/png;base64,QUJD", "mediaType": "image/png", "filename": "a.png"},
                {"data": "REVG", "mediaType": "application/pdf", "filename": "b.pdf"},
            ],
        )
        [turn] = [turn for turn in model.asked[0][0] if isinstance(turn, UserTurn)]
        assert [(one.media_type, one.data, one.name) for one in turn.attachments] == [
            ("image/png", "QUJD", "a.png"),
            ("application/pdf", "REVG", "b.pdf"),
        ]
        [message] = [
            event for event in log_of(harness) if isinstance(event, Message) and event.role == "user"
        ]
        assert [part["type"] for part in message.parts or ()] == ["file", "file"]
        shown = record.named("message_end")[0]["message"]["content"]
        assert shown == [
            {"type": "text", "text": "what is it?"},
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
            {"type": "file", "data": "REVG", "mediaType": "application/pdf", "filename": "b.pdf"},
        ]


@in_loop
async def test_files_alone_make_a_message() -> None:
    model = Model("Seen.")
    async with opened(model) as (harness, _):
        await harness.send_message(content="", files=[{"data": "QUJD", "mediaType": "image/png"}])
        [turn] = [turn for turn in model.asked[0][0] if isinstance(turn, UserTurn)]
        assert (turn.text, len(turn.attachments)) == ("", 1)
