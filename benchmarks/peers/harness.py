"""Ours: the loop with its log and one reader of it, masked as it is by default."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from harness.contracts.model import Ask
from harness.events import Event, Message, StepEnd, TextDelta, Usage, UsageDelta
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.native.loop.loop_context import AgentOptions
from harness.native.loop.orchestrator import Orchestrator
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions

TITLE = "Harness"
PACKAGE = "harness-agents"
INSTALL: tuple[str, ...] = ()
IMPORT = "import harness.native.loop.orchestrator"
PERSISTS = "files, every event"


class Scripted:
    name = "bench/scripted"

    def __init__(
        self, steps: int, deltas: int, pause: Callable[[], Awaitable[None]], mark: Callable[[], None]
    ) -> None:
        self._steps, self._deltas, self._pause, self._mark = steps, deltas, pause, mark

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        del ask
        self._mark()
        for _ in range(self._deltas):
            yield TextDelta(id="m", text="word ")
            await self._pause()
        self._steps -= 1
        if self._steps >= 0:
            call = {"type": "tool_call", "id": f"c{self._steps}", "name": "add", "input": {"a": 1, "b": 2}}
            yield Message(role="assistant", text="", parts=[call])
        else:
            yield Message(role="assistant", text="done", id="m")
        yield UsageDelta(usage=Usage(input=100, output=20))
        yield StepEnd(id="", stop_reason="end")


@tool(quick=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def stream(deltas: int, pause: Callable[[], Awaitable[None]]) -> int:
    return await _run(Scripted(0, deltas, pause, time.process_time), 1, "")


async def work(steps: int, mark: Callable[[], None], folder: str = "") -> int:
    return await _run(Scripted(steps, 0, asyncio.sleep, mark), steps, folder)  # type: ignore[arg-type]


async def _run(model: Scripted, steps: int, folder: str) -> int:
    options = AgentOptions(
        model=model, tools=(add,), permissions=Permissions("allow"), max_iterations=steps + 1
    )
    count = 0
    async with Orchestrator(options, store=FileStore(folder) if folder else MemoryStore()) as agents:
        agents.spawn("hi")
        async for _event in agents.events():
            count += 1
    return count
