"""Who waits for which answer. Asked in the event loop, answered from any thread; the first answer counts."""

from __future__ import annotations

import asyncio
import threading
from typing import NamedTuple

from harness.events import Relay, RelayReply
from harness.sources.loop.replies import check_reply


class _Waiting(NamedTuple):
    relay: Relay
    future: asyncio.Future[RelayReply]


class OpenQuestions:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._pending: dict[str, _Waiting] = {}

    def expect(self, relay: Relay) -> asyncio.Future[RelayReply]:
        """From now on it can be answered."""
        future: asyncio.Future[RelayReply] = self._loop.create_future()
        self._pending[relay.id] = _Waiting(relay, future)
        return future

    async def answer(
        self, relay: Relay, deadline_s: float | None, expected: asyncio.Future[RelayReply] | None = None
    ) -> RelayReply:
        """Wait for the reply; who does not answer in time has said no."""
        future = expected or self.expect(relay)
        try:
            await asyncio.wait((future,), timeout=deadline_s)
        finally:
            with self._lock:
                is_unanswered = self._pending.pop(relay.id, None) is not None
        if is_unanswered:
            reason = f"nobody answered within {deadline_s:g} s"
            return RelayReply(id=relay.id, approved=False, by="timeout", reason=reason)
        # Somebody was told that the answer counts, though it may not have arrived here yet.
        return await future

    def reply(self, reply: RelayReply) -> bool:
        """Answer a relay; false when nothing of that id waits (any more).

        Raises UsageError for what is no answer to it: it waits on.
        """
        with self._lock:
            waiting = self._pending.get(reply.id)
            if waiting is None:
                return False
            check_reply(waiting.relay, reply)
            del self._pending[reply.id]
        try:
            self._loop.call_soon_threadsafe(_settle, waiting.future, reply)
        except RuntimeError:  # the loop is closed: the run has ended
            return False
        return True


def _settle(future: asyncio.Future[RelayReply], reply: RelayReply) -> None:
    if not future.done():
        future.set_result(reply)
