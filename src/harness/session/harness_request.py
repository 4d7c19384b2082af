"""The session as the tools, factories and instructions of a run see it: under `harness` in their request context."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from harness.events import Event
from harness.session.config import check_event
from harness.session.services import Workspace
from harness.session.session_settings import SessionSettings
from harness.session.state import SessionState, Transaction
from harness.session.thread_log import ThreadLog


class AskingSession(NamedTuple):
    """Mode, model and state of the session, at the time of access."""

    mode_id: str
    model_id: str
    state: SessionState


class StoppableRun(Protocol):
    """The current run, as tools see it."""

    abort_signal: asyncio.Event | None
    is_abort_requested: bool


class HarnessRequest:
    """Contract: everything is current at the time of access, except `state`: that of the start of the run."""

    def __init__(self, log: ThreadLog, settings: SessionSettings, run: StoppableRun) -> None:
        self._log, self._settings, self._run = log, settings, run
        self.state: Mapping[str, Any] = settings.state.get()
        self._loop, self._home = asyncio.get_running_loop(), threading.get_ident()

    @property
    def harness_id(self) -> str:
        return self._settings.harness.id

    @property
    def thread_id(self) -> str | None:
        return self._log.thread_id

    @property
    def resource_id(self) -> str:
        return self._settings.identity.get_resource_id()

    @property
    def session(self) -> AskingSession:
        settings = self._settings
        return AskingSession(settings.mode.get(), settings.model.get(), settings.state)

    @property
    def workspace(self) -> Workspace | None:
        return self._settings.workspace

    @property
    def abort_signal(self) -> asyncio.Event | None:
        """Of the current run: set when it should stop."""
        return self._run.abort_signal

    @property
    def is_aborted(self) -> bool:
        """Whether the run should stop; for code in another OS thread."""
        return self._run.is_abort_requested

    def get_state(self) -> dict[str, Any]:
        return self._settings.state.get()

    async def set_state(self, changes: Mapping[str, Any]) -> None:
        """Raises UsageError `Invalid state update: …`."""
        await self._settings.state.set(changes)

    async def update_state(self, transaction: Transaction) -> Any:
        return await self._settings.state.update(transaction)

    def emit_event(self, event: Event) -> None:
        """Append an event to the thread's log. Safe to call from any OS thread.

        Listeners are notified in the event loop's thread.
        Raises UsageError for an event that cannot be encoded.
        """
        check_event(event, "Invalid event")
        if threading.get_ident() == self._home:
            self._log.append(event)
            return
        with suppress(RuntimeError):  # the loop is closed: no listener is left
            self._loop.call_soon_threadsafe(self._log.append, event)

    def get_subagent_model_id(self, agent_type: str = "") -> str | None:
        return self._settings.subagents.model.get(agent_type=agent_type)
