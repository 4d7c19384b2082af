"""agno: `Agent.arun`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

os.environ["AGNO_TELEMETRY"] = "false"

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

TITLE = "agno"
PACKAGE = "agno"
INSTALL = ("agno", "sqlalchemy[asyncio]")
IMPORT = "from agno.agent import Agent"
PERSISTS = "SQLite, once at the end of a run"


@dataclass
class Scripted(Model):
    id: str = "scripted"
    steps: int = 0
    deltas: int = 0
    pause: Any = None
    mark: Any = None

    def _next(self) -> ModelResponse:
        self.mark()
        self.steps -= 1
        if self.steps < 0:
            return ModelResponse(role="assistant", content="done")
        function = {"name": "add", "arguments": '{"a":1,"b":2}'}
        call = {"id": f"c{self.steps}", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call])

    def invoke(self, *_args: Any, **_options: Any) -> ModelResponse:
        return self._next()

    async def ainvoke(self, *_args: Any, **_options: Any) -> ModelResponse:
        return self._next()

    def invoke_stream(self, *_args: Any, **_options: Any) -> Any:
        yield self._next()

    async def ainvoke_stream(self, *_args: Any, **_options: Any) -> AsyncIterator[ModelResponse]:
        for _ in range(self.deltas):
            yield ModelResponse(role="assistant", content="word ")
            await self.pause()
        yield self._next()

    def _parse_provider_response(self, response: Any, **_options: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def stream(deltas: int, pause: Callable[[], Awaitable[None]]) -> int:
    agent = Agent(model=Scripted(deltas=deltas, pause=pause, mark=int), tools=[add], telemetry=False)
    count = 0
    async for _event in agent.arun("hi", stream=True, stream_events=True):
        count += 1
    return count


async def work(steps: int, mark: Callable[[], None], folder: str = "") -> int:
    options: dict[str, Any] = {}
    if folder:
        from agno.db.sqlite import SqliteDb

        options = {"db": SqliteDb(db_file=f"{folder}/agno.db"), "session_id": "s"}
    agent = Agent(model=Scripted(steps=steps, mark=mark), tools=[add], telemetry=False, **options)
    return len((await agent.arun("hi")).messages)
