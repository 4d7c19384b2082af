"""The bill over many sessions: what was used and what it cost.

Rules
1. The deltas of a run add up to what it used; its result repeats that, and is not added.
2. What an agent states of a run's cost counts, sub-agents included; one that it states with the id of a model call, or in
   its store, is the cost of that alone. Only where none is stated is it computed from prices. Tokens without a
   price have no cost, which is not the cost 0.
3. A run that states the total of its whole session (`usage_cumulative`) counts for what it adds to the
   runs before it in that session.
4. A model call that a later run of the same session repeats counts once. What a gateway has counted is of its own run
   alone: it numbers the calls of each anew, and knows nothing of what the agent says of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.config.repositories import listed_folder
from harness.events import Event, Info, ModelCall, SessionStart, Usage, UsageDelta, Warning
from harness.events.usage import CLASSES
from harness.log.run_tree import RunTree
from harness.log.store import Metadata
from harness.usage.prices import USUAL, Prices, Rate, rate_of, states_run

WORDS = (
    "UsageDelta",
    "SessionStart",
    "Result",
    "Suspended",
    "Resumed",
    "usage_cumulative",
    "new_session",
    "session_id",
    "ModelCall",
)
"""Lines of a log without any of these say nothing about usage."""

By: TypeAlias = Literal["agent", "model", "day", "project", "session", "sub-agent"]
CostSource: TypeAlias = Literal["stated", "computed", "mixed"]


class Charge(NamedTuple):
    """What one run used of one model on one day; or the sum of several."""

    session_id: str
    """Of the log; empty for a sum over several."""
    started_ms: int
    """Of the run, or of the run that it is a sub-agent of."""
    run_id: str
    agent: str
    model: str
    day: str
    sub_agent: str
    """Its name; empty for the agent itself."""
    usage: Usage
    is_unpriced: bool
    """Tokens were used, no cost is stated, and there is no price for them."""
    project: str = ""
    """The directory that the agent worked in."""


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """A sum of charges. None: it is never stated."""

    sessions: int
    input: int | None
    cache_read: int | None
    cache_write: int | None
    output: int | None
    reasoning: int | None
    cost_usd: float | None
    cost_source: CostSource | None
    is_cost_complete: bool
    """False: there are tokens without a price, so that the whole costs more than this."""


class Row(NamedTuple):
    key: str
    amount: Amount
    latest_ms: int
    agents: tuple[str, ...]


class AccountedDelta(NamedTuple):
    at_ms: int
    run_id: str
    model: str
    call_id: str
    usage: Usage
    rate: Rate = USUAL
    is_stored: bool = False
    """By the agent, which writes costs beside what they are the cost of."""

    @property
    def is_stated(self) -> bool:
        """A cost that was computed when it was recorded is computed again, from the current prices."""
        return self.usage.cost_usd is not None and self.usage.cost_source != "computed"

    @property
    def states_run(self) -> bool:
        """Whether its cost is that of the whole run."""
        return not self.is_stored and states_run(self.usage, self.call_id)


class AccountedRun(msgspec.Struct, kw_only=True):
    """A run with its sub-agents: the scope of the cost that an agent states."""

    log_id: str
    run_id: str
    agent: str
    session_id: str
    """The agent's own."""
    started_ms: int
    ended_ms: int = 0
    """When the last that is known of it happened."""
    models: dict[str, str]
    """By run."""
    names: dict[str, str]
    """Of the sub-agents, by run."""
    deltas: list[AccountedDelta]
    is_cumulative: bool = False
    is_over: bool = False
    has_gateway: bool = False
    """Its calls went through one, which has counted them."""
    cwd: str = ""
    outcome: str = ""
    """How it ended; empty as long as it has not."""

    @property
    def states_session(self) -> bool:
        """Whether its usage is the total of its whole session."""
        return self.is_cumulative and not self.has_gateway

    @property
    def session(self) -> tuple[str, str]:
        return self.agent, self.session_id

    @property
    def usage(self) -> Usage:
        return _sum(self.deltas)


class Account(msgspec.Struct, kw_only=True):
    """What one log says was used, as far as it was read. It can be stored and continued."""

    invocations: list[AccountedRun] = msgspec.field(default_factory=list)
    next_seq: int = 0
    """The first event that was not read."""
    runs: dict[str, Any] | None
    """The runs of the log; None before anything was read."""

    def feed(self, metadata: Metadata, events: Iterable[Event]) -> None:
        """Events without usage may be left out."""
        tree = RunTree()
        if self.runs is not None:
            tree.restore(self.runs)
        for event in events:
            tree.feed(event)
            self.take(metadata, event, tree)
        self.runs = tree.snapshot()

    def take(self, metadata: Metadata, event: Event, tree: RunTree) -> None:
        """One event; `tree` has been fed it."""
        run = tree.run
        self.next_seq = max(self.next_seq, event.seq + 1)
        current = self._current(tree)
        begins = tree.began and not run.depth
        if (
            current is None
            and not tree.began
            and not isinstance(event, Info | Warning | UsageDelta | ModelCall)
        ):
            return  # before any run
        if current is None or (begins and (current.is_over or run.id != current.run_id)):
            current = _begun(metadata, event)
            self.invocations.append(current)
        _note(current, event)
        for run_at_end in tree.ended:
            of_run = (each for each in reversed(self.invocations) if each.run_id == run_at_end.id)
            if (over := next(of_run, None)) is not None and not over.is_over:  # once: an id may be used again
                over.is_over, over.outcome = True, run_at_end.outcome

    def _current(self, tree: RunTree) -> AccountedRun | None:
        """The invocation of the run that the event belongs to; the last one where that is not known."""
        top = tree.run.top
        invocations = (
            invocation for invocation in reversed(self.invocations) if not top or invocation.run_id == top
        )
        return next(invocations, self.invocations[-1] if self.invocations else None)


class Ledger:
    """Give it log after log with `add`, in any order; then ask for the `charges`."""

    def __init__(self, accounts: Iterable[Account] = ()) -> None:
        self._invocations = [invocation for account in accounts for invocation in account.invocations]
        self.unsettled: list[str] = []
        """Logs with a run that states the total of a session whose earlier runs are not known."""

    @property
    def invocations(self) -> list[AccountedRun]:
        """Of all logs. What is put in their place counts instead."""
        return self._invocations

    @invocations.setter
    def invocations(self, those: Iterable[AccountedRun]) -> None:
        self._invocations = list(those)

    def add(self, metadata: Metadata, events: Iterable[Event]) -> None:
        """Add one log. Events without usage may be left out."""
        account = Account(runs=None)
        account.feed(metadata, events)
        self._invocations += account.invocations

    def charges(self, prices: Prices, day_of: Callable[[int], str], since_ms: int = -1) -> list[Charge]:
        """All usage since then, by session, run, model and day, each counted once."""
        self.unsettled = []
        runs = Counter(invocation.session for invocation in self._invocations)
        seen_usage: dict[tuple[str, str], Usage] = {}
        calls: dict[tuple[str, str, str], Usage] = {}
        charges: list[Charge] = []
        for invocation in sorted(self._invocations, key=lambda run: run.started_ms):
            is_alone = runs[invocation.session] == 1 and not invocation.states_session
            deltas = invocation.deltas if is_alone else self._settled(invocation, seen_usage, calls)
            charges += _charged(
                invocation, [delta for delta in deltas if delta.at_ms >= since_ms], prices, day_of
            )
        return charges

    def outcomes(self, since_ms: int = -1) -> Counter[tuple[str, str, str]]:
        """How many runs have started since then, by agent, project and outcome; sub-agents are parts of their run."""
        return Counter(
            (invocation.agent, invocation.cwd, invocation.outcome)
            for invocation in self._invocations
            if invocation.started_ms >= since_ms
        )

    def silent(self, since_ms: int = -1) -> int:
        """How many logs since then report no usage."""
        logs = {invocation.log_id for invocation in self._invocations if invocation.started_ms >= since_ms}
        return len(logs - {invocation.log_id for invocation in self._invocations if invocation.deltas})

    def _settled(
        self,
        invocation: AccountedRun,
        seen_usage: dict[tuple[str, str], Usage],
        calls: dict[tuple[str, str, str], Usage],
    ) -> list[AccountedDelta]:
        """What a run adds to those before it."""
        before = seen_usage.get(invocation.session)
        deltas = invocation.deltas
        if invocation.states_session and before is not None and _includes(_sum(deltas), before):
            deltas = list(_beyond(deltas, before))
        elif invocation.states_session:
            self.unsettled.append(invocation.log_id)
        if not invocation.has_gateway:
            deltas = list(_once(invocation.session, deltas, calls))
        if deltas:
            seen_usage[invocation.session] = (before or Usage()).plus(_sum(deltas))
        return deltas


def rolled_up(charges: Iterable[Charge], by: By, more: Mapping[str, int] = MappingProxyType({})) -> list[Row]:
    """Days in order, sessions newest first, everything else by cost, highest first.

    `more`: by key, how many sessions there are of which the charges have only sums.
    """
    return [row for row, _charges in grouped(charges, by, more)]


def grouped(
    charges: Iterable[Charge], by: By, more: Mapping[str, int] = MappingProxyType({})
) -> list[tuple[Row, list[Charge]]]:
    """The rows of `rolled_up`, each with the charges that it sums up."""
    groups: dict[str, list[Charge]] = {}
    for charge in charges:
        groups.setdefault(_KEYS[by](charge), []).append(charge)
    rows = [
        Row(
            key=key,
            amount=total(group, more.get(key, 0)),
            latest_ms=max(charge.started_ms for charge in group),
            agents=tuple(dict.fromkeys(charge.agent for charge in group)),
        )
        for key, group in groups.items()
    ]
    return [(row, groups[row.key]) for row in sorted(rows, key=_ORDERS.get(by, _by_size))]


def total(charges: Iterable[Charge], more: int = 0) -> Amount:
    """`more`: how many sessions there are of which the charges have only sums."""
    charges = list(charges)
    usage = Usage()
    sources = {charge.usage.cost_source for charge in charges if charge.usage.cost_usd is not None}
    for charge in charges:
        usage = usage.plus(charge.usage)
    source: CostSource | None = None
    if sources:
        source = "mixed" if len(sources) > 1 else "computed" if sources == {"computed"} else "stated"
    return Amount(
        sessions=len({charge.session_id for charge in charges if charge.session_id}) + more,
        **{name: getattr(usage, name) for name in CLASSES},
        cost_usd=usage.cost_usd,
        cost_source=source,
        is_cost_complete=not any(charge.is_unpriced for charge in charges),
    )


_KEYS: dict[By, Callable[[Charge], str]] = {
    "agent": lambda charge: charge.agent,
    "model": lambda charge: charge.model,
    "day": lambda charge: charge.day,
    "project": lambda charge: listed_folder(charge.project),
    "session": lambda charge: charge.session_id,
    "sub-agent": lambda charge: charge.sub_agent,
}


def _by_size(row: Row) -> tuple[float, int, str]:
    counts = (getattr(row.amount, name) or 0 for name in CLASSES)
    return (-(row.amount.cost_usd or 0.0), -sum(counts), row.key)


_ORDERS: dict[By, Callable[[Row], tuple[object, ...]]] = {
    "day": lambda row: (row.key,),
    "session": lambda row: (-row.latest_ms, row.key),
}


def _begun(metadata: Metadata, event: Event) -> AccountedRun:
    return AccountedRun(
        log_id=metadata.session_id,
        run_id=event.run_id,
        agent=metadata.agent_name,
        session_id=event.session_id or event.run_id,
        started_ms=event.timestamp_ms,
        models={event.run_id: metadata.model},
        names={},
        deltas=[],
        cwd=metadata.cwd,
    )


def _note(invocation: AccountedRun, event: Event) -> None:
    is_own = event.run_id == invocation.run_id
    invocation.ended_ms = max(invocation.ended_ms, event.timestamp_ms)
    if is_own and event.session_id:
        invocation.session_id = event.session_id
    match event:
        case UsageDelta(usage=usage, run_id=run_id, timestamp_ms=at_ms, id=call_id, counted=None):
            model = event.model or invocation.models.get(run_id, "")
            invocation.deltas.append(AccountedDelta(at_ms, run_id, model, call_id, usage, rate_of(event)))
        case SessionStart(agent=agent, model=model, run_id=run_id):
            if is_own:
                invocation.agent = agent or invocation.agent
            else:
                invocation.names[run_id] = event.name or run_id
            invocation.models[run_id] = model or invocation.models.get(run_id, "")
        case ModelCall():
            invocation.has_gateway = True
        case Warning(code="usage_cumulative"):
            invocation.is_cumulative = True
        case _:
            pass


def _once(
    session: tuple[str, str], deltas: Iterable[AccountedDelta], calls: dict[tuple[str, str, str], Usage]
) -> Iterator[AccountedDelta]:
    """Without what earlier runs of the session have stated for the same model calls."""
    own: dict[str, Usage] = {}
    for delta in deltas:
        if not delta.call_id:
            yield delta
            continue
        call_delta = calls.get((*session, delta.call_id))
        already = own.get(delta.call_id)
        own[delta.call_id] = delta.usage if already is None else already.plus(delta.usage)
        yield from (delta,) if call_delta is None else _beyond((delta,), call_delta.minus(already or Usage()))
    for call_id, usage in own.items():
        call_usage = calls.get((*session, call_id), Usage())
        calls[*session, call_id] = call_usage.plus(usage.minus(call_usage))


def _beyond(deltas: Iterable[AccountedDelta], rest: Usage) -> Iterator[AccountedDelta]:
    """What is left after subtracting the known usage, starting with the first delta."""
    for delta in deltas:
        usage = delta.usage.minus(rest)
        rest = rest.minus(delta.usage)
        if _is_any(usage) or not _is_any(delta.usage):
            yield delta._replace(usage=usage)


def _includes(total: Usage, part: Usage) -> bool:
    """Whether a total continues an earlier one. Compares sums, since versions split them differently."""
    prompt, answer = ("input", "cache_read", "cache_write"), ("output", "reasoning")
    return all(
        sum(getattr(total, name) or 0 for name in names) >= sum(getattr(part, name) or 0 for name in names)
        for names in (prompt, answer)
    )


def _is_any(usage: Usage) -> bool:
    return any(getattr(usage, name) for name in (*CLASSES, "cost_usd"))


def _sum(deltas: Iterable[AccountedDelta]) -> Usage:
    added = Usage()
    for delta in deltas:
        added = added.plus(delta.usage)
    return added


def _charged(
    invocation: AccountedRun, deltas: Iterable[AccountedDelta], prices: Prices, day_of: Callable[[int], str]
) -> Iterator[Charge]:
    is_run_stated = any(delta.states_run for delta in invocation.deltas)
    sums: dict[tuple[str, str, Rate, str, bool], Usage] = {}
    for delta in deltas:
        is_stated = is_run_stated or delta.is_stated
        key = (delta.run_id, delta.model, delta.rate, day_of(delta.at_ms), is_stated)
        earlier = sums.get(key)
        sums[key] = delta.usage if earlier is None else earlier.plus(delta.usage)
    for (run_id, model, rate, day, is_stated), usage in sums.items():
        priced = usage if is_stated else _priced(usage, model, prices, rate)
        yield Charge(
            session_id=invocation.log_id,
            started_ms=invocation.started_ms,
            run_id=run_id,
            agent=invocation.agent,
            model=model,
            day=day,
            sub_agent=invocation.names.get(run_id, ""),
            usage=priced,
            is_unpriced=not is_stated and priced.cost_usd is None and _is_any(usage),
            project=invocation.cwd,
        )


def priced(charge: Charge, prices: Prices, rate: Rate = USUAL) -> Charge:
    """A charge that was summed up elsewhere, with its cost where none is stated."""
    if charge.usage.cost_usd is not None:
        return charge
    usage = _priced(charge.usage, charge.model, prices, rate)
    return charge._replace(usage=usage, is_unpriced=usage.cost_usd is None and _is_any(usage))


def _priced(usage: Usage, model: str, prices: Prices, rate: Rate) -> Usage:
    cost_usd = prices.cost_usd(model, usage, rate)
    return usage if cost_usd is None else replace(usage, cost_usd=cost_usd, cost_source="computed")
