"""The way of a loop's events into its log, when one of them cannot be written."""

from __future__ import annotations

import asyncio

import pytest

from harness.events import Info, RelayReply
from harness.log.hub import Hub
from harness.log.store import Metadata, read_all
from harness.log.stores.memory import MemoryStore
from harness.native.loop.outbox import Outbox


def test_an_event_that_cannot_be_written_takes_no_other_with_it() -> None:
    store = MemoryStore()
    hub = Hub(store, "t", store.create(Metadata(session_id="t")))

    async def go() -> None:
        outbox = Outbox(hub, asyncio.get_running_loop(), {})
        channel = outbox.channel("r")
        channel.put(Info(message="before"))
        channel.put(RelayReply(id="q", approved=True, answer=object()))
        channel.put(Info(message="after"))
        with pytest.raises(TypeError, match="object"):
            outbox.flush()
        channel.put(Info(message="later"))
        channel.close()

    asyncio.run(go())
    events = list(read_all(store, "t"))
    assert [event.message for event in events if isinstance(event, Info)] == ["before", "after", "later"]
    assert [event.seq for event in events] == [0, 1, 2]
