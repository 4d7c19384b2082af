"""Usage of agents whose results tell what the whole session has used, earlier runs of it included."""

from __future__ import annotations

from typing import Any

from harness.events import Usage
from harness.sources.formats.fields import besides, count_of, record_of
from harness.sources.formats.model_ledger import ModelLedger


class SessionLedger(ModelLedger):
    """A result adds what the session has grown by since the last one.

    How much a resumed session had used before this run nobody says: of its first result only what
    this run's own calls have told counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_resumed = False
        self._session = Usage()

    def _news_of(self, record: dict[str, Any], main_model: str) -> dict[str, Usage]:
        total = usage_of_prompt(record_of(record.get("usage")))
        if not _includes(total, self._session):
            return {}
        growth, self._session = total.minus(self._session), total
        if self.is_resumed:
            self.is_resumed = False
            return dict(self._told)
        return {main_model: growth} if growth else {}


def usage_of_prompt(told: dict[str, Any]) -> Usage:
    """Where `input_tokens` is the whole prompt, with what came from the cache.

    What a total has beyond prompt and answer is reasoning; some models count that into the answer.
    """
    prompt, output = count_of(told.get("input_tokens")), count_of(told.get("output_tokens"))
    cached, total = count_of(told.get("cache_read_input_tokens")), count_of(told.get("total_tokens"))
    reasoning = (total or 0) - (prompt or 0) - (output or 0)
    return Usage(
        input=besides(prompt, cached),
        output=output,
        cache_read=cached,
        reasoning=reasoning if reasoning > 0 else None,
    )


def _includes(total: Usage, earlier: Usage) -> bool:
    """Whether a total goes on from an earlier one; that of a failed sub-agent does not."""
    names = ("input", "output", "cache_read")
    return all((getattr(total, name) or 0) >= (getattr(earlier, name) or 0) for name in names)
