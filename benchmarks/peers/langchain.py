"""LangChain's `create_agent`, which is a LangGraph; with LangGraph's SQLite checkpoints where it persists."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

TITLE = "langchain / langgraph"
PACKAGE = "langchain"
INSTALL = ("langchain", "langgraph-checkpoint-sqlite")
IMPORT = "from langchain.agents import create_agent"
PERSISTS = "SQLite, every step (AsyncSqliteSaver)"


class Scripted(BaseChatModel):
    steps: int = 0
    deltas: int = 0
    pause: Any = None
    mark: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_args: Any, **_options: Any) -> Scripted:
        return self

    def _generate(self, *_args: Any, **_options: Any) -> ChatResult:
        self.mark()
        self.steps -= 1
        calls = [{"name": "add", "args": {"a": 1, "b": 2}, "id": f"c{self.steps}"}] if self.steps >= 0 else []
        message = AIMessage(content="" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, *_args: Any, **_options: Any) -> ChatResult:
        return self._generate()

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **_options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        del messages, stop
        for _ in range(self.deltas):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content="word "))
            if run_manager:
                await run_manager.on_llm_new_token("word ", chunk=chunk)
            yield chunk
            await self.pause()


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def stream(deltas: int, pause: Callable[[], Awaitable[None]]) -> int:
    agent = create_agent(Scripted(deltas=deltas, pause=pause, mark=int), [add])
    count = 0
    async for _event in agent.astream(
        {"messages": [HumanMessage("hi")]}, stream_mode=["messages", "updates"]
    ):
        count += 1
    return count


async def work(steps: int, mark: Callable[[], None], folder: str = "") -> int:
    model = Scripted(steps=steps, mark=mark)
    settings: dict[str, Any] = {"recursion_limit": 10 * steps + 100}
    question = {"messages": [HumanMessage("hi")]}
    if not folder:
        return len((await create_agent(model, [add]).ainvoke(question, settings))["messages"])
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    settings["configurable"] = {"thread_id": "t"}
    async with AsyncSqliteSaver.from_conn_string(f"{folder}/checkpoints.db") as saver:
        agent = create_agent(model, [add], checkpointer=saver)
        return len((await agent.ainvoke(question, settings))["messages"])
