"""What a compaction has used, which Claude Code writes into no record of its own.

A `cost-state` has the tokens of all calls of the session so far. What the answers between two of them do not explain
was used by the compaction between them. Where sub-agents worked in between, or the numbers do not fit, nothing is said:
tokens may be missing then, and are never counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

Counts: TypeAlias = tuple[int, int, int, int, int, int]
"""Input, output with thinking, read from the cache, written to it, thinking, written to it for an hour."""
NOTHING: Counts = (0, 0, 0, 0, 0, 0)
SUB_AGENT_TOOLS = frozenset({"Agent", "Task"})


class CompactionCall(NamedTuple):
    """Of one model, all its calls in one."""

    id: str
    model: str
    counts: Counts


class CompactionCalls(msgspec.Struct, omit_defaults=True):
    """A fold of a session's own records. It can be stored, and continued."""

    stated: dict[str, Counts] | None = msgspec.field(default_factory=dict)
    """Model → all tokens so far, as last stated. None: there were some before this file."""
    answered: dict[str, Counts] = msgspec.field(default_factory=dict)
    """Model → tokens of the answers since then."""
    message: str = ""
    counts: Counts = NOTHING
    """Of the last answer: several records are one, and the last of them counts."""
    boundary: str = ""
    """The id of the compaction since then."""
    has_sub_agents: bool = False

    def answer(self, message_id: str, model: str, counts: Counts) -> None:
        before = self.counts if message_id == self.message else NOTHING
        self.message, self.counts = message_id, counts
        model = plain_name(model)
        self.answered[model] = _plus(self.answered.get(model, NOTHING), _minus(counts, before))

    def compact(self, boundary: str, *, is_first: bool) -> None:
        """`is_first`: no prompt is before it, so that the file continues another one."""
        self.boundary = boundary
        if is_first:
            self.stated = None

    def state(self, totals: Mapping[str, Counts]) -> list[CompactionCall]:
        now = {plain_name(model): counts for model, counts in totals.items()}
        calls = [*self._unexplained(now)] if self.boundary and not self.has_sub_agents else []
        self.stated, self.answered, self.boundary, self.has_sub_agents = now, {}, "", False
        return [] if any(min(call.counts) < 0 for call in calls) else calls

    def _unexplained(self, now: Mapping[str, Counts]) -> Iterator[CompactionCall]:
        if self.stated is None or self.answered.keys() - now.keys():
            return
        for model, counts in now.items():
            explained = _plus(self.stated.get(model, NOTHING), self.answered.get(model, NOTHING))
            if (rest := _minus(counts, explained)) != NOTHING:
                yield CompactionCall(f"compaction:{self.boundary}:{model}", model, rest)


def plain_name(model: str) -> str:
    """Without the window, which is written behind it."""
    return model.partition("[")[0]


def _plus(first: Counts, other: Counts) -> Counts:
    a, b, c, d, e, f = first
    u, v, w, x, y, z = other
    return a + u, b + v, c + w, d + x, e + y, f + z


def _minus(first: Counts, other: Counts) -> Counts:
    a, b, c, d, e, f = first
    u, v, w, x, y, z = other
    return a - u, b - v, c - w, d - x, e - y, f - z
