"""Runs a loop as a run of its own: in one thread with one event loop, from its start to its `Result`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from harness.contracts.worker import BeforeWork, OnEnd
from harness.conversation.inbox import Inbox
from harness.errors import HarnessError
from harness.events import Error, Message, RelayReply, Result, SessionStart, Warning
from harness.log.hub import Hub
from harness.log.redact.redactor import secrets_in
from harness.native.loop.cancellation import TimeLimits
from harness.native.loop.loop_context import LoopContext, environment_for_tools
from harness.runs.launch import Launch
from harness.usage.run_cost import prices_of

_FAREWELL_S = 1.0
"""How long abandoned tasks may take to end, when the run is over."""


class Job(Protocol):
    """Contract: `run` puts everything from `SessionStart` to `Result` into the log, also when it is cancelled."""

    async def run(self, prompt: str) -> Result: ...


OpenJob: TypeAlias = Callable[[LoopContext, Inbox], Job]
"""Called in the event loop; may raise HarnessError, which is then how the run ended."""


class LoopWorker:
    """Contract: that of `Worker`, `Steerable` and `Answerable`."""

    is_steerable = True

    def __init__(self, launch: Launch, hub: Hub, on_end: OnEnd, open_job: OpenJob, *, redact: bool) -> None:
        self.result: Result | None = None
        self.before_work: BeforeWork | None = None
        self._launch = launch
        self._hub = hub
        self._run_id = launch.run_id or hub.log_id
        self._on_end = on_end
        self._open_job = open_job
        self._redact = redact
        self._inbox = Inbox()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._context: LoopContext | None = None
        self._is_stopped = False

    def steer(self, text: str, message_id: str = "") -> None:
        self._inbox.steer(text, message_id=message_id)

    def follow_up(self, text: str) -> None:
        """Give the run another task, for when it is done with this one. From any thread."""
        self._inbox.follow_up(text)

    def reply(self, reply: RelayReply) -> bool:
        return self._context is not None and self._context.questions.reply(reply)

    def stop(self) -> None:
        self._is_stopped = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has just been closed: the run has ended
                self._loop.call_soon_threadsafe(self._press)

    def work(self) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(_ignore)
        try:
            loop.run_until_complete(self._main())
        finally:
            self._inbox.close()
            _wind_up(loop)
            if self._context is not None:
                self._conclude(self._context)

    async def _main(self) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        request = self._launch.request
        environ = self._launch.invocation.env
        context = self._context = LoopContext(
            self._hub,
            cwd=request.cwd,
            env=environment_for_tools(environ, request.env),
            secrets=secrets_in(environ) if self._redact else None,
            cost_of=prices_of(request.cwd, must_hold=request.limits.max_budget_usd is not None),
            sandbox=self._launch.sandbox,
        )
        context.before_work = self.before_work
        channel = context.outbox.channel(self._run_id)
        for warning in self._launch.warnings:
            channel.put(Warning(message=warning, code="unsupported_option"))
        if self._is_stopped:
            context.stopped = "interrupted"
        try:
            job = self._open_job(context, self._inbox)
        except HarnessError as error:
            self._give_up(context, error)
            return
        TimeLimits(context, self._run_id, request.limits, self._press).watch()
        with suppress(asyncio.CancelledError):  # it was stopped, which is in the log
            await job.run(request.prompt)

    def _conclude(self, context: LoopContext) -> None:
        last = context.outbox.last
        if type(last) is Result and last.run_id == self._run_id:
            self.result = last
            self._on_end(last, context.outbox.session)

    def _press(self) -> None:
        if self._context is not None and self._context.stopped is None:
            self._context.stopped = "interrupted"
        if self._task is not None:
            self._task.cancel()

    def _give_up(self, context: LoopContext, error: HarnessError) -> None:
        """The run could not even begin: that is an outcome, not an exception."""
        request = self._launch.request
        channel = context.outbox.channel(self._run_id)
        channel.put(
            SessionStart(
                agent=self._launch.agent.name,
                model=request.model,
                cwd=request.cwd,
                version=self._launch.version,
            )
        )
        channel.put(Message(role="user", text=request.prompt))
        channel.put(Error(message=error.words, code="spawn_failed"))
        channel.put(Result(success=False, outcome="spawn_failed"))
        channel.close()


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Close an event loop, whatever tasks are left in it."""
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_FAREWELL_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Errors of an abandoned tool are ignored: the call it belonged to has ended."""
    del loop, context
