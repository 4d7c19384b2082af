"""One conversation with its user: identity, thread, mode, model, state, permissions, and the current run."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from harness.events import Event, Relay, Usage, UsageDelta
from harness.folds.session.encoding import to_wire
from harness.folds.session.events import TokenUsage
from harness.folds.session.usage import NOTHING_USED, read_usage, usage_of
from harness.log.hub import Hub
from harness.session.approvals import Approvals, Suspensions
from harness.session.bus import Bus
from harness.session.config import BackingAgent, CommandAgent
from harness.session.modes import MemoryRoles, ModelSelection, ModeSelection, SubagentSettings
from harness.session.public_side import public
from harness.session.run_state import FollowUps, RunState, StreamState
from harness.session.services import Workspace
from harness.session.session_core import SessionCore
from harness.session.session_methods import SessionMethods
from harness.session.session_settings import Identity
from harness.session.state import State
from harness.session.threads import Threads


@public()
class SessionLog:
    """`session.log`: the log of the open thread, for programs that show it to others: `harness serve` is built on it."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core

    @property
    def hub(self) -> Hub:
        """The log itself; without a thread, one that is not stored."""
        return self._core.log.hub

    @property
    def bus(self) -> Bus:
        """Its one reader, with what it has read (`bus.fold`). Others may read along (`bus.join`)."""
        return self._core.bus

    def append(self, event: Event) -> Event:
        """Append an event, and notify listeners at once. Returns it as logged."""
        return self._core.append(event)

    def relays(self) -> list[Relay]:
        """What waits for an answer, as it is in the log; `session.questions` has the same as objects that are answered."""
        self._core.bus.deliver()
        return self._core.runs.relays


@public("internals")
class Session(SessionMethods[State]):
    """A conversation of one user, made by `Harness.create_session`; the harness's own is `harness.session`.

    Attributes:
        identity: The ids of the session and of its resource (whose threads these are).
        thread: Which thread is open, how to open another, and what can be read of all of them.
        mode: `get()`, `switch(mode_id=…)`; each mode remembers its model with the thread.
        model: `get()`, `switch(model_id=…)`.
        om: The models and thresholds of the observational memory, for its `observer` and its `reflector`.
        subagents: The models of sub-agents.
        approval: Tool calls that wait for permission.
        suspensions: Tools that wait for data: questions, plans.
        follow_ups: Messages that wait for the end of the run.
        run: The current run: its id, whether it is stopping, its abort signal.
        log: The log of the open thread, for programs that show it to others.
        stream: Whether the agent is speaking, and for which agent, resource and thread.
        cwd: Where programs are started without a workspace.
        internals: The parts of the session, for the interfaces of this package. They change without notice.

    """

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self.internals: SessionCore = core
        self.cwd: str = core.settings.cwd
        self.identity: Identity = core.settings.identity
        self.thread: Threads = core.thread
        self.mode: ModeSelection = core.settings.mode
        self.model: ModelSelection = core.settings.model
        self.om: MemoryRoles = core.settings.om
        self.subagents: SubagentSettings = core.settings.subagents
        self.approval: Approvals = core.approval
        self.suspensions: Suspensions = core.suspensions
        self.follow_ups: FollowUps = core.follow_ups
        self.run: RunState = core.run
        self.stream: StreamState = core.stream
        self.log: SessionLog = SessionLog(core)

    # Which agent works, and where

    @property
    def agent(self) -> BackingAgent | CommandAgent:
        """The agent of the mode, else of the harness; without either, the native loop."""
        return self._core.settings.agent

    @property
    def capabilities(self) -> frozenset[str]:
        """What the agent of this mode can do: `steer`, `approve`, `suspend`, `resume` …"""
        return self._core.driver.capabilities

    @property
    def workspace(self) -> Workspace | None:
        """What a workspace factory made for the latest run, or the workspace of the harness."""
        return self._core.settings.workspace

    @property
    def working_directory(self) -> str:
        """That of the workspace, else `cwd`."""
        return self._core.settings.working_directory

    # Tokens

    def get_token_usage(self) -> TokenUsage:
        """What the thread has used, as it is shown: a copy."""
        return copy(self._core.bus.fold.facts.usage)

    def set_token_usage(self, usage: TokenUsage | Mapping[str, Any]) -> None:
        """Count from here on. What was really used stays in the log and in the bill."""
        usage_counts = to_wire(usage if isinstance(usage, TokenUsage) else read_usage(usage))
        self._core.append(UsageDelta(usage=Usage(), counted=usage_counts))
        self._core.save_usage()

    def reset_token_usage(self) -> None:
        """Count from zero, as `set_token_usage` does."""
        self.set_token_usage(NOTHING_USED)

    def add_usage(self, usage: TokenUsage | Mapping[str, Any]) -> None:
        """Add what something outside of the session has used for this thread."""
        self._core.append(UsageDelta(usage=usage_of(usage)))

    async def load_memory_progress(self) -> None:
        """Emit how full the observational memory of the thread is."""
        await self._core.hooks.load_memory_progress()

    async def destroy(self) -> None:
        """Stop the run, close the thread, and unsubscribe from its log."""
        await self._core.destroy()
