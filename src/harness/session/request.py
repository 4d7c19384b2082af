"""What tools and factories are told of the harness that they work for: the entry `harness` of a request context."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.events import Event
from harness.session.config import RequestContext
from harness.session.services import Workspace
from harness.session.state import SessionState, Transaction
from harness.session.storable_settings import check_event

if TYPE_CHECKING:
    from harness.session.session import Session

KEY = "harness"


class AskingSession(NamedTuple):
    """What is known of the session, at the moment when it is asked for."""

    mode_id: str
    model_id: str
    state: SessionState


class HarnessRequest:
    """Contract: it speaks of the moment when it is asked, but for `state`, which is that of the run's beginning."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.state: Mapping[str, Any] = session.state.get()
        self._loop, self._home = asyncio.get_running_loop(), threading.get_ident()

    @property
    def harness_id(self) -> str:
        return self._session.harness.id

    @property
    def thread_id(self) -> str | None:
        return self._session.thread.get_id()

    @property
    def resource_id(self) -> str:
        return self._session.identity.get_resource_id()

    @property
    def session(self) -> AskingSession:
        session = self._session
        return AskingSession(session.mode.get(), session.model.get(), session.state)

    @property
    def workspace(self) -> Workspace | None:
        return self._session.workspace

    @property
    def abort_signal(self) -> asyncio.Event | None:
        """Of the run that goes on: set when it is to stop."""
        return self._session.runs.abort_signal

    @property
    def is_aborted(self) -> bool:
        """For code in a thread of its own: whether somebody wants the run to stop."""
        return self._session.runs.is_abort_requested

    def get_state(self) -> dict[str, Any]:
        return self._session.state.get()

    async def set_state(self, changes: Mapping[str, Any]) -> None:
        """Raises UsageError `Invalid state update: …`."""
        await self._session.state.set(changes)

    async def update_state(self, transaction: Transaction) -> Any:
        return await self._session.state.update(transaction)

    def emit_event(self, event: Event) -> None:
        """Put a fact into the thread's log; listeners are told of it, in the event loop's thread, whoever calls.

        Raises UsageError for what no log could hold.
        """
        check_event(event, "Invalid event")
        if threading.get_ident() == self._home:
            self._session.append(event)
            return
        with suppress(RuntimeError):  # the loop is closed: there is nobody to tell
            self._loop.call_soon_threadsafe(self._session.append, event)

    def get_subagent_model_id(self, agent_type: str = "") -> str | None:
        return self._session.subagents.model.get(agent_type=agent_type)


def request_context(session: Session, given: Mapping[str, Any] | None) -> RequestContext:
    """What a caller passed along, and who asks."""
    return RequestContext({**(given or {}), KEY: HarnessRequest(session)})
