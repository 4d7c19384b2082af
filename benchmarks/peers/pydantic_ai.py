"""Pydantic AI with its FunctionModel; what it persists is the work of pydantic-ai-harness."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

TITLE = "pydantic-ai"
PACKAGE = "pydantic-ai-slim"
INSTALL = ("pydantic-ai-slim", "pydantic-ai-harness")
IMPORT = "from pydantic_ai import Agent"
PERSISTS = "SQLite, every step (pydantic-ai-harness)"
_NO_LIMIT = UsageLimits(request_limit=None)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def stream(deltas: int, pause: Callable[[], Awaitable[None]]) -> int:
    async def answer(_messages: Any, _info: Any) -> AsyncIterator[str]:
        for _ in range(deltas):
            yield "word "
            await pause()

    count = 0
    agent = Agent(FunctionModel(stream_function=answer), tools=[add])
    async with agent.run_stream_events("hi", usage_limits=_NO_LIMIT) as events:
        async for _event in events:
            count += 1
    return count


async def work(steps: int, mark: Callable[[], None], folder: str = "") -> int:
    left = steps

    def answer(_messages: Any, _info: Any) -> ModelResponse:
        nonlocal left
        mark()
        left -= 1
        if left >= 0:
            return ModelResponse(parts=[ToolCallPart("add", {"a": 1, "b": 2}, tool_call_id=f"c{left}")])
        return ModelResponse(parts=[TextPart("done")])

    options: dict[str, Any] = {}
    if folder:
        from pydantic_ai_harness import StepPersistence
        from pydantic_ai_harness.step_persistence import SqliteStepStore

        options["capabilities"] = [StepPersistence(store=SqliteStepStore(database=f"{folder}/steps.db"))]
    agent = Agent(FunctionModel(answer), tools=[add], **options)
    return len((await agent.run("hi", usage_limits=_NO_LIMIT)).all_messages())
