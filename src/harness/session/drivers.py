"""The drivers of a session, with one contract: `native_driver` is for the built-in loop, `program_driver` for programs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from harness.events import RelayReply, Signal
from harness.native.loop.conversation import AgentConversation
from harness.session.config import BackingAgent, CommandAgent
from harness.session.run_outcomes import Ended
from harness.session.session_settings import SessionSettings
from harness.session.thread_log import ThreadLog
from harness.session.user_message import UserMessage

_logger = logging.getLogger("harness.session")


class AgentDriver(Protocol):
    """Contract: `send` and `resume` return when the run ends or is suspended; cancelling them stops it."""

    agent_name: str

    @property
    def capabilities(self) -> frozenset[str]:
        """What the agent can do.

        The built-in loop: `steer`, `approve`, `suspend`, `tools`, `memory`, `goals` and `compact`. A program: `resume`
        (it continues its own session), `model` and `append_system_prompt` (it accepts them), `steer`
        while its current run accepts input; one that is held in a conversation also `approve`, `ask` and `plan`
        (its questions can be answered) and `files`. What it knows of other agents' runs: `history` (everything) or
        `briefing` (a summary before its prompt).
        """
        ...

    async def send(self, message: UserMessage, run_id: str) -> Ended:
        """Start a run with this id."""
        ...

    async def resume(self, replies: Mapping[str, RelayReply], *, ends: bool = False) -> Ended:
        """Continue the suspended run. `ends`: stop it as soon as it has taken in the answers."""
        ...

    async def wake(self, signal: Signal, run_id: str) -> Ended:
        """Start a run because of a signal."""
        ...

    async def compact(self, focus: str, run_id: str) -> Ended:
        """Sum up the conversation so far. Raises UsageError where only the agent itself can do so."""
        ...

    def configured(self) -> BackingAgent | CommandAgent:
        """The agent with its instructions and tools in the current mode."""
        ...

    def leave(self) -> bool:
        """Release a run that only waits for the user, so that it can be resumed; False without one."""
        ...

    def join(self, message: UserMessage) -> bool:
        """Give the message to the current run; False when that accepts no input."""
        ...

    def reply(self, reply: RelayReply) -> bool:
        """Answer the current run; False when it does not wait for this answer."""
        ...

    async def close(self) -> None:
        """The thread is left: end what lasts from one run to the next."""
        ...


class LoopDriver(AgentDriver, Protocol):
    """Contract: of the built-in loop, which works in this process, on the thread's log."""

    @property
    def conversation(self) -> AgentConversation:
        """That of the open thread. Raises UsageError without one."""
        ...

    @property
    def background(self) -> list[str]:
        """The commands that go on in the background."""
        ...

    def flush(self) -> None:
        """Write what the loop has buffered to the log."""
        ...

    def forget(self) -> None:
        """Read the thread again when it is next needed: its log was changed by others."""
        ...


class Drivers:
    """One for each agent that has worked in the session, kept from one run to the next.

    The built-in loop has one driver, whichever agent it is given.
    """

    def __init__(
        self,
        log: ThreadLog,
        settings: SessionSettings,
        new_loop: Callable[[], LoopDriver],
        new_program: Callable[[CommandAgent], AgentDriver],
    ) -> None:
        self._log, self._settings = log, settings
        self._new_loop, self._new_program = new_loop, new_program
        self._loop: LoopDriver | None = None
        self._programs: list[tuple[CommandAgent, AgentDriver]] = []
        self._lock = threading.Lock()
        """Other threads ask what the agent can do."""

    @property
    def current(self) -> AgentDriver:
        """That of the agent that works now."""
        agent = self._settings.agent
        return self._of_program(agent) if isinstance(agent, CommandAgent) else self._of_loop()

    @property
    def conversation(self) -> AgentConversation | None:
        """The conversation of the built-in loop; None for agent programs, and without a thread."""
        if self._settings.works_alone or self._log.thread is None:
            return None
        return self._of_loop().conversation

    def _of_loop(self) -> LoopDriver:
        with self._lock:
            if self._loop is None:
                self._loop = self._new_loop()
        return self._loop

    def _of_program(self, agent: CommandAgent) -> AgentDriver:
        with self._lock:
            for known_agent, driver in self._programs:
                if known_agent == agent:
                    return driver
            driver = self._new_program(agent)
            self._programs.append((agent, driver))
        return driver

    def background(self) -> list[str]:
        """The commands of the built-in loop that go on in the background."""
        return self._loop.background if self._loop is not None else []

    def flush(self) -> None:
        """Write events that the loop still buffers to the log."""
        if self._loop is not None:
            self._loop.flush()

    def forget_conversations(self) -> None:
        if self._loop is not None:
            self._loop.forget()

    def abandon_suspension(self, reason: str) -> None:
        """Give up a run that waits for answers which will not come: its end is written to the log."""
        if self._log.bus.fold.facts.activity != "waiting":
            return
        conversation, thread = self.conversation, self._log.thread
        if conversation is not None:
            conversation.give_up(reason)
        elif thread is not None:
            thread.close_runs(reason)
        self._log.bus.deliver()

    async def close(self) -> None:
        """The thread is left: end what lasts from one run to the next."""
        for driver in self._all():
            try:
                await driver.close()
            except Exception:  # the others are closed all the same
                _logger.exception("a driver of %s could not be closed", driver.agent_name)

    def _all(self) -> Iterator[AgentDriver]:
        if self._loop is not None:
            yield self._loop
        for _, driver in self._programs:
            yield driver
