"""Tokens and money: in all, per model, and per run, as one JSON object after the end.

null means that the agent reports nothing; 0 that it reports zero. For a thread, all its runs together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from harness.events import Event, Result, SessionStart, TextDelta, Usage, UsageDelta
from harness.formatting.amounts import settled, top_of, total_line
from harness.formatting.json_text import pretty
from harness.log.run_tree import RunTree
from harness.stage import Fold, ViewOptions

CostSource = Literal["stated", "computed", "mixed"]


class UsageAmount(msgspec.Struct, frozen=True, kw_only=True):
    input: int | None
    output: int | None
    cache_read: int | None
    cache_write: int | None
    reasoning: int | None
    cost_usd: float | None
    cost_source: CostSource | None
    """Whether the agent stated the cost, it was computed from prices, or it is a sum of both kinds."""


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None
    usage: UsageAmount


class RunUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a run without its sub-agents, which are runs of their own."""

    run_id: str
    parent_id: str | None
    name: str | None
    agent: str | None
    model: str | None
    usage: UsageAmount


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["usage"] = "usage"
    session_id: str
    agent: str
    total: UsageAmount
    duration_ms: int | None
    models: list[ModelUsage]
    runs: list[RunUsage]


class _Tally(msgspec.Struct):
    """A sum with the kinds of cost that it includes."""

    usage: Usage = Usage()
    sources: list[str] = []

    def add(self, more: Usage) -> None:
        self.usage = self.usage.plus(more)
        source = more.cost_source or "stated"
        if more.cost_usd is not None and source not in self.sources:
            self.sources = sorted([*self.sources, source])

    @property
    def amount(self) -> UsageAmount:
        counts = {name: getattr(self.usage, name) for name in UsageAmount.__struct_fields__}
        source = "mixed" if len(self.sources) > 1 else self.usage.cost_source or None
        return UsageAmount(**{**counts, "cost_source": source})


class _RunTally(msgspec.Struct):
    start: SessionStart
    tally: _Tally = msgspec.field(default_factory=_Tally)


class _TopTally(msgspec.Struct):
    """A top run with its sub-agents."""

    tally: _Tally = msgspec.field(default_factory=_Tally)
    stated: Usage | None = None
    """What it stated at its end."""
    stated_usd: float | None = None
    duration_ms: int | None = None
    has_begun: bool = False
    """Usage may come before the start of its run."""

    @property
    def total(self) -> _Tally:
        usage = settled(self.tally.usage, self.stated, self.stated_usd)
        is_summed = usage.cost_usd == self.tally.usage.cost_usd
        return _Tally(usage, self.tally.sources if is_summed else [])


class _State(msgspec.Struct):
    tops: dict[str, _TopTally] = {}
    models: dict[str, _Tally] = {}
    runs: dict[str, _RunTally] = {}


class UsageFold:
    """Its value is a `UsageReport` of all events so far; a snapshot is plain data."""

    def __init__(self, tree: RunTree | None = None) -> None:
        """`tree`: the run tree of the same log, if another reader shares it."""
        self._state = _State()
        self._tree = tree or RunTree()

    def feed(self, event: Event, /) -> Sequence[bytes]:
        tree = self._tree
        if type(event) is TextDelta and event.run_id == tree.run.id and tree.run.top:
            return ()  # the tree knows the run already, and text does not matter here
        run = tree.feed(event)
        if tree.began and not run.depth:
            self._begin(run.id)
        if isinstance(event, UsageDelta):
            if event.counted is None:
                self._add(event)
        elif isinstance(event, SessionStart):
            self._run(run.id).start = event
        elif isinstance(event, Result) and tree.ended and not run.depth:
            top = self._top(run.id)
            top.duration_ms = event.duration_ms
            top.stated, top.stated_usd = event.usage, event.total_cost_usd
        return ()

    def finish(self) -> Sequence[bytes]:
        return (pretty(self.value).encode() + b"\n",)

    @property
    def value(self) -> UsageReport:
        state = self._state
        latest = state.runs.get(self._tree.latest)
        start = SessionStart() if latest is None else latest.start
        return UsageReport(
            session_id=start.session_id,
            agent=start.agent,
            total=self._total().amount,
            duration_ms=_sum_ms(top.duration_ms for top in state.tops.values()),
            models=[
                ModelUsage(model=model or None, usage=tally.amount) for model, tally in state.models.items()
            ],
            runs=[_run_usage(run_id, run) for run_id, run in state.runs.items()],
        )

    def snapshot(self) -> dict[str, Any]:
        return {"tree": self._tree.snapshot(), "tally": msgspec.to_builtins(self._state)}

    def restore(self, snapshot: dict[str, Any], /) -> None:
        self._state = msgspec.convert(snapshot["tally"], _State)
        self._tree.restore(snapshot["tree"])

    def _begin(self, run_id: str) -> None:
        self._run(run_id)
        tops = self._state.tops
        if (before := tops.get(run_id)) is not None and before.has_begun:
            # It is started again, and will state at its end what it used since.
            tops[f"{run_id} {len(tops)}"] = tops.pop(run_id)
        self._top(run_id).has_begun = True

    def _add(self, event: UsageDelta) -> None:
        run = self._run(event.run_id)
        model = self._state.models.setdefault(event.model or run.start.model, _Tally())
        top = self._top(top_of(self._tree, event))
        for tally in (top.tally, run.tally, model):
            tally.add(event.usage)

    def _top(self, run_id: str) -> _TopTally:
        return self._state.tops.setdefault(run_id, _TopTally())

    def _run(self, run_id: str) -> _RunTally:
        runs = self._state.runs
        if run_id not in runs:
            runs[run_id] = _RunTally(SessionStart(run_id=run_id))
        return runs[run_id]

    def _total(self) -> _Tally:
        together = _Tally()
        for top in self._state.tops.values():
            total = top.total
            if not together.usage:
                together = total
            elif total.usage:
                together.add(total.usage)
                together.sources = sorted({*together.sources, *total.sources})
        return together


def _sum_ms(durations: Iterable[int | None]) -> int | None:
    numbers = [duration_ms for duration_ms in durations if duration_ms is not None]
    return sum(numbers) if numbers else None


def summary(report: UsageReport) -> str:
    """`Total: 1.2k in / 345 out, $0.043, 12.3s`; empty when no usage is known."""
    shared = {*Usage.__struct_fields__} & {*UsageAmount.__struct_fields__} - {"cost_source"}
    counts = {name: getattr(report.total, name) for name in shared}
    return total_line(Usage(**counts), report.duration_ms)


def _run_usage(run_id: str, run: _RunTally) -> RunUsage:
    start = run.start
    return RunUsage(
        run_id=run_id,
        parent_id=start.parent_id or None,
        name=start.name or None,
        agent=start.agent or None,
        model=start.model or None,
        usage=run.tally.amount,
    )


def open(options: ViewOptions) -> Fold[Event, bytes]:
    del options
    return UsageFold()
