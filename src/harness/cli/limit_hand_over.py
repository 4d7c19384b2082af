"""`--at-limit hand-over`: what a full window has ended is continued by another agent that has room, in the same folder.

Nothing becomes wider by it: the other agent gets the same permissions and walls, or does not get the work at all. Each
agent is asked once, and it is not handed back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from msgspec.structs import replace

from harness.agents.registry import load
from harness.cli.console import Console
from harness.clients.installed_agents import names_of
from harness.clients.sessions.limits import stated_limits
from harness.config import Settings
from harness.contracts.agent import Agent
from harness.contracts.history import current_home
from harness.contracts.request import Request
from harness.errors import HarnessError, UsageError
from harness.histories.handover.delivery import HandoverFolder, Target
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.process.version_probe import probe_version
from harness.runs.launch import find_binary, prepare
from harness.runs.run import Run
from harness.session.hand_over import carry_out, handover_directory, losses_of, plan
from harness.session.parking import CONTINUATION

FULL_PERCENT = 90.0
"""An agent whose window is fuller than that gets nothing."""


class LimitHandOver:
    """Contract: `next_request` is called after a run that a full window has ended; None: nobody can take it."""

    def __init__(self, settings: Settings, console: Console) -> None:
        self._names: Sequence[str] = settings.value("limits.hand_over") or ()
        self._settings = settings
        self._console = console
        self._workers: set[str] = set()
        """Who has worked at it."""

    def next_request(self, run: Run, request: Request) -> Request | None:
        self._workers.add(run.launch.agent.name)
        if not self._names:
            self._console.warning("nobody is named to hand it over to: `harness config set limits.hand_over`")
        for name in self._names:
            try:
                agent = load(name)
                if agent.name in self._workers:
                    continue
                candidate = self._candidate(agent, request)
                self._require_room(agent, run)
                launch = prepare(candidate)
                following = self._continuation(run, agent, candidate, launch.version)
            except HarnessError as error:
                self._console.say(f"not handed over to {name}: {error.message}")
                continue
            self._workers.add(agent.name)
            return following
        return None

    def _candidate(self, agent: Agent, request: Request) -> Request:
        if request.permissions == "agent-default":
            raise UsageError("what it may do by itself is not known to be the same")
        binary = find_binary(agent, self._settings.binary_for(names_of(agent)), os.environ)
        if not binary and agent.work is None:
            raise UsageError(f"{agent.title} is not installed")
        # The model, further arguments and the session are those of the agent before.
        return replace(
            request,
            agent=agent.name,
            binary=binary,
            prompt=CONTINUATION,
            model="",
            extra_args=(),
            resume="",
            continue_last=False,
            fork=False,
            attachments=(),
        )

    def _require_room(self, agent: Agent, run: Run) -> None:
        if not isinstance(run.store, FileStore):
            return
        for limit in stated_limits(run.store, int(time.time() * 1000)):
            is_full = limit.status in ("reached", "exhausted") or (limit.used_percent or 0) >= FULL_PERCENT
            if limit.agent == agent.name and is_full and not limit.is_past:
                raise UsageError(
                    f"its window {limit.window.replace('_', ' ') or 'of the provider'} is full, too"
                )

    def _continuation(self, run: Run, agent: Agent, request: Request, version: str) -> Request:
        has_own_home = request.gateway is not None or bool(request.sealed)
        version = version or (probe_version(request.binary, agent.version_args) if request.binary else "")
        # A session of the agent would be in a home that it does not see behind a gateway.
        plan_of = plan(read_all(run.store, run.id), agent, version, "briefing" if has_own_home else "")
        target = Target(
            at_ms=int(time.time() * 1000),
            source=run.id,
            cwd=request.cwd,
            home=current_home([request.cwd]),
            binary=request.binary,
            version=version,
            model="",
        )
        result = carry_out(plan_of, HandoverFolder(handover_directory()), target, request)
        how = "as a session of its own" if result.form == "native" else "with a briefing"
        self._console.say(f"handed over to {agent.title}, {how}")
        for line in losses_of(plan_of):
            self._console.say(f"not there: {line}")
        return result.request
