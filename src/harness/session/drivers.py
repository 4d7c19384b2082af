"""The drivers of a session: one for each agent that has worked in it, kept from one run to the next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

from harness.session.agent_driver import AgentDriver, NativeDriver
from harness.session.config import BackingAgent, CommandAgent

_logger = logging.getLogger("harness.session")


class Drivers:
    """The built-in loop has one driver, whichever agent it is given."""

    def __init__(self, new: Callable[[BackingAgent | CommandAgent], AgentDriver]) -> None:
        self._new = new
        self._by_agent: list[tuple[BackingAgent | CommandAgent, AgentDriver]] = []
        self._lock = threading.Lock()
        """Other threads ask what the agent can do."""

    def of(self, agent: BackingAgent | CommandAgent) -> AgentDriver:
        with self._lock:
            for known_agent, driver in self._by_agent:
                if known_agent == agent or (
                    isinstance(known_agent, BackingAgent) and isinstance(agent, BackingAgent)
                ):
                    return driver
            driver = self._new(agent)
            self._by_agent.append((agent, driver))
        return driver

    def background(self) -> list[str]:
        """The commands of the built-in loop that go on in the background."""
        return [command for driver in self._native() for command in driver.background]

    def flush(self) -> None:
        """Write events that a loop still buffers to the log."""
        for driver in self._native():
            driver.flush()

    def forget_conversations(self) -> None:
        for driver in self._native():
            driver.forget()

    async def close(self) -> None:
        """The thread is left: end what lasts from one run to the next."""
        for _, driver in self._by_agent:
            try:
                await driver.close()
            except Exception:  # the others are closed all the same
                _logger.exception("a driver of %s could not be closed", driver.agent_name)

    def _native(self) -> Iterator[NativeDriver]:
        return (driver for _, driver in self._by_agent if isinstance(driver, NativeDriver))
