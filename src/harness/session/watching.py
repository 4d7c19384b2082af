"""A thread that another process runs, as the events that its own listeners get."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import cast

from harness.errors import UnknownSession
from harness.folds.session.events import SessionEvent
from harness.folds.session.translation import SessionTranslation
from harness.log.store import Store


async def watch_thread(store: Store, thread_id: str, *, from_start: bool) -> AsyncIterator[SessionEvent]:
    """Its events, the past ones only if asked for. Ends when the thread is deleted. Raises UnknownSession."""
    translation, changed, loop = SessionTranslation(), asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody reads any more
            loop.call_soon_threadsafe(changed.set)

    stop = store.watch(thread_id, wake)
    reader, is_past = store.reader(thread_id), True
    try:
        while is_past or _is_there(store, thread_id):
            while batch := reader.read():
                for logged in batch:
                    events = translation.feed(logged)
                    if from_start or not is_past:
                        for event in events:
                            yield cast("SessionEvent", event)
                await asyncio.sleep(0)  # a long log must not hold up the others
            is_past = False
            await changed.wait()
            changed.clear()
    finally:
        reader.close()
        stop()


def _is_there(store: Store, thread_id: str) -> bool:
    try:
        return not store.metadata(thread_id).deleted
    except UnknownSession:
        return False
