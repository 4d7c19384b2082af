"""Strands Agents: `Agent.stream_async`. It recurses once per step, so its limit is raised."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.model import Model

TITLE = "strands-agents"
PACKAGE = "strands-agents"
INSTALL = ("strands-agents",)
IMPORT = "from strands import Agent, tool"
PERSISTS = "a file per message"


class Scripted(Model):
    def __init__(self, steps: int, deltas: int, pause: Any, mark: Any) -> None:
        self._steps, self._deltas, self._pause, self._mark = steps, deltas, pause, mark

    def update_config(self, **_options: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
        yield {}

    async def stream(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
        self._mark()
        self._steps -= 1
        is_call = self._steps >= 0
        yield {"messageStart": {"role": "assistant"}}
        if is_call:
            yield {
                "contentBlockStart": {"start": {"toolUse": {"name": "add", "toolUseId": f"c{self._steps}"}}}
            }
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"a":1,"b":2}'}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            for _ in range(self._deltas):
                yield {"contentBlockDelta": {"delta": {"text": "word "}}}
                await self._pause()
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if is_call else "end_turn"}}
        usage = {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _agent(model: Scripted, **options: Any) -> Agent:
    return Agent(
        model=model,
        tools=[add],
        callback_handler=None,
        conversation_manager=NullConversationManager(),
        **options,
    )


async def stream(deltas: int, pause: Callable[[], Awaitable[None]]) -> int:
    count = 0
    async for _event in _agent(Scripted(0, deltas, pause, int)).stream_async("hi"):
        count += 1
    return count


async def work(steps: int, mark: Callable[[], None], folder: str = "") -> int:
    sys.setrecursionlimit(100_000)
    options: dict[str, Any] = {}
    if folder:
        from strands.session.file_session_manager import FileSessionManager

        options = {
            "session_manager": FileSessionManager(session_id="s", storage_dir=folder),
            "agent_id": "a",
        }
    agent = _agent(Scripted(steps, 0, None, mark), **options)
    await agent.invoke_async("hi")
    return len(agent.messages)
