"""Who waits for which answer. Asked in the event loop, answered from any thread; the first answer counts."""

from __future__ import annotations

import asyncio
import threading

from harness.events import RelayReply


class Relays:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._pending: dict[str, asyncio.Future[RelayReply]] = {}

    def expect(self, relay_id: str) -> asyncio.Future[RelayReply]:
        """From now on it can be answered."""
        future = self._pending[relay_id] = self._loop.create_future()
        return future

    async def answer(
        self, relay_id: str, deadline_s: float | None, expected: asyncio.Future[RelayReply] | None = None
    ) -> RelayReply:
        """Wait for the reply; who does not answer in time has said no."""
        future = expected or self.expect(relay_id)
        try:
            await asyncio.wait((future,), timeout=deadline_s)
        finally:
            with self._lock:
                is_unanswered = self._pending.pop(relay_id, None) is not None
        if is_unanswered:
            reason = f"nobody answered within {deadline_s:g} s"
            return RelayReply(id=relay_id, approved=False, by="timeout", reason=reason)
        # Somebody was told that the answer counts, though it may not have arrived here yet.
        return await future

    def reply(self, reply: RelayReply) -> bool:
        """Answer a relay; false when nothing of that id waits (any more)."""
        with self._lock:
            future = self._pending.pop(reply.id, None)
        if future is None:
            return False
        try:
            self._loop.call_soon_threadsafe(_settle, future, reply)
        except RuntimeError:  # the loop is closed: the run has ended
            return False
        return True


def _settle(future: asyncio.Future[RelayReply], reply: RelayReply) -> None:
    if not future.done():
        future.set_result(reply)
