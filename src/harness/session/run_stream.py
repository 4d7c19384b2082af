"""A message whose run is followed as it happens: events, text alone, and the outcome at the end.

async with session.stream(content="fix it") as run:
    async for event in run:
        if event.type == "text":
            print(event.text, end="")
print((await run.outcome()).cost_usd)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, TypeAlias

from harness.folds.session.events import SessionEvent
from harness.session.bus import Listener
from harness.session.outputs import Value
from harness.session.run_outcomes import RunOutcome
from harness.session.runs import Runs

_Send: TypeAlias = Callable[[], Coroutine[Any, Any, RunOutcome[Value]]]


class RunStream(Generic[Value]):
    """The events of a run, in order. Use it with `async with`: leaving that stops a run that has not ended.

    It ends with the run. A run that waits for data (`tool_suspended`) continues here if the question is answered
    before the next event is asked for; otherwise the stream ends, and the question stays in `session.questions()`.
    A message that joins another run, or is queued behind it, is followed until the session is idle; leaving the
    stream then stops nothing.
    """

    def __init__(
        self, runs: Runs, subscribe: Callable[[Listener], Callable[[], None]], send: _Send[Value]
    ) -> None:
        self._runs, self._subscribe, self._send = runs, subscribe, send
        self._task: asyncio.Task[RunOutcome[Value]] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._events: deque[SessionEvent] = deque()
        self._changed = asyncio.Event()
        """There is an event, or the end."""
        self._hungry = asyncio.Event()
        """All events were taken, and more are asked for."""
        self._is_entered = self._has_joined = self._is_left = False
        self._is_unread = False
        """Nobody asks for events any more: a run that comes to a question is not waited for."""

    async def __aenter__(self) -> RunStream[Value]:
        self._is_entered = True
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    def __aiter__(self) -> AsyncGenerator[SessionEvent]:
        return self._follow()

    def __await__(self) -> Generator[Any, None, RunOutcome[Value]]:
        return self.outcome().__await__()

    async def text(self) -> AsyncGenerator[str]:
        """Only what the agent says, piece by piece."""
        async for event in self._follow():
            if event.type == "text":
                yield event.text

    async def outcome(self) -> RunOutcome[Value]:
        """Wait for the end of the run, and say how it ended, as `send_message` does."""
        task = self._start()
        self._events.clear()
        self._is_unread = True
        self._hungry.set()
        return await asyncio.shield(task)

    def _start(self) -> asyncio.Task[RunOutcome[Value]]:
        if self._task is None:
            self._unsubscribe = self._subscribe(self._take)
            self._task = asyncio.get_running_loop().create_task(self._drive())
        return self._task

    async def _drive(self) -> RunOutcome[Value]:
        try:
            outcome = await self._send()
            self._has_joined = outcome.outcome in ("joined", "queued")
            if self._has_joined:
                await self._runs.wait_until_settled()
            return await self._answered(outcome)
        finally:
            self._changed.set()
            if self._unsubscribe is not None:
                self._unsubscribe()

    async def _answered(self, outcome: RunOutcome[Value]) -> RunOutcome[Value]:
        """The outcome of a run that waits, once it was answered; itself if nobody does."""
        runs = self._runs
        while outcome.outcome == "suspended":
            runs.endings.expect(outcome.run_id)
            await self._hungry.wait()
            if not self._is_left:
                await runs.wait_until_settled()
            later = await runs.ended_later(outcome.run_id)
            if later is None:
                break
            outcome = later
        return outcome

    def _take(self, event: SessionEvent) -> None:
        if event.type == "agent_start" and self._is_left and not self._has_joined:
            self._runs.abort()  # it was left before its run had begun
        if event.type == "display_state_changed" or self._is_left:
            return
        if not self._is_unread:
            self._hungry.clear()
        self._events.append(event)
        self._changed.set()

    async def _follow(self) -> AsyncGenerator[SessionEvent]:
        task = self._start()
        try:
            while True:
                while self._events:
                    yield self._events.popleft()
                if task.done():
                    break
                self._changed.clear()
                self._hungry.set()
                await self._changed.wait()
            task.result()  # raises what was wrong with the message
        finally:
            if not self._is_entered:  # without `async with`, the end of the loop is all there is
                await self._leave()

    async def _leave(self) -> None:
        """Stop the run, if it is this one's and has not ended."""
        task = self._task
        if task is None or task.done():
            return
        self._is_left = True
        self._hungry.set()
        if not self._has_joined:
            self._runs.abort()
        await asyncio.wait((task,))
