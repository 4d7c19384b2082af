"""What a builder gets wrong is an error that says so, at once: nothing hangs, nothing fails deep inside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from harness import Harness, Limits, Output, UsageError
from harness_kit import Model, opened, run

WRONG_CONTEXTS: list[tuple[str, Callable[[Harness[Any]], Awaitable[Any]]]] = [
    ("send_message", lambda app: app.send_message(content="a", request_context=5)),  # type: ignore[arg-type]
    ("steer", lambda app: app.steer(content="a", request_context=[1])),  # type: ignore[arg-type]
    ("follow_up", lambda app: app.follow_up(content="a", request_context="x")),  # type: ignore[arg-type]
    ("signal", lambda app: app.send_signal("a", request_context=5)),  # type: ignore[arg-type]
    (
        "answer",
        lambda app: app.respond_to_tool_suspension(resume_data=1, request_context=5),  # type: ignore[arg-type]
    ),
]


@pytest.mark.parametrize(("name", "use"), WRONG_CONTEXTS, ids=[name for name, _ in WRONG_CONTEXTS])
def test_a_request_context_that_is_no_mapping_is_named(
    name: str, use: Callable[[Harness[Any]], Awaitable[Any]]
) -> None:
    async def main() -> None:
        async with opened(Model("Hi.")) as (harness, _):
            with pytest.raises(UsageError, match="request_context cannot be"):
                await use(harness)

    run(main)


def test_a_stream_names_it_too() -> None:
    async def main() -> None:
        async with opened(Model("Hi.")) as (harness, _):
            with pytest.raises(UsageError, match="request_context cannot be 5"):
                harness.stream(content="a", request_context=5)  # type: ignore[arg-type]

    run(main)


def test_names_that_are_no_text_are_named() -> None:
    async def main() -> None:
        async with opened(Model("Hi.")) as (harness, _):
            thread: Any = harness.session.thread
            for use in (
                lambda: thread.create(title=5),
                lambda: thread.create(id=5),
                lambda: thread.rename(title=None),
                lambda: thread.switch(thread_id=5),
                lambda: thread.clone(title=5),
            ):
                with pytest.raises(UsageError, match="cannot be"):
                    await use()
            with pytest.raises(UsageError, match="resource_id cannot be 5"):
                harness.create_session(resource_id=5)  # type: ignore[arg-type]

    run(main)


def test_another_event_loop_is_refused_and_does_not_hang() -> None:
    """Closing it from another one waited for ever for a task of the first."""

    async def main() -> None:
        async with opened(Model("Hi.", "Ho.")) as (harness, _):
            uses: list[Callable[[], Awaitable[Any]]] = [
                harness.destroy,
                harness.create_thread,
                harness.select_or_create_thread,
                lambda: harness.send_message(content="a"),
                harness.wait_until_idle,
                harness.session.compact,
                lambda: harness.steer(content="a"),
                lambda: harness.follow_up(content="a"),
                lambda: harness.state.set({"a": 1}),
                lambda: harness.session.mode.switch(mode_id="build"),
                lambda: harness.session.model.switch(model_id="test/other"),
                lambda: _called(harness.abort),
            ]

            def elsewhere() -> None:
                for use in uses:
                    with pytest.raises(UsageError, match="lives in another event loop"):
                        asyncio.run(asyncio.wait_for(_awaited(use), 5))

            await asyncio.to_thread(elsewhere)
            assert (await harness.send_message(content="a")).success

    run(main)


def test_a_harness_that_is_closed_twice_at_once_belongs_to_its_loop_until_both_are_done() -> None:
    async def main() -> None:
        held, released = asyncio.Event(), asyncio.Event()
        is_second = iter((False, True))

        async def close_workspace() -> None:
            if next(is_second, False):
                held.set()
                await released.wait()

        def elsewhere() -> None:
            with pytest.raises(UsageError, match="lives in another event loop"):
                asyncio.run(asyncio.wait_for(_awaited(lambda: harness.send_message(content="a")), 5))

        async with opened(Model("Hi.")) as (harness, _):
            harness.internals.workspaces.destroy = close_workspace  # type: ignore[method-assign]
            closings = [asyncio.create_task(harness.destroy()) for _ in range(2)]
            await held.wait()
            await asyncio.wait(closings, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(elsewhere)
            released.set()
            await asyncio.gather(*closings)

    run(main)


async def _called(use: Callable[[], Any]) -> Any:
    return use()


async def _awaited(use: Callable[[], Awaitable[Any]]) -> Any:
    return await use()


def test_a_check_of_a_result_may_be_async() -> None:
    async def main() -> None:
        async def check(number: int) -> str | None:
            await asyncio.sleep(0)
            return None if number > 5 else "more than five"

        async with opened(Model('{"result": 3}', '{"result": 6}')) as (harness, _):
            outcome = await harness.send_message(content="A number.", output=Output(type=int, check=check))
            assert outcome.output == 6

    run(main)


def test_a_type_without_a_schema_is_refused_in_one_line() -> None:
    async def main() -> None:
        async with opened(Model("Hi.")) as (harness, _):
            with pytest.raises(UsageError) as error:
                await harness.send_message(content="a", output=asyncio.Event)
            assert "\n" not in str(error.value)
            assert "asyncio.locks.Event" in str(error.value)

    run(main)


@pytest.mark.parametrize("limits", [Limits(max_turns=1.5), Limits(max_tokens=2.5)])  # type: ignore[arg-type]
def test_a_part_of_a_turn_or_a_token_is_no_limit(limits: Limits) -> None:
    async def main() -> None:
        async with opened(Model("Hi.")) as (harness, _):
            with pytest.raises(UsageError, match="give a whole number above 0"):
                await harness.send_message(content="a", limits=limits)

    run(main)


@pytest.mark.parametrize("given", [None, 5, object(), "anthropic/x"])
def test_a_function_that_gives_no_model_is_named(given: Any) -> None:
    async def main() -> None:
        async with opened(resolve_model=lambda _id: given) as (harness, _):
            outcome = await harness.send_message(content="a")
            assert outcome.outcome == "failed"
            assert "there is no model for 'test/model'" in outcome.error

    run(main)


class Babbler:
    """A model whose answers are no events."""

    name = "test/babbler"

    async def answer(self, _ask: Any) -> AsyncIterator[Any]:
        yield 5


def test_a_model_that_answers_with_something_else_has_broken() -> None:
    async def main() -> None:
        async with opened(resolve_model=lambda _id: Babbler()) as (harness, _):
            outcome = await harness.send_message(content="a")
            assert outcome.outcome == "failed"
            assert "its answer has a int where an event is expected" in outcome.error
            assert (await harness.send_message(content="b")).outcome == "failed", "and it can be asked again"

    run(main)
