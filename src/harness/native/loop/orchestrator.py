"""Many agents at once in one log: their events come in one stream, live, and an agent that waits does not
block the others.

    async with Orchestrator(AgentOptions(model=model, tools=(search,))) as agents:
        agents.spawn("look into this")
        agents.spawn("look into that")
        async for event in agents.events():
            if isinstance(event, Relay):
                agents.resolve(event.id, approved=True, always=True)

The `run_id` of an event says which agent it belongs to.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self

from msgspec.structs import replace

from harness.contracts.model import Turn
from harness.contracts.request import OWN_AGENT
from harness.conversation.inbox import Inbox
from harness.errors import UsageError
from harness.events import Event, RelayReply, Result
from harness.log.clock import new_clock
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.redact.redactor import secrets_in
from harness.log.store import Metadata, Store
from harness.log.stores.memory import MemoryStore
from harness.native.loop.agent_run import AgentRun
from harness.native.loop.loop_context import AgentOptions, LoopContext, environment_for_tools
from harness.usage.run_cost import prices_of


class Orchestrator:
    """Contract: used in the event loop in which it was made; only `resolve` and `steer` from any thread."""

    def __init__(
        self,
        options: AgentOptions | None = None,
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        store: Store | None = None,
        redact: bool = True,
    ) -> None:
        """`env`: for tools, besides the environment of this process without its secrets."""
        self._options = options
        self._store = store or MemoryStore()
        clock = new_clock()
        log_id = new_run_id(clock())
        metadata = Metadata(session_id=log_id, agent_name=OWN_AGENT, cwd=cwd, start_time=str(clock() // 1000))
        self.hub: Hub = Hub(self._store, log_id, self._store.create(metadata), clock)
        self._context = LoopContext(
            self.hub,
            cwd=os.path.abspath(cwd or os.getcwd()),
            env=environment_for_tools(os.environ, env or {}),
            secrets=secrets_in(os.environ) if redact else None,
            cost_of=prices_of(cwd or os.getcwd()),
        )
        self._inboxes: dict[str, Inbox] = {}
        self._wakers: set[asyncio.Event] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def spawn(
        self,
        prompt: str,
        options: AgentOptions | None = None,
        *,
        turns: Sequence[Turn] = (),
        parent_id: str = "",
        **changes: Any,
    ) -> str:
        """Start an agent; its id. `changes` replace single options, as in `spawn(text, model=other)`."""
        run_options = options or self._options
        if run_options is None and "model" not in changes:
            raise UsageError("no model was given", hint="name one here, or when the orchestrator is made")
        run_options = AgentOptions(**changes) if run_options is None else replace(run_options, **changes)
        inbox = Inbox()
        run = AgentRun(self._context, run_options, inbox=inbox, turns=turns, parent_id=parent_id)
        self._inboxes[run.run_id] = inbox
        task = asyncio.get_running_loop().create_task(run.run(prompt))
        self._context.runs[run.run_id] = task
        task.add_done_callback(lambda ended_task: self._forget(run.run_id, ended_task))
        return run.run_id

    async def events(self, cursor: int = 0) -> AsyncIterator[Event]:
        """Everything from the first event on, until no agent is left."""
        changed = asyncio.Event()
        self._wakers.add(changed)
        remove = self.hub.add_waker(changed.set)
        follower = self.hub.follower(cursor)
        try:
            while True:
                changed.clear()
                for event in follower.poll():
                    yield event
                if self.hub.has(follower.cursor):
                    continue
                if not self._context.runs:
                    return
                await changed.wait()
        finally:
            remove()
            self._wakers.discard(changed)
            follower.close()

    def resolve(
        self,
        relay_id: str,
        *,
        approved: bool,
        always: bool = False,
        reason: str = "",
        choice: str = "",
        answer: Any = None,
    ) -> bool:
        """Answer a `Relay`; false when nothing of that id waits (any more). `choice`: the id of a choice.

        Raises UsageError for an answer that does not fit; the question then stays open.
        """
        return self._context.questions.reply(
            RelayReply(
                id=relay_id, approved=approved, always=always, reason=reason, choice=choice, answer=answer
            )
        )

    def steer(self, agent_id: str, text: str) -> None:
        """Give an agent another message, taken at its next boundary."""
        if agent_id not in self._inboxes:
            raise UsageError(f"no agent is running under {agent_id}", hint="start one with `spawn`")
        self._inboxes[agent_id].steer(text)

    def kill(self, agent_id: str) -> None:
        """Stop an agent or a sub-agent, and drop its questions. An unknown id is ignored."""
        task = self._context.runs.get(agent_id)
        if task is not None:
            task.cancel()

    async def wait(self, agent_id: str) -> Result | None:
        """Until that agent has ended; its result, or None when it was stopped or is not running."""
        task = self._context.runs.get(agent_id)
        if task is None:
            return None
        await asyncio.wait((task,))
        result: Result | None = None if task.cancelled() else task.result()
        return result

    async def close(self) -> None:
        """Stop all agents and close the log."""
        tasks = list(self._context.runs.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._context.outbox.flush()
        self.hub.close()

    def _forget(self, run_id: str, task: asyncio.Task[Result]) -> None:
        self._context.runs.pop(run_id, None)
        self._inboxes.pop(run_id, None)
        if not task.cancelled():
            task.exception()  # it is in the log; `wait` raises it
        for waker in self._wakers:
            waker.set()
