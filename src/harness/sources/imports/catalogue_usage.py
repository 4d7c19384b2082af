"""What was used in all sessions of the catalogue, as far as they were read: each model call once."""

# ruff: noqa: S608 nothing but names of our own is put into a statement
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from harness.config.prices import Rate
from harness.events import Usage
from harness.sources.imports.catalogue_writer import COUNTS, as_json

_JOINED = "used JOIN sessions ON session = sessions.number JOIN models ON used.model = models.number"
_MODEL = "models.name, models.speed, models.over"
_KEYS = {
    "agent": "agent",
    "model": "models.name",
    "day": "date(quarter * 900, 'unixepoch', 'localtime')",
    "project": "cwd",
    "session": "session_id",
    "sub-agent": "''",
}


class CataloguedUsage(NamedTuple):
    """What one run has used of one model within a quarter of an hour."""

    session: int
    """Its number in the catalogue."""
    run: int
    agent: str
    session_id: str
    cwd: str
    at_ms: int
    """When the first of it was used."""
    model: str
    rate: Rate
    usage: Usage


class UsageSum(NamedTuple):
    key: str
    agent: str
    model: str
    rate: Rate
    latest_ms: int
    usage: Usage


class CatalogueUsage:
    def __init__(self, ask: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        """`ask`: gives the rows of a statement with these values."""
        self._ask = ask

    def rows(self, only: Collection[int] | None = None) -> Iterator[CataloguedUsage]:
        """Of these sessions, by their numbers, or of all."""
        some = "" if only is None else " WHERE session IN (SELECT value FROM json_each(?))"
        rows = self._ask(
            f"SELECT session, run, agent, session_id, cwd, at_ms, {_MODEL}, {', '.join(COUNTS)} FROM {_JOINED}{some}"
            " ORDER BY session, run, quarter",
            () if only is None else (as_json(only),),
        )
        for session, run, agent, session_id, cwd, at_ms, model, speed, over, *counts in rows:
            if usage := _usage_of(counts):
                rate = Rate(speed, over)
                yield CataloguedUsage(session, run, agent, session_id, cwd, at_ms, model, rate, usage)

    def sums(self, by: str, since_ms: int, without: Collection[int]) -> list[UsageSum]:
        """Since then, without these sessions, by agent and model, and by one thing more."""
        counts = ", ".join(f"sum({name})" for name in COUNTS)
        condition, values = _condition(since_ms, without)
        rows = self._ask(
            f"SELECT {_KEYS[by]}, agent, {_MODEL}, max(at_ms), {counts} FROM {_JOINED}{condition}"
            " GROUP BY 1, 2, models.number",
            values,
        )
        found = (
            UsageSum(key, agent, model, Rate(speed, over), latest_ms, _usage_of(sums))
            for key, agent, model, speed, over, latest_ms, *sums in rows
        )
        return [one for one in found if one.usage]

    def sessions(self, by: str, since_ms: int, without: Collection[int]) -> dict[str, int]:
        """How many sessions have used something, of the same."""
        condition, values = _condition(since_ms, without)
        statement = f"SELECT {_KEYS[by]}, count(DISTINCT session) FROM {_JOINED}{condition} GROUP BY 1"
        return dict(self._ask(statement, values))

    def count(self, since_ms: int, without: Collection[int]) -> int:
        """The same of all together."""
        condition, values = _condition(since_ms, without)
        return int(self._ask(f"SELECT count(DISTINCT session) FROM used{condition}", values)[0][0])


_SOMETHING = " OR ".join(f"{name} > 0" for name in COUNTS)


def _condition(since_ms: int, without: Collection[int]) -> tuple[str, tuple[int | str, ...]]:
    condition = f" WHERE at_ms >= ? AND ({_SOMETHING})"
    if not without:
        return condition, (since_ms,)
    return f"{condition} AND session NOT IN (SELECT value FROM json_each(?))", (since_ms, as_json(without))


def _usage_of(counts: Sequence[Any]) -> Usage:
    """Falsy where nothing is left of it."""
    if not any(counts):
        return Usage()
    given = dict(zip(COUNTS, counts, strict=True))
    return Usage(**given, cost_source="" if given["cost_usd"] is None else "stated")
