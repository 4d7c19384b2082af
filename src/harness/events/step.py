"""One step is one model call of a run."""

from __future__ import annotations

from harness.events.envelope import Event


class StepStart(Event, frozen=True, kw_only=True):
    """The model is asked. What comes until the `StepEnd` of the same run is its answer."""

    id: str
    """Of this call alone, a UUIDv7."""
    model: str = ""


class StepEnd(Event, frozen=True, kw_only=True):
    id: str
    stop_reason: str = ""
    """`end`, `tool_calls`, `length`, `refusal`, `error`, `cancelled`, or the provider's own word."""
