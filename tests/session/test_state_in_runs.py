"""What a session shows of the active run."""

from __future__ import annotations

import asyncio

from harness import Harness, MemoryStore, Mode
from harness.models.scripted import Scripted


def test_a_run_can_be_watched_and_its_stop_is_seen() -> None:
    async def run() -> None:
        slow = Scripted([{"events": [{"type": "text", "content": "x" * 50, "pieces": 50}]}], pause_ms=20)
        harness = Harness(
            id="h",
            storage=MemoryStore(),
            modes=[Mode(id="m", default_model_id="slow")],
            resolve_model=lambda _name: slow,
        )
        session = harness.session
        assert not session.stream.is_open()
        assert session.run.get_abort_signal() is None
        begun = asyncio.Event()
        harness.subscribe(lambda event: begun.set() if event.type == "text" else None)
        sending = asyncio.create_task(harness.send_message(content="go"))
        await begun.wait()
        signal = session.run.get_abort_signal()
        assert signal is not None
        assert not signal.is_set()
        assert session.stream.is_active()
        assert session.stream.active_run_id() == session.run.get_run_id()
        assert session.stream.key() == f"native:h:{session.thread.require_id()}"
        harness.abort()
        assert signal.is_set()
        await sending
        assert session.run.get_abort_signal() is None
        assert session.stream.active_run_id() is None
        assert session.stream.is_open()
        await harness.destroy()

    asyncio.run(run())
