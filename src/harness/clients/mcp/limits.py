"""How deep agents may call agents, and what they may spend: both end. And how far they reach.

A server of ours knows that it was started by an agent of ours from its environment, and, where an agent does not pass that
on, from the processes above it.

The model that calls is no person: what the person did not grant to this server, it cannot take by continuing a session
that has more rights, by naming another folder, or by allowing what an agent asks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence

import msgspec

from harness.approvals.work_folder import is_below
from harness.clients.conversations.backend import Setup
from harness.errors import UsageError
from harness.system.contract import system

DEPTH, BUDGET = "HARNESS_DEPTH", "HARNESS_BUDGET_USD"
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
    """What all runs of this server may spend; None: nothing was said."""
    try:
        budget_usd = float(environ[BUDGET])
    except (KeyError, ValueError):
        return None
    return 0.0 if math.isnan(budget_usd) else max(0.0, budget_usd)


class CallLimits:
    """What is left. Contract: used by one thread."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self.depth = depth_here(environ)
        self._left_usd = budget_here(environ)
        self._environ = environ
        environ[DEPTH] = str(self.depth + 1)

    def admit(self, wanted_usd: float | None, at_work: Iterable[float | None] = ()) -> float | None:
        """The budget of a run that begins now. Raises UsageError.

        `at_work`: those of the runs that are not over. Programs are told the least of them, since all get one environment.
        """
        if self.depth >= DEEPEST:
            raise UsageError(
                f"agents call agents {self.depth} deep already, which is the limit",
                hint="do this task yourself, with your own tools",
            )
        limits = [limit for limit in (wanted_usd, self._left_usd) if limit is not None]
        budget = min(limits, default=None)
        if budget is not None and budget <= 0:
            raise UsageError(
                "the budget of this task is used up",
                hint="finish with what you have, and say what is missing",
            )
        least = min([limit for limit in (budget, *at_work) if limit is not None], default=None)
        if least is None:
            self._environ.pop(BUDGET, None)
        else:
            self._environ[BUDGET] = f"{least:.6f}"
        return budget

    def spend(self, cost_usd: float) -> bool:
        """Whether anything is left."""
        if self._left_usd is None:
            return True
        self._left_usd = max(0.0, self._left_usd - cost_usd)
        limit_usd = budget_here(self._environ)
        self._environ[BUDGET] = (
            f"{self._left_usd if limit_usd is None else min(limit_usd, self._left_usd):.6f}"
        )
        return self._left_usd > 0


_RIGHTS = {"readOnly": 0, "default": 1, "acceptEdits": 2, "fullAuto": 3}


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a person granted to this server."""

    permission_mode: str
    folders: Sequence[str]
    """In these and below them tasks may work."""
    lets_agents_allow: bool = False
    """Whether the calling agent may allow what another one asks permission for; else only a person."""

    def check(self, setup: Setup) -> None:
        """Raises UsageError for a task or a session that reaches further."""
        granted = _RIGHTS[self.permission_mode]
        rank = _RIGHTS.get(setup.permission_mode or self.permission_mode, len(_RIGHTS))
        uses_settings = setup.folder_settings == "use" and self.permission_mode != "fullAuto"
        if uses_settings or rank > granted:
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
