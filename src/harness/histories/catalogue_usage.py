"""What was used in all sessions of the catalogue, as far as they were read: each model call once."""

# Only names of our own are put into a statement; what comes from outside is a parameter.
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from harness.events import Usage
from harness.histories.catalogue_writer import COUNTS, QUARTER_MS, as_json
from harness.usage.prices import Rate

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


class UsageChoice(NamedTuple):
    """What is to be summed up."""

    since_ms: int = -1
    """From the beginning of this quarter of an hour on."""
    without: Collection[int] = ()
    """Sessions, by their numbers."""
    agent: str = ""
    folders: Collection[str] | None = None
    """Only what was used in one of these; None: anywhere."""


class UsageSum(NamedTuple):
    keys: tuple[str, ...]
    """One for each name that it was grouped by."""
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
            f"SELECT session, run, agent, session_id, cwd, at_ms, {_MODEL}, {', '.join(COUNTS)} FROM {_JOINED}{some}"  # noqa: S608
            " ORDER BY session, run, quarter",
            () if only is None else (as_json(only),),
        )
        for session, run, agent, session_id, cwd, at_ms, model, speed, over, *counts in rows:
            if usage := _usage_of(counts):
                rate = Rate(speed, over)
                yield CataloguedUsage(session, run, agent, session_id, cwd, at_ms, model, rate, usage)

    def sums(self, names: Sequence[str], choice: UsageChoice) -> list[UsageSum]:
        """By agent and model, and by everything that is named."""
        counts = ", ".join(f"sum({name})" for name in COUNTS)
        keys = "".join(f"{_KEYS[name]}, " for name in names)
        condition, values = _condition(choice)
        groups = ", ".join(str(number) for number in range(1, len(names) + 2))
        rows = self._ask(
            f"SELECT {keys}agent, {_MODEL}, max(at_ms), {counts} FROM {_JOINED}{condition}"  # noqa: S608
            f" GROUP BY {groups}, models.number",
            values,
        )
        rows_of_sums: list[UsageSum] = []
        for row in rows:
            agent, model, speed, over, latest_ms, *sums = row[len(names) :]
            if usage := _usage_of(sums):
                rate = Rate(speed, over)
                rows_of_sums.append(UsageSum(row[: len(names)], agent, model, rate, latest_ms, usage))
        return rows_of_sums

    def sessions(self, names: Sequence[str], choice: UsageChoice) -> dict[tuple[str, ...], int]:
        """How many sessions have used something, by everything that is named."""
        condition, values = _condition(choice)
        keys = "".join(f"{_KEYS[name]}, " for name in names)
        groups = ", ".join(str(number) for number in range(1, len(names) + 1))
        grouping = f" GROUP BY {groups}" if groups else ""
        statement = f"SELECT {keys}count(DISTINCT session) FROM {_JOINED}{condition}{grouping}"  # noqa: S608
        return {row[:-1]: row[-1] for row in self._ask(statement, values)}


_SOMETHING = " OR ".join(f"{name} > 0" for name in COUNTS)


def _condition(choice: UsageChoice) -> tuple[str, tuple[int | str, ...]]:
    conditions, values = [f"({_SOMETHING})"], list[int | str]()
    if choice.since_ms > 0:  # a clock may have been before 1970
        conditions.append("quarter >= ?")
        values.append(choice.since_ms // QUARTER_MS)
    if choice.without:
        conditions.append("session NOT IN (SELECT value FROM json_each(?))")
        values.append(as_json(choice.without))
    if choice.agent:
        conditions.append("agent = ?")
        values.append(choice.agent)
    if choice.folders is not None:
        conditions.append("cwd IN (SELECT value FROM json_each(?))")
        values.append(as_json(choice.folders))
    return f" WHERE {' AND '.join(conditions)}", tuple(values)


def _usage_of(counts: Sequence[Any]) -> Usage:
    """Falsy where nothing is left of it."""
    if not any(counts):
        return Usage()
    by_name = dict(zip(COUNTS, counts, strict=True))
    return Usage(**by_name, cost_source="" if by_name["cost_usd"] is None else "stated")
