"""A thread is watched from outside, while another session runs it."""

from __future__ import annotations

import asyncio

import pytest

from harness.errors import UnknownSession
from harness.folds.session.events import SessionEvent
from harness_kit import Model, StoreMaker, opened, run, storage

__all__ = ["storage"]


def test_another_process_sees_the_events_of_a_thread(storage: StoreMaker) -> None:
    async def main() -> None:
        async with (
            opened(Model("Hello."), storage=storage.open()) as (writer, _),
            opened(storage=storage.open()) as (reader, _),
        ):
            thread = await writer.create_thread()
            watching = reader.watch(thread.id)
            first: asyncio.Future[SessionEvent] = asyncio.ensure_future(anext(watching))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            await writer.send_message(content="hi")
            seen = [await first]
            while seen[-1].type != "agent_end":
                seen.append(await anext(watching))
            assert "Hello." in [event.text for event in seen if event.type == "text"]
            past = [event.type async for event in _until_end(reader.watch(thread.id, from_start=True))]
            assert past[0] == "thread_created"
            assert past[-1] == "agent_end"

    async def _until_end(watching):  # type: ignore[no-untyped-def]
        async for event in watching:
            yield event
            if event.type == "agent_end":
                return

    run(main)


def test_an_unknown_thread_cannot_be_watched() -> None:
    async def main() -> None:
        async with opened() as (harness, _):
            with pytest.raises(UnknownSession):
                harness.watch("nothing")

    run(main)
