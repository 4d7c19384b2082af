"""What the models of one run used: per call as it happens, in total as each result states it.

Rules
1. A result states the usage of the turn (`usage`, the main model alone), of the process (`modelUsage` and
   `total_cost_usd`, every model, and in some versions also what a resumed session had used
   before), and at best of what is new (`model_usage_since_last_result`). The last is the truth;
   else the growth of the second; else the first.
2. The usage of single calls is emitted once: a result adds only the rest, model by model.
3. Calls that a result forgets (it was interrupted) count all the same.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from harness.events import Usage, UsageDelta
from harness.events.usage import CLASSES
from harness.formats.fields import amount_of, besides, count_of, record_of


def usage_of_call(record: dict[str, Any]) -> Usage:
    """`usage` as the model API writes it, which counts thinking as output; or with the shorter names of some tools."""
    thinking = count_of(record_of(record.get("output_tokens_details")).get("thinking_tokens"))
    cost = amount_of(record.get("cost_usd", record.get("cost")))
    return Usage(
        input=count_of(record.get("input_tokens")),
        output=besides(count_of(record.get("output_tokens")), thinking),
        cache_read=_first_count(record, "cache_read_input_tokens", "cache_read_tokens"),
        cache_write=_first_count(record, "cache_creation_input_tokens", "cache_creation_tokens"),
        reasoning=thinking,
        cache_write_1h=_stored_for_an_hour(record),
        cost_usd=cost,
        cost_source="" if cost is None else "stated",
    )


def _stored_for_an_hour(record: dict[str, Any]) -> int | None:
    return count_of(record_of(record.get("cache_creation")).get("ephemeral_1h_input_tokens")) or None


def _first_count(record: dict[str, Any], *names: str) -> int | None:
    return next((count for name in names if (count := count_of(record.get(name))) is not None), None)


def _usage_of_model(record: dict[str, Any]) -> Usage:
    cost = amount_of(record.get("costUSD"))
    thinking = count_of(record.get("thinkingTokens"))
    return Usage(
        input=count_of(record.get("inputTokens")),
        output=besides(count_of(record.get("outputTokens")), thinking),
        cache_read=count_of(record.get("cacheReadInputTokens")),
        cache_write=count_of(record.get("cacheCreationInputTokens")),
        reasoning=thinking,
        cost_usd=cost,
        cost_source="" if cost is None else "stated",
    )


class ModelLedger:
    def __init__(self) -> None:
        self._reported: dict[str, Usage] = {}
        """By model, the sum of the `UsageDelta`s."""
        self._stated_usage: dict[str, Usage] = {}
        """By model, what results have stated for this run."""
        self._process: dict[str, Usage] = {}
        self._process_usd = 0.0
        self._cost_usd: float | None = None
        self._thought: dict[str, int] = {}
        """By model, how much of what results call output is known to be reasoning."""

    def call(self, model: str, usage: Usage, call_id: str, speed: str = "") -> UsageDelta:
        """One model call has ended."""
        model = _plain_name(model)
        self._reported[model] = self._reported.get(model, Usage()).plus(usage)
        return UsageDelta(usage=usage, model=model, id=call_id, speed=speed)

    def result(self, record: dict[str, Any], main_model: str) -> list[UsageDelta]:
        """A result line: what it adds to the calls that are already known."""
        for model, usage in self._news_of(record, main_model).items():
            self._stated_usage[model] = self._stated_usage.get(model, Usage()).plus(self._split(model, usage))
        reported, total = _sum(self._reported), self.total
        rests = {model: self._rest_of(model) for model in self._stated_usage}
        # Names that do not fit together would count some calls twice; then the rest has no model.
        if _counts(_sum(rests)) != _counts(total.minus(reported)):
            return []
        for model, rest in rests.items():
            self._reported[model] = self._reported.get(model, Usage()).plus(rest)
        return [UsageDelta(usage=rest, model=model) for model, rest in rests.items() if _is_any(rest)]

    def carried(self) -> dict[str, Any]:
        """The totals of the process, which the next turn in it counts on."""
        process = {model: to_builtins(usage) for model, usage in self._process.items()}
        return {"process": process, "process_usd": self._process_usd} if process or self._process_usd else {}

    def begin(self, carried: dict[str, Any]) -> None:
        """Continue the totals of an earlier turn in the same process."""
        with suppress(ValidationError):  # of another version of this program
            self._process = convert(record_of(carried.get("process")), dict[str, Usage])
            self._process_usd = amount_of(carried.get("process_usd")) or 0.0

    @property
    def total(self) -> Usage:
        """All that this run used, as far as it is known."""
        reported, from_results = _sum(self._reported), _sum(self._stated_usage)
        counts = {name: larger(getattr(reported, name), getattr(from_results, name)) for name in CLASSES}
        cost = larger(self._cost_usd, from_results.cost_usd)
        return Usage(
            **counts,
            cost_usd=None if cost is None else round(cost, 10),
            cost_source="" if cost is None else "stated",
        )

    def _news_of(self, record: dict[str, Any], main_model: str) -> dict[str, Usage]:
        since = record.get("model_usage_since_last_result")
        process = _by_model(record.get("modelUsage"))
        before, self._process = self._process, {**self._process, **process}
        process_usd = amount_of(record.get("total_cost_usd"))
        if isinstance(since, dict):
            news = _by_model(since)
            self._add_cost(_sum(news).cost_usd or 0.0)
        else:
            news = {model: usage.minus(before.get(model, Usage())) for model, usage in process.items()}
            if process_usd is not None:
                self._add_cost(max(0.0, process_usd - self._process_usd))
        turn = usage_of_call(record_of(record.get("usage")))
        if turn and not news and not self._process:
            news = {_plain_name(main_model): turn}
        self._process_usd = self._process_usd if process_usd is None else process_usd
        return news

    def _add_cost(self, cost_usd: float) -> None:
        self._cost_usd = (self._cost_usd or 0.0) + cost_usd

    def _split(self, model: str, news: Usage) -> Usage:
        """Where a result does not count reasoning separately, the reasoning of the calls counts."""
        reported = self._reported.get(model, Usage()).reasoning or 0
        more, self._thought[model] = reported - self._thought.get(model, 0), reported
        if news.reasoning is not None or more <= 0 or news.output is None:
            return news
        return replace(news, output=max(0, news.output - more), reasoning=more)

    def _rest_of(self, model: str) -> Usage:
        rest = self._stated_usage[model].minus(self._reported.get(model, Usage()))
        if not any(_counts(rest)):
            rest = Usage(cost_usd=rest.cost_usd, cost_source=rest.cost_source)
        return rest if rest.cost_usd else replace(rest, cost_usd=None, cost_source="")


def _by_model(data: Any) -> dict[str, Usage]:
    usages: dict[str, Usage] = {}
    for name, entry in record_of(data).items():
        model = _plain_name(name)
        usages[model] = usages.get(model, Usage()).plus(_usage_of_model(record_of(entry)))
    return usages


def _plain_name(model: str) -> str:
    """A model's name without what the agent notes behind it, such as `[1m]`."""
    return model.partition("[")[0]


def _sum(usages: dict[str, Usage]) -> Usage:
    total = Usage()
    for usage in usages.values():
        total = total.plus(usage)
    return total


def larger(first: Any, right: Any) -> Any:
    """Of two amounts that may be unknown."""
    return first if right is None else right if first is None else max(first, right)


def _counts(usage: Usage) -> tuple[int, ...]:
    return tuple(getattr(usage, name) or 0 for name in CLASSES)


def _is_any(usage: Usage) -> bool:
    return any(_counts(usage)) or bool(usage.cost_usd)
