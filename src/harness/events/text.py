"""Messages, and the pieces in which they are streamed."""

from __future__ import annotations

from typing import Any, Literal

from harness.events.envelope import Event


class TextDelta(Event, frozen=True, kw_only=True):
    """A piece of the answer as it is written. Pieces of one message share its `id`."""

    id: str = ""
    text: str


class ReasoningDelta(Event, frozen=True, kw_only=True):
    """A piece of the model's reasoning; the whole is its pieces joined."""

    id: str = ""
    text: str


class TextRetracted(Event, frozen=True, kw_only=True):
    """The pieces streamed under `id` so far are void: the model's answer broke off and is requested again."""

    id: str


class Message(Event, frozen=True, kw_only=True):
    """A whole message. `id` is that of its pieces, if it was streamed."""

    role: Literal["assistant", "user", "system"]
    text: str
    id: str = ""
    parts: list[Any] | None = None
    """Images, files and other parts besides text."""
    opaque: Any = None
    """Provider data that a later call must send back as it came."""
