"""What was used on this machine, in the logs of Harness and in what agents have stored themselves: each token once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import asdict

from harness.config.repositories import listed_folder
from harness.usage.ledger import Amount, By, Charge, Ledger, Row, grouped, priced, rolled_up, total

if TYPE_CHECKING:
    from harness.clients.sessions.histories import HistorySessions
    from harness.clients.sessions.witnesses import JoinedUsage
    from harness.histories.catalogue import Catalogue
    from harness.histories.catalogue_usage import UsageSum
    from harness.usage.prices import Prices

GROUPINGS: tuple[By, ...] = ("agent", "model", "day", "project", "session", "sub-agent")


_QUARTER_MS = 900_000


class UsageQuestion(NamedTuple):
    by: By
    since_ms: int = -1
    """What agents have stored is known by quarters of an hour: from the beginning of this one on."""
    split: By | None = None
    """With it, there is a row for each value of both."""
    agent: str = ""
    """Only this one; empty: all."""
    project: str = ""

    @property
    def names(self) -> tuple[By, ...]:
        return (self.by,) if self.split is None else (self.by, self.split)

    @property
    def first_ms(self) -> int:
        return self.since_ms // _QUARTER_MS * _QUARTER_MS if self.since_ms > 0 else self.since_ms

    def includes(self, agent: str, project: str) -> bool:
        return self.agent in ("", agent) and self.project in ("", listed_folder(project))


class UsageBill(NamedTuple):
    question: UsageQuestion
    charges: list[Charge]
    sessions: Mapping[tuple[str, ...], int]
    """How many sessions there are of which the charges have only sums, by the values of what it is grouped by."""
    more: int
    """And in all."""

    @property
    def total(self) -> Amount:
        return total(self.charges, self.more)

    @property
    def rows(self) -> list[Row]:
        """Without the split."""
        by = self.question.by
        return rolled_up(self.charges, by, {key: count for (key,), count in self.sessions.items()})

    def as_rows(self) -> Iterator[dict[str, Any]]:
        """Each row has the values of what it is grouped by, and amounts."""
        by, split = self.question.by, self.question.split
        if split is None:
            yield from ({_field(by): row.key or None, **asdict(row.amount)} for row in self.rows)
            return
        for row, charges in grouped(self.charges, by):
            more = {key[1]: count for key, count in self.sessions.items() if key[0] == row.key}
            for inner in rolled_up(charges, split, more):
                keys = {_field(by): row.key or None, _field(split): inner.key or None}
                yield {**keys, **asdict(inner.amount)}


def _field(by: By) -> str:
    return by.replace("-", "_")


def make_bill(
    question: UsageQuestion,
    ledger: Ledger,
    histories: HistorySessions | None,
    prices: Prices,
    day_of: Callable[[int], str],
    name_of: Callable[[str, str], str] = lambda _agent, session_id: session_id,
) -> UsageBill:
    """The ledger then has the runs of both, of the sessions that both know. All others are counted by the catalogue,
    as far as they were read. `name_of`: how a session of an agent is called.
    """
    theirs: list[UsageSum] = []
    counts: dict[tuple[str, ...], int] = {}
    more = 0
    if histories is not None:
        joined, theirs, counts, more = histories.ask(lambda catalogue: _asked(catalogue, ledger, question))
        ledger.invocations = joined.invocations
    ours = [
        charge
        for charge in ledger.charges(prices, day_of, question.first_ms)
        if question.includes(charge.agent, charge.project)
    ]
    their_charges = (
        priced(_charge_of(catalogue, question, name_of), prices, catalogue.rate) for catalogue in theirs
    )
    return UsageBill(question, [*ours, *their_charges], counts, more)


def _asked(
    catalogue: Catalogue, ledger: Ledger, question: UsageQuestion
) -> tuple[JoinedUsage, list[UsageSum], dict[tuple[str, ...], int], int]:
    from harness.clients.sessions.witnesses import join_usage
    from harness.histories.catalogue_usage import UsageChoice

    joined = join_usage(ledger.invocations, catalogue)
    folders = None
    if question.project:
        folders = [cwd for cwd in catalogue.projects() if listed_folder(cwd) == question.project]
    choice = UsageChoice(question.first_ms, joined.sessions, question.agent, folders)
    sums = catalogue.usage.sums(question.names, choice)
    if "session" in question.names:  # then the charges name their sessions
        return joined, sums, {}, 0
    counts: dict[tuple[str, ...], int] = {}
    for keys, count in catalogue.usage.sessions(question.names, choice).items():
        keys_by_name = tuple(map(_listed, question.names, keys))
        counts[keys_by_name] = counts.get(keys_by_name, 0) + count
    return joined, sums, counts, catalogue.usage.sessions((), choice).get((), 0)


def _listed(name: By, key: str) -> str:
    return listed_folder(key) if name == "project" else key


def _charge_of(summed: UsageSum, question: UsageQuestion, name_of: Callable[[str, str], str]) -> Charge:
    keys = dict(zip(question.names, summed.keys, strict=True))
    return Charge(
        session_id=name_of(summed.agent, keys["session"]) if "session" in keys else "",
        started_ms=summed.latest_ms,
        run_id="",
        agent=summed.agent,
        model=summed.model,
        day=keys.get("day", ""),
        sub_agent="",
        usage=summed.usage,
        is_unpriced=False,
        project=keys.get("project", ""),
    )
