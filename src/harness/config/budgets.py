"""Budgets: what runs may cost in a day or a month, in all and in one project, as the settings say; and setting them.

Rules
1. The limits are the user's own. A project's file can only lower what one project may cost, trusted or not.
2. A folder of `[project_budgets]` holds for everything below it, in place of the limits for each project.
3. Days and months are those of the local time zone.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from harness.config.files import Settings, own_settings, read_file, user_file
from harness.config.repositories import repository_of
from harness.config.settings import key_to_toml, to_toml
from harness.errors import BadConfig
from harness.system.plain_text import plain_text

Period: TypeAlias = Literal["day", "month"]
PERIODS: tuple[Period, ...] = ("day", "month")
_OF_PROJECTS = "project_budgets"
_IN_WORDS: Mapping[Period, str] = {"day": "today", "month": "this month"}


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
        return f"{name}, {_IN_WORDS[self.period]}" if self.project else _IN_WORDS[self.period]

    @property
    def words(self) -> str:
        """`today's limit of $20.00`, `this month's limit of $5.00 for shop`."""
        name = os.path.basename(self.project) or self.project
        whose = f" for {name}" if self.project else ""
        return f"{_IN_WORDS[self.period]}'s limit of {money(self.limit_usd)}{whose}"

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
    found = repository_of(cwd)
    return plain_text(os.path.realpath(found.root if found.worktree else cwd))


def period_start_ms(period: Period, now_s: float | None = None) -> int:
    """When the current day or month began, in the local time zone."""
    now = time.localtime(now_s)
    day = now.tm_mday if period == "day" else 1
    return int(time.mktime((now.tm_year, now.tm_mon, day, 0, 0, 0, 0, 0, -1)) * 1000)


def period_end_ms(period: Period, now_s: float | None = None) -> int:
    now = time.localtime(now_s)
    month, day = (now.tm_mon, now.tm_mday + 1) if period == "day" else (now.tm_mon + 1, 1)
    return int(time.mktime((now.tm_year, month, day, 0, 0, 0, 0, 0, -1)) * 1000)


def limits_in(settings: Settings, cwd: str) -> list[BudgetLimit]:
    """Those that hold for a run in this folder. Raises BadConfig when one of them is wrong."""
    require_valid(settings)
    place = place_of(cwd)
    found = [
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
            found.append(min(limits, key=lambda one: one.limit_usd))
    return found


def own_value(key: str) -> float | None:
    """What the user's own file says of a limit; None without one, or where it is wrong."""
    value = next((layer.values[key] for layer in own_settings().layers if key in layer.values), None)
    return None if value is None else float(value)


def all_limits(settings: Settings, cwd: str) -> list[BudgetLimit]:
    """The same, and those of every other folder that has its own."""
    found = limits_in(settings, cwd)
    return found + [limit for limit in _folders(settings) if _key(limit) not in {_key(one) for one in found}]


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
    found = [limit for limit in _folders(settings) if is_within(place, limit.project)]
    return sorted(found, key=lambda one: len(one.project))


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
    def path(self) -> tuple[str, str]:
        """Table and key, as TOML writes the table."""
        if self.project:
            return f"{_OF_PROJECTS}.{key_to_toml(self.project)}", f"{self.period}_usd"
        return "budget", f"{'project_' if self.is_each_project else ''}{self.period}_usd"


def changed(text: str, changes: list[BudgetChange]) -> str:
    """The user's file with these limits; everything else in it, comments too, stays as it is.

    Raises BadConfig for a file that is written in a way that cannot be changed safely.
    """
    expected = _parsed(text)
    for change in changes:
        table, key = change.path
        text = _with_value(text, table, key, change.limit_usd)
        _expect(expected, change)
    try:
        is_as_wanted = _without_empty(tomllib.loads(text)) == _without_empty(expected)
    except tomllib.TOMLDecodeError:
        is_as_wanted = False
    if not is_as_wanted:
        raise BadConfig(
            f"{user_file()} is written in a way that cannot be changed safely",
            hint="write its limits by hand: [budget] day_usd = 20",
        )
    return text


def change_own(changes: list[BudgetChange]) -> str:
    """Write these limits into the user's file; returns its path. Raises BadConfig."""
    path = user_file()
    data = changed(_own_text(), changes).encode()
    # A link is followed: people have their settings elsewhere, and link them.
    target = os.path.realpath(path)
    temporary = f"{target}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o600
        with open(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb"
        ) as file:
            file.write(data)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise BadConfig(f"{path} cannot be written: {error.strerror}") from error
    return path


def _own_text() -> str:
    """The user's file; empty when there is none. Raises BadConfig when it cannot be read."""
    path = user_file()
    if not os.path.exists(path):
        return ""
    layer = read_file(path, is_personal=True)
    for problem in layer.problems:
        if not problem.key:
            raise BadConfig(str(problem), hint="repair it first")
    return layer.text


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadConfig(f"{user_file()} is not valid TOML: {error}", hint="repair it first") from error


def _expect(tables: dict[str, Any], change: BudgetChange) -> None:
    first = _OF_PROJECTS if change.project else "budget"
    table = tables.setdefault(first, {})
    table = table.setdefault(change.project, {}) if change.project else table
    table.pop(change.path[1], None)
    if change.limit_usd is not None:
        table[change.path[1]] = change.limit_usd


def _without_empty(tables: dict[str, Any]) -> dict[str, Any]:
    """Tables that say nothing do not count."""
    found = {
        key: _without_empty(value) if isinstance(value, dict) else value for key, value in tables.items()
    }
    return {key: value for key, value in found.items() if value != {}}


def _with_value(text: str, table: str, key: str, value: float | None) -> str:
    lines = text.split("\n")
    headers = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
    start = next((number for number in headers if _header(lines[number]) == table), None)
    written = [] if value is None else [f"{key} = {to_toml(value)}"]
    if start is None:
        if written:
            lines = [*_trimmed(lines), *([""] if text.strip() else []), f"[{table}]", *written, ""]
        return "\n".join(lines)
    end = next((number for number in headers if number > start), len(lines))
    found = [
        number
        for number in range(start + 1, end)
        if lines[number].partition("=")[0].strip().strip("\"'") == key
    ]
    if found:
        lines[found[0] : found[0] + 1] = written
    else:
        lines[start + 1 : start + 1] = written
    return "\n".join(lines)


def _header(line: str) -> str:
    return line.partition("#")[0].strip().removeprefix("[").removesuffix("]").strip()


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
