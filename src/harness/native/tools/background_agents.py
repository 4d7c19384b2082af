"""Sub-agents that work while whoever started them goes on: how they stand, and what they have answered.

Their answers come by themselves: the run that started them is told of each that has ended, and does not end before it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, ClassVar

from harness.contracts.tool import Resource, ToolFailure

MOST_AT_ONCE = 8


class BackgroundAgent:
    """Created in a running event loop, and used only in its thread."""

    def __init__(self, id: str, name: str, work: Coroutine[Any, Any, str]) -> None:
        self.id = id
        self.name = name
        self.is_told = False
        """Whether the model knows how it ended."""
        self.task = asyncio.create_task(work)

    @property
    def is_running(self) -> bool:
        return not self.task.done()

    @property
    def words(self) -> str:
        """For the model."""
        who = f"sub-agent {self.id}" + (f" ({self.name})" if self.name else "")
        if self.is_running:
            return f"{who} is still at work"
        if self.task.cancelled():
            return f"{who} was stopped"
        error = self.task.exception()
        return f"{who} has failed: {error}" if error else f"{who} has answered:\n{self.task.result()}"

    async def look(self, wait_s: float, *, is_to_stop: bool) -> str:
        """How it stands, after it was waited for, or stopped."""
        if is_to_stop:
            self.task.cancel()
        if is_to_stop or wait_s:
            await asyncio.wait((self.task,), timeout=None if is_to_stop else wait_s)
        self.is_told = self.is_told or not self.is_running
        return self.words


class BackgroundAgents(Resource):
    """Those of one run."""

    ends_with_run: ClassVar[bool] = True
    """Also in a conversation: what a sub-agent asks and does belongs to the run that started it."""

    def __init__(self) -> None:
        self._agents: dict[str, BackgroundAgent] = {}
        self._is_closed = False

    def start(self, name: str, work: Coroutine[Any, Any, str]) -> BackgroundAgent:
        """Raises ToolFailure when there are too many."""
        working = [agent.id for agent in self._agents.values() if agent.is_running]
        if self._is_closed or len(working) >= MOST_AT_ONCE:
            work.close()
            raise ToolFailure(
                "the run has ended"
                if self._is_closed
                else f"{len(working)} sub-agents work in the background, and no more may: wait for one of {', '.join(working)}"
            )
        agent = BackgroundAgent(f"a{len(self._agents) + 1}", name, work)
        self._agents[agent.id] = agent
        return agent

    def get(self, id: str) -> BackgroundAgent | None:
        return self._agents.get(id)

    @property
    def lines(self) -> list[str]:
        """One for each."""
        return [agent.words.partition("\n")[0] for agent in self._agents.values()]

    @property
    def running(self) -> list[str]:
        return [f"{agent.id} {agent.name}" for agent in self._agents.values() if agent.is_running]

    @property
    def has_news(self) -> bool:
        return any(not agent.is_running and not agent.is_told for agent in self._agents.values())

    def news(self) -> list[str]:
        """Of each that has ended and of which the model was not told."""
        fresh = [agent for agent in self._agents.values() if not agent.is_running and not agent.is_told]
        for agent in fresh:
            agent.is_told = True
        return [agent.words for agent in fresh]

    async def wait_for_one(self, timeout_s: float) -> None:
        """Until one has ended, if any is at work."""
        tasks = [agent.task for agent in self._agents.values() if agent.is_running]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    def kill(self) -> None:
        self._is_closed = True
        for agent in self._agents.values():
            agent.task.cancel()

    async def ended(self) -> None:
        if tasks := [agent.task for agent in self._agents.values()]:
            await asyncio.wait(tasks)
        for task in tasks:
            _ = task.cancelled() or task.exception()  # mark it as retrieved
