"""How deep agents may call agents, and what they may spend: both end. And how far they reach.

A server of ours knows that it was started by an agent of ours from its environment, and, where an agent does not pass that
on, from the processes above it. All servers of such a tree count in one file (`task_ledger`).

The model that calls is no person: what the person did not grant to this server, it cannot take by continuing a session
that has more rights, by naming another folder, or by allowing what an agent asks.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping, MutableMapping, Sequence

import msgspec

from harness.approvals.work_folder import is_below
from harness.clients.conversations.backend import Setup, does_more
from harness.clients.mcp.task_ledger import TaskLedger
from harness.errors import UsageError
from harness.events import UsageDelta
from harness.log.hub import Hub, observe
from harness.system.contract import system
from harness.usage.prices import rate_of, states_run
from harness.usage.run_cost import CostOf

DEPTH, BUDGET = "HARNESS_DEPTH", "HARNESS_BUDGET_USD"
LEDGER, TASK = "HARNESS_TASK_LEDGER", "HARNESS_TASK"
"""The file in which the servers of a tree count what their tasks cost, and the task or server that is the next above."""
DEEPEST = 3
_MOST_ABOVE = 64


def depth_here(environ: Mapping[str, str]) -> int:
    """How many servers of ours are above this one."""
    text = environ.get(DEPTH, "")
    depth = int(text) if text.isdecimal() and len(text) < 4 else 0
    return max(depth, _servers_above())


def _servers_above() -> int:
    """As far as the system shows its processes; elsewhere the environment alone says it."""
    return sum(
        b"mcp" in words and any(word.rsplit(b"/", 1)[-1] == b"harness" for word in words)
        for words in system.ancestors(_MOST_ABOVE)
    )


def budget_here(environ: Mapping[str, str]) -> float | None:
    """What the environment says that all runs of this server may spend; None: nothing."""
    try:
        budget_usd = float(environ[BUDGET])
    except (KeyError, ValueError):
        return None
    return 0.0 if math.isnan(budget_usd) else max(0.0, budget_usd)


class CallLimits:
    """How deep this server is, and what it and those above it have left. Contract: used by one thread, `close` last.

    It observes the logs of this process: what a task starts is told where its costs belong.
    """

    def __init__(self, environ: MutableMapping[str, str], max_budget_usd: float | None = None) -> None:
        self.depth = depth_here(environ)
        self._environ = environ
        self._id = f"server-{os.getpid()}-{secrets.token_hex(6)}"
        above = environ.get(LEDGER) or system.inherited_variable(LEDGER, _MOST_ABOVE)
        self._ledger: TaskLedger | None = None
        self._path = above
        self._above = (environ.get(TASK) or system.inherited_variable(TASK, _MOST_ABOVE)) if above else ""
        inherited_usd = budget_here(environ)
        given = (max_budget_usd, None if above else inherited_usd)
        """What is told beside the file of a server above is what it had left at that time."""
        self._limit_usd = min([usd for usd in given if usd is not None], default=None)
        self._must_hold = inherited_usd is not None or max_budget_usd is not None
        environ[DEPTH] = str(self.depth + 1)
        self._stop_observing = observe(self)

    def close(self) -> None:
        self._stop_observing()
        if self._ledger is not None:
            self._ledger.close()

    def opened(self, hub: Hub, /) -> None:
        """It only tells."""

    def environment(self, log_id: str, run_id: str, /) -> Mapping[str, str]:
        del run_id
        if self._ledger is None:
            return {}
        left_usd = self._ledger.left_usd(log_id)
        about_budget = {} if left_usd is None else {BUDGET: f"{left_usd:.6f}"}
        return {LEDGER: self._ledger.path, TASK: log_id, **about_budget}

    def admit(self, wanted_usd: float | None) -> float | None:
        """The budget of a run that begins now. Raises UsageError."""
        if self.depth >= DEEPEST:
            raise UsageError(
                f"agents call agents {self.depth} deep already, which is the limit",
                hint="do this task yourself, with your own tools",
            )
        ledger = self._opened()
        left_usd = ledger.left_usd(self._id) if ledger is not None else None
        limits = [limit for limit in (wanted_usd, left_usd) if limit is not None]
        budget_usd = min(limits, default=None)
        if budget_usd is not None and budget_usd <= 0:
            raise UsageError(
                "the budget of this task is used up",
                hint="finish with what you have, and say what is missing",
            )
        return budget_usd

    def begin(self, log_id: str, budget_usd: float | None) -> None:
        """A turn, which may spend this, with all that it starts."""
        if self._ledger is not None:
            self._ledger.begin(log_id, self._id, budget_usd)

    def spend(self, log_id: str, cost_usd: float) -> None:
        if self._ledger is not None and cost_usd > 0:
            self._ledger.spend(log_id, cost_usd)

    def has_left(self, log_id: str) -> bool:
        """Whether this run, and all that it is below, may spend more."""
        left_usd = self._ledger.left_usd(log_id) if self._ledger is not None else None
        return left_usd is None or left_usd > 0

    def _opened(self) -> TaskLedger | None:
        """None: there is nothing to hold, and the file of a server above cannot be used. Raises UsageError."""
        if self._ledger is None:
            try:
                self._ledger = TaskLedger.open(self._path) if self._path else TaskLedger.create(self._id)
                self._ledger.begin(self._id, self._above, self._limit_usd)
            except UsageError:
                if self._must_hold:
                    raise
                return None
            self._environ.update({LEDGER: self._ledger.path, TASK: self._id})
        return self._ledger


class RunCosts:
    """What a run costs: what its agent states, and until it does, what its tokens cost by the list of prices.

    Several agents state it only at their end, when what they have started has spent long what was left.
    """

    def __init__(self, cost_of: CostOf) -> None:
        self._cost_of = cost_of
        self._unstated_usd = 0.0
        """Counted already, of what the agent will state."""
        self.has_unknown = False
        """Whether there was something without a price."""

    def more_usd(self, event: UsageDelta) -> float:
        """What is to be counted now."""
        cost_usd = event.usage.cost_usd
        if cost_usd is None:
            cost_usd = self._cost_of(event.model, event.usage, rate_of(event))
            self.has_unknown = self.has_unknown or (cost_usd is None and bool(event.usage))
            self._unstated_usd += cost_usd or 0.0
        elif states_run(event.usage, event.id):
            unstated_usd, self._unstated_usd = self._unstated_usd, max(0.0, self._unstated_usd - cost_usd)
            return max(0.0, cost_usd - unstated_usd)
        return cost_usd or 0.0


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a person granted to this server."""

    permission_mode: str
    folders: Sequence[str]
    """In these and below them tasks may work."""
    lets_agents_allow: bool = False
    """Whether the calling agent may allow what another one asks permission for; else only a person."""

    def check(self, setup: Setup) -> None:
        """Raises UsageError for a task or a session that reaches further."""
        if does_more(setup.permission_mode, setup.folder_settings, self.permission_mode):
            raise UsageError(
                "this session may do more without asking than this server was started with",
                hint="begin a new one, or let your user continue it",
            )
        place = os.path.realpath(setup.cwd)
        if not any(is_below(place, os.path.realpath(folder)) for folder in self.folders):
            raise UsageError(
                f"tasks of this server work in {', '.join(self.folders)} and below, and not in {setup.cwd}",
                hint="your user can start it with --folder for others",
            )
