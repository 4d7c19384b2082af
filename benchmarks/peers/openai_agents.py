"""OpenAI Agents SDK: `Runner.run` and `Runner.run_streamed`, without tracing."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ.setdefault("OPENAI_API_KEY", "none")

from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool

TITLE = "openai-agents"
PACKAGE = "openai-agents"
INSTALL = ("openai-agents",)
IMPORT = "from agents import Agent, Runner"
PERSISTS = "SQLite"


class Scripted(Model):
    def __init__(self, steps: int, deltas: int, pause: Any, mark: Any) -> None:
        self._steps, self._deltas, self._pause, self._mark = steps, deltas, pause, mark

    def _next(self) -> list[Any]:
        self._mark()
        self._steps -= 1
        if self._steps >= 0:
            return [
                ResponseFunctionToolCall(
                    id=f"f{self._steps}",
                    call_id=f"c{self._steps}",
                    type="function_call",
                    name="add",
                    arguments='{"a":1,"b":2}',
                )
            ]
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        return [
            ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        ]

    async def get_response(self, *_args: Any, **_options: Any) -> ModelResponse:
        return ModelResponse(output=self._next(), usage=Usage(), response_id=None)

    async def stream_response(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
        for number in range(self._deltas):
            yield ResponseTextDeltaEvent(
                content_index=0,
                delta="word ",
                item_id="m",
                output_index=0,
                type="response.output_text.delta",
                logprobs=[],
                sequence_number=number,
            )
            await self._pause()
        response = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=self._next(),
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=self._deltas
        )


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def stream(deltas: int, pause: Callable[[], Awaitable[None]]) -> int:
    agent = Agent(name="bench", model=Scripted(0, deltas, pause, int), tools=[add])
    count = 0
    async for _event in Runner.run_streamed(agent, "hi").stream_events():
        count += 1
    return count


async def work(steps: int, mark: Callable[[], None], folder: str = "") -> int:
    agent = Agent(name="bench", model=Scripted(steps, 0, None, mark), tools=[add])
    session = SQLiteSession("s", f"{folder}/session.db") if folder else None
    return len((await Runner.run(agent, "hi", max_turns=steps + 5, session=session)).new_items)
