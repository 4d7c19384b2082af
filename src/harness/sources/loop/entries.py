"""A conversation as the model sees it, and where each turn stands in the log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.sources.model import Model, Turn


class TranscriptEntry(msgspec.Struct, frozen=True, gc=False):
    """One turn, with the event that it came from."""

    turn: Turn
    message_id: str
    """That of its message or signal; results of calls have the id of the message that asked for them."""
    created_ms: int
    seq: int


class StepContext(msgspec.Struct, frozen=True):
    """What is known before a model call."""

    entries: Sequence[TranscriptEntry]
    """Everything that was said, the system prompt left out. It grows: copy what is kept."""
    step_number: int
    """0 is the first model call of the run; a run that is resumed counts on."""
    run_id: str
    model: Model
