"""`/api/settings/budget`: the limits of `harness budget`, what was spent under them, and setting them.

They are written into the user's own settings, as the command does. Every login of the server is one of its owner.
"""

from __future__ import annotations

import asyncio
import os

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness import config
from harness.config.repositories import repository_of
from harness.errors import UsageError
from harness.log.store import Store, is_copy
from harness.server.access.responses import json_response, read_body, with_errors
from harness.usage.budget import BudgetState, spent_under
from harness.usage.budget_settings import (
    BudgetChange,
    Period,
    all_limits,
    change_own,
    limits_in,
    own_value,
    period_end_ms,
    period_start_ms,
    place_of,
)
from harness.usage.prices import Prices
from harness.usage.prices import load as load_prices
from harness.usage.stored_accounts import StoredAccounts, day_of

_MOST_PROJECTS = 50
_LARGEST_USD = 1_000_000.0


class LimitSpent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One limit, and what was spent under it."""

    period: Period
    project: str
    """A folder; empty: all of them."""
    limit_usd: float
    spent_usd: float
    left_usd: float
    is_cost_complete: bool
    is_reached: bool
    resets_ms: int
    """When the day or month is over."""
    is_own: bool
    """Whether the project has it by itself, and not as each project does."""


class ProjectLimits(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    folder: str
    day_usd: float | None = None
    month_usd: float | None = None


class OwnLimits(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the user's settings say."""

    day_usd: float | None = None
    month_usd: float | None = None
    project_day_usd: float | None = None
    project_month_usd: float | None = None
    projects: list[ProjectLimits] = []


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    own: OwnLimits
    limits: list[LimitSpent]
    file: str
    """Where they are set."""


class LimitChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    period: Period
    limit_usd: float | None
    """None: no limit."""
    project: str = ""
    is_each_project: bool = False


class LimitChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    changes: list[LimitChange]


class BudgetApi:
    def __init__(self, store: Store, cwd: str) -> None:
        self._store = store
        self._cwd = cwd or os.getcwd()

    def routes(self) -> list[Route]:
        path = "/api/settings/budget"
        return [
            Route(path, with_errors(self._get), methods=["GET"]),
            Route(path, with_errors(self._put), methods=["PUT"]),
        ]

    async def _get(self, request: Request) -> Response:
        del request
        return json_response(await asyncio.to_thread(self._settings))

    async def _put(self, request: Request) -> Response:
        limit_changes = await read_body(request, LimitChanges)
        changes = [_checked(change) for change in limit_changes.changes]
        if changes:
            await asyncio.to_thread(change_own, changes)
        return json_response(await asyncio.to_thread(self._settings))

    def _settings(self) -> BudgetSettings:
        settings = config.load(self._cwd)
        prices = load_prices(settings)
        limits = {(limit.period, limit.project): limit for limit in all_limits(config.own_settings(), "")}
        for folder in self._projects(prices):
            limits |= {
                (limit.period, limit.project): limit for limit in limits_in(config.load(folder), folder)
            }
        own = own_limits()
        folders = {place_of(limit.folder) for limit in own.projects}
        states = spent_under(list(limits.values()), self._store, prices)
        return BudgetSettings(
            own=own, limits=[_shown(limit, folders) for limit in states], file=config.user_file()
        )

    def _projects(self, prices: Prices) -> list[str]:
        """Where something was spent this month, the most expensive first."""
        since_ms = period_start_ms("month")
        ledger = StoredAccounts.of(self._store).ledger(since_ms, leaves_out=is_copy)
        spent_usd: dict[str, float] = {}
        for charge in ledger.charges(prices, day_of, since_ms):
            if charge.project:
                root = repository_of(charge.project).root
                spent_usd[root] = spent_usd.get(root, 0.0) + (charge.usage.cost_usd or 0.0)
        return sorted(spent_usd, key=lambda root: (-spent_usd[root], root))[:_MOST_PROJECTS]


def own_limits() -> OwnLimits:
    names = ("day_usd", "month_usd", "project_day_usd", "project_month_usd")
    tables = config.own_settings().tables("project_budgets")
    return OwnLimits(
        **{name: own_value(f"budget.{name}") for name in names},
        projects=[
            ProjectLimits(folder=folder, day_usd=table.get("day_usd"), month_usd=table.get("month_usd"))
            for folder, table in sorted(tables.items())
        ],
    )


def _shown(state: BudgetState, folders: set[str]) -> LimitSpent:
    limit = state.limit
    return LimitSpent(
        period=limit.period,
        project=limit.project,
        limit_usd=limit.limit_usd,
        spent_usd=round(state.spent_usd, 10),
        left_usd=round(state.left_usd, 10),
        is_cost_complete=state.is_complete,
        is_reached=state.is_reached,
        resets_ms=period_end_ms(limit.period),
        is_own=limit.project in folders,
    )


def _checked(change: LimitChange) -> BudgetChange:
    usd, project = change.limit_usd, change.project
    if usd is not None and not 0 < usd <= _LARGEST_USD:
        raise UsageError("a limit is an amount of dollars above 0", hint="null removes it")
    if project and change.is_each_project:
        raise UsageError("a limit is for one project or for each, not both")
    is_known = project in config.own_settings().tables("project_budgets")
    if project and not is_known and not (os.path.isabs(project) and os.path.isdir(project)):
        raise UsageError(f"there is no folder {project[:200]}", hint="name a folder by its absolute path")
    return BudgetChange(change.period, usd, project, change.is_each_project)
