"""A program without an event loop has the same harness: messages, streams, questions, and clear errors."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from harness import Harness, MemoryStore, Mode, Tool, UsageError
from harness_kit import Model, call, run


class Answer(msgspec.Struct):
    n: int


async def deploy(place: str) -> str:
    "Deploy it."
    return f"deployed to {place}"


def made(*responses: object, storage: MemoryStore | None = None) -> Harness:
    model = Model(*responses)
    modes = [Mode(id="m", default_model_id="m")]
    return Harness(
        id="s", modes=modes, storage=storage, tools=[deploy], resolve_model=lambda _: model, environ={}
    )


def test_messages_have_typed_outcomes() -> None:
    with made('{"n": 3}', "Hello.").sync() as app:
        assert app.send_message(content="hi", output=Answer).output == Answer(n=3)
        assert app.send_message(content="hi").text == "Hello."
        assert app.wait(app.harness.create_thread(title="next")).title == "next"


def test_a_question_of_a_stream_is_answered_within_the_loop_over_it() -> None:
    with made(
        call("deploy", place="here"), call("ask_user", id="c2", question="Which?"), "Done."
    ).sync() as app:
        seen = []
        stream = app.stream(content="Deploy it.")
        for event in stream:
            seen.append(event.type)
            if event.type == "tool_approval_required":
                assert event.approve()
                assert not event.approve()
            elif event.type == "tool_suspended":
                assert event.answer("blue")
        assert stream.outcome().text == "Done."
        assert {"tool_approval_required", "tool_suspended"} <= set(seen)
        assert "".join(app.stream(content="more").text()) == "Yes."


def test_a_question_that_was_left_open_is_answered_later() -> None:
    store = MemoryStore()
    with made(call("ask_user", question="Which?"), storage=store).sync() as app:
        assert app.send_message(content="hi").outcome == "suspended"
    with made("Blue it is.", storage=store).sync() as app:
        app.wait(app.harness.select_or_create_thread())
        [question] = app.questions()
        assert question.type == "tool_suspended"
        assert question.answer("blue")
        app.wait(app.harness.wait_until_idle())
        assert app.questions() == []


@pytest.mark.parametrize("within", [True, False])
def test_leaving_a_stream_stops_its_run(within: bool) -> None:
    with made(call("deploy", place="here")).sync() as app:
        if within:
            with app.stream(content="hi") as stream:
                assert next(iter(stream)).type
        else:
            for event in app.stream(content="hi"):
                if event.type == "tool_approval_required":
                    break
        app.wait(app.harness.wait_until_idle())
        assert not app.harness.session.run.is_running()
        assert app.questions() == []


def test_a_stream_that_outlives_its_harness_says_so() -> None:
    with made("Hello.").sync() as app:
        events = iter(app.stream(content="hi"))
        next(events)
    with pytest.raises(UsageError, match="not open"):
        list(events)
    with pytest.raises(UsageError, match="not open"):
        app.send_message(content="hi")


def test_within_an_event_loop_the_other_door_is_named() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="event loop already"):
            made().sync().__enter__()

    run(main)


def test_what_cannot_be_waited_for_is_named() -> None:
    with made().sync() as app, pytest.raises(UsageError, match="awaitable cannot be"):
        app.wait(app.harness.session.thread.list())  # type: ignore[arg-type]


def test_a_wrong_message_is_raised_at_once() -> None:
    with made().sync() as app:
        with pytest.raises(UsageError, match="content"):
            app.send_message(content=3)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="content"):
            app.stream(content=3)  # type: ignore[arg-type]


def test_a_harness_is_opened_and_closed_by_async_with() -> None:
    async def main() -> None:
        harness = made("Hello.")
        async with harness as opened:
            assert opened is harness
            assert harness.services is not None
            assert (await harness.send_message(content="hi")).text == "Hello."
        assert harness.services is None

    run(main)


def test_a_harness_that_could_not_be_opened_is_opened_by_another_try() -> None:
    tries = []

    class Browser:
        def tools(self) -> list[Tool]:
            return []

        async def close(self) -> None:
            tries.append("closed")

    def make(_: object) -> Browser:
        tries.append("made")
        if len(tries) == 1:
            raise RuntimeError("no browser")
        return Browser()

    async def main() -> None:
        harness = Harness(id="s", modes=[Mode(id="m")], browser=make)
        with pytest.raises(RuntimeError, match="no browser"):
            await harness.init()
        await harness.init()
        await harness.destroy()

    run(main)
    assert tries == ["made", "made", "closed"]


def test_a_harness_that_cannot_be_opened_is_closed() -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no browser")

    harness = Harness(id="s", modes=[Mode(id="m")], browser=fail)  # type: ignore[arg-type]

    async def main() -> None:
        async with harness:
            pass

    with pytest.raises(RuntimeError, match="no browser"):
        asyncio.run(main())
    assert harness.services is None
    with pytest.raises(RuntimeError, match="no browser"):
        harness.sync().__enter__()
    assert harness.services is None
