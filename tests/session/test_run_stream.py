"""A run is followed with `async for`; leaving the stream stops it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from harness import ToolSuspendedEvent
from harness.errors import UsageError
from harness_kit import Model, call, opened, run


class Answer(msgspec.Struct):
    n: int


async def forever() -> str:
    "Never ends."
    await asyncio.Event().wait()
    return ""


def test_events_come_as_they_happen_and_the_outcome_at_the_end() -> None:
    async def main() -> None:
        async with opened(Model("Hello.")) as (harness, _):
            async with harness.session.stream(content="hi") as stream:
                types = [event.type async for event in stream]
            assert types[0] == "thread_created"
            assert types[-1] == "agent_end"
            assert "display_state_changed" not in types
            assert (await stream.outcome()).text == "Hello."

    run(main)


def test_text_alone_and_a_typed_outcome() -> None:
    async def main() -> None:
        async with opened(Model('{"n": 3}')) as (harness, _):
            async with harness.stream(content="hi", output=Answer) as stream:
                assert "".join([text async for text in stream.text()]) == '{"n": 3}'
            outcome = await stream.outcome()
            assert outcome.output == Answer(n=3)
            assert (await harness.stream(content="again")).text == "Yes."

    run(main)


def test_leaving_the_stream_stops_the_run() -> None:
    async def main() -> None:
        async with opened(Model(call("forever")), tools=[forever], initial_state={"yolo": True}) as (
            harness,
            _,
        ):
            async with harness.stream(content="hi") as stream:
                async for event in stream:
                    if event.type == "tool_start":
                        break
            assert not harness.session.run.is_running()
            assert (await stream.outcome()).outcome == "interrupted"
            async for _event in harness.stream(content="hi"):  # also without `async with`
                break
            await harness.wait_until_idle()
            assert (await harness.send_message(content="next")).success

    run(main)


def test_a_question_that_is_answered_in_the_loop_continues_the_stream() -> None:
    async def main() -> None:
        model = Model(call("ask_user", question="A?"), call("ask_user", id="c2", question="B?"), "Both.")
        async with opened(model) as (harness, _):
            asked: list[str] = []
            async with harness.stream(content="hi") as stream:
                async for event in stream:
                    if isinstance(event, ToolSuspendedEvent):
                        asked.append(event.question)
                        assert event.answer("yes")
            assert asked == ["A?", "B?"]
            assert (await stream.outcome()).text == "Both."

    run(main)


def test_a_question_that_nobody_answers_ends_the_stream_and_stays() -> None:
    async def main() -> None:
        async with opened(Model(call("ask_user", question="A?"))) as (harness, _):
            async with harness.stream(content="hi") as stream:
                types = [event.type async for event in stream]
            assert types[-1] == "agent_end"
            assert (await stream.outcome()).outcome == "suspended"
            assert len(harness.questions()) == 1

    run(main)


def test_a_question_ends_the_wait_of_somebody_who_wants_the_outcome_alone() -> None:
    async def main() -> None:
        async with opened(Model(call("ask_user", question="A?"))) as (harness, _):
            async with asyncio.timeout(30):
                assert (await harness.stream(content="hi")).outcome == "suspended"
            assert len(harness.questions()) == 1

    run(main)


def test_a_stream_that_is_left_before_its_run_has_begun_stops_it() -> None:
    async def main() -> None:
        async with opened(Model(call("ask_user", question="A?"))) as (harness, _):
            async with asyncio.timeout(30), harness.stream(content="hi") as stream:
                pass
            assert (await stream.outcome()).outcome == "interrupted"
            assert harness.questions() == []

    run(main)


def test_a_message_that_joins_a_run_stops_nothing_when_it_is_left() -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def wait() -> str:
            "Waits."
            await release.wait()
            return "ok"

        async with opened(Model(call("wait")), tools=[wait], initial_state={"yolo": True}) as (
            harness,
            record,
        ):
            first = asyncio.create_task(harness.send_message(content="one"))
            await record.until_emitted("tool_start")
            async with harness.stream(content="two") as stream:
                await asyncio.sleep(0)
                release.set()
            assert (await stream.outcome()).outcome == "joined"
            assert (await first).success

    run(main)


def test_mistakes_are_raised_where_the_stream_is_made() -> None:
    async def main() -> None:
        async with opened() as (harness, _):
            with pytest.raises(UsageError, match="content"):
                harness.stream(content=3)  # type: ignore[arg-type]

    run(main)
