"""What may make a memory take over before it is full: a pause after which caches are gone, or another model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from harness.session.memory.config import Idle, idle_ms
from harness.session.memory.steps import Entry
from harness.sources.model import UserTurn


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is activated, as the event tells it."""

    triggered_by: Literal["threshold", "ttl", "provider_change"]
    last_activity_at: int | None = None
    ttl_expired_ms: int | None = None
    activate_after_idle: int | None = None
    previous_model: str = ""
    current_model: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


THRESHOLD = Trigger(triggered_by="threshold")


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of a run, as far as it may be a reason."""

    now_ms: int
    last_activity_ms: int | None
    previous_model: str
    current_model: str
    retention: str = ""
    """How long the provider was asked to cache, where it can be."""

    def trigger(self, idle: Idle, *, on_provider_change: bool) -> Trigger | None:
        if on_provider_change and self.previous_model and self.previous_model != self.current_model:
            return Trigger(
                triggered_by="provider_change",
                previous_model=self.previous_model,
                current_model=self.current_model,
            )
        limit_ms = idle_ms(idle, self.current_model, self.retention)
        if limit_ms is None or self.last_activity_ms is None:
            return None
        quiet_ms = self.now_ms - self.last_activity_ms
        if quiet_ms < limit_ms:
            return None
        return Trigger(
            triggered_by="ttl",
            last_activity_at=self.last_activity_ms,
            ttl_expired_ms=quiet_ms,
            activate_after_idle=limit_ms,
        )


def last_activity_ms(entries: Sequence[Entry]) -> int | None:
    """When the model last did something: what the user has just said is no sign of a warm cache."""
    return next(
        (entry.created_ms for entry in reversed(entries) if not isinstance(entry.turn, UserTurn)), None
    )
