"""Budgets: what runs may cost in a day or a month, in all and in one project, as the settings say; and setting them.

Rules
1. The limits are the user's own. A project's file can only lower what one project may cost, trusted or not.
2. A folder of `[project_budgets]` holds for everything below it, in place of the limits for each project.
3. Days and months are those of the local time zone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from harness.config.files import Settings, own_settings, user_file
from harness.config.own_file import OwnChange, change_own_file
from harness.config.repositories import repository_of
from harness.errors import BadConfig
from harness.system.plain_text import plain_text

Period: TypeAlias = Literal["day", "month"]
_OF_PROJECTS = "project_budgets"


class _Span(NamedTuple):
    words: str
    begins: Callable[[time.struct_time], tuple[int, int]]
    """Month and day of its first day. Both may be more than there are: the next month or year is meant."""
    ends: Callable[[time.struct_time], tuple[int, int]]
    """Those of the first day after it."""


_SPANS: Mapping[Period, _Span] = {
    "day": _Span("today", lambda now: (now.tm_mon, now.tm_mday), lambda now: (now.tm_mon, now.tm_mday + 1)),
    "month": _Span("this month", lambda now: (now.tm_mon, 1), lambda now: (now.tm_mon + 1, 1)),
}
PERIODS: tuple[Period, ...] = tuple(_SPANS)


class BudgetLimit(NamedTuple):
    period: Period
    limit_usd: float
    project: str = ""
    """A folder, and everything below it; empty: all of them."""
    origin: str = ""
    """File and line."""

    @property
    def title(self) -> str:
        """`today`, `this month`, `shop, today`."""
        name = os.path.basename(self.project) or self.project
        return f"{name}, {_SPANS[self.period].words}" if self.project else _SPANS[self.period].words

    @property
    def words(self) -> str:
        """`today's limit of $20.00`, `this month's limit of $5.00 for shop`."""
        name = os.path.basename(self.project) or self.project
        whose = f" for {name}" if self.project else ""
        return f"{_SPANS[self.period].words}'s limit of {money(self.limit_usd)}{whose}"

    def includes(self, cwd: str) -> bool:
        return not self.project or is_within(place_of(cwd), self.project)


def money(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.1 or not usd else f"${usd:.4f}"


def is_within(folder: str, project: str) -> bool:
    return folder == project or folder.startswith(project.rstrip("/") + "/")


def place_of(cwd: str) -> str:
    """Where a folder counts: a linked worktree is a part of its repository."""
    if not cwd:
        return ""
    repository = repository_of(cwd)
    return plain_text(os.path.realpath(repository.root if repository.worktree else cwd))


def period_start_ms(period: Period, now_s: float | None = None) -> int:
    """When the current day or month began, in the local time zone."""
    now = time.localtime(now_s)
    return _midnight_ms(now.tm_year, *_SPANS[period].begins(now))


def period_end_ms(period: Period, now_s: float | None = None) -> int:
    now = time.localtime(now_s)
    return _midnight_ms(now.tm_year, *_SPANS[period].ends(now))


def _midnight_ms(year: int, month: int, day: int) -> int:
    return int(time.mktime((year, month, day, 0, 0, 0, 0, 0, -1)) * 1000)


def limits_in(settings: Settings, cwd: str) -> list[BudgetLimit]:
    """Those that hold for a run in this folder. Raises BadConfig when one of them is wrong."""
    require_valid(settings)
    place = place_of(cwd)
    limits_here = [
        BudgetLimit(period, float(value), origin=settings.origin(f"budget.{period}_usd"))
        for period in PERIODS
        if (value := settings.value(f"budget.{period}_usd")) is not None
    ]
    own = {limit.period: limit for limit in _of_folders(settings, place)}
    for period in PERIODS:
        root = plain_text(os.path.realpath(repository_of(cwd).root)) if cwd else ""
        limits = [*_for_each(settings, period, root, is_own=True)]
        limits = [own[period]] if period in own else limits
        limits += _for_each(settings, period, root, is_own=False)
        if limits:
            limits_here.append(min(limits, key=lambda limit: limit.limit_usd))
    return limits_here


def own_value(key: str) -> float | None:
    """What the user's own file says of a limit; None without one, or where it is wrong."""
    value = next((layer.values[key] for layer in own_settings().layers if key in layer.values), None)
    return None if value is None else float(value)


def all_limits(settings: Settings, cwd: str) -> list[BudgetLimit]:
    """The same, and those of every other folder that has its own."""
    limits = limits_in(settings, cwd)
    return limits + [
        limit
        for limit in _folders(settings)
        if _key(limit) not in {_key(limit_kept) for limit_kept in limits}
    ]


def require_valid(settings: Settings) -> None:
    """A limit that is there and wrong must not count as none."""
    for problem in settings.problems:
        if problem.is_error and problem.key.partition(".")[0] in ("budget", _OF_PROJECTS):
            raise BadConfig(str(problem), hint="`harness config show` lists all settings")


def _key(limit: BudgetLimit) -> tuple[str, str]:
    return limit.period, limit.project


def _for_each(settings: Settings, period: Period, root: str, *, is_own: bool) -> Iterator[BudgetLimit]:
    """What the user's own file, or those of the project, say of each project."""
    key = f"budget.project_{period}_usd"
    for layer in settings.layers:
        if key in layer.values and root and (layer.path == user_file()) == is_own:
            yield BudgetLimit(period, float(layer.values[key]), root, layer.place(key))


def _of_folders(settings: Settings, place: str) -> list[BudgetLimit]:
    """For each period the folder that is nearest."""
    limits = [limit for limit in _folders(settings) if is_within(place, limit.project)]
    return sorted(limits, key=lambda limit: len(limit.project))


def _folders(settings: Settings) -> list[BudgetLimit]:
    return [
        BudgetLimit(
            period,
            float(table[f"{period}_usd"]),
            os.path.realpath(os.path.expanduser(folder)),
            settings.origin(f"{_OF_PROJECTS}.{folder}.{period}_usd"),
        )
        for folder, table in sorted(settings.tables(_OF_PROJECTS).items())
        for period in PERIODS
        if f"{period}_usd" in table
    ]


# Setting them


class BudgetChange(NamedTuple):
    period: Period
    limit_usd: float | None
    """None: no limit."""
    project: str = ""
    """A folder."""
    is_each_project: bool = False

    @property
    def own_change(self) -> OwnChange:
        """In the user's file."""
        if self.project:
            return OwnChange((_OF_PROJECTS, self.project, f"{self.period}_usd"), self.limit_usd)
        key = f"{'project_' if self.is_each_project else ''}{self.period}_usd"
        return OwnChange(("budget", key), self.limit_usd)


def change_own(changes: list[BudgetChange]) -> str:
    """Write these limits into the user's file; returns its path. Raises BadConfig."""
    return change_own_file([change.own_change for change in changes])
