"""The events that name their run: each has the id of its run, and of the run's parent.

A run is one agent, or one call of a model made by an agent (`parent_id` is then the agent's run). What is
not known is absent, never null.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec


def _tag(name: str) -> str:
    """HarnessStart → harness_start; TextEvent → text."""
    name = name.removesuffix("Event")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class WireEvent(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename="camel",
    tag_field="type",
    tag=_tag,
):
    run_id: str
    parent_id: str = ""
    """The call that spawned the run, or the run that it is a part of."""


class HarnessStart(WireEvent, frozen=True, kw_only=True):
    depth: int = 0
    max_iterations: int | None = None


class TotalUsage(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int
    output_tokens: int


class HarnessEnd(WireEvent, frozen=True, kw_only=True):
    reason: str = ""
    """`final`, `max_iterations` or `aborted`."""
    iterations: int | None = None
    total_usage: TotalUsage | None = None


class TextEvent(WireEvent, frozen=True, kw_only=True):
    id: str
    """The same for all chunks of one stream."""
    content: str


class ReasoningEvent(WireEvent, frozen=True, kw_only=True):
    id: str
    content: str


class ToolCallEvent(WireEvent, frozen=True, kw_only=True):
    """As the model asked for it (its own id, in the run of the model call), or as it is carried out."""

    id: str
    name: str
    input: Any


class ToolResultEvent(WireEvent, frozen=True, kw_only=True):
    id: str
    """That of the call."""
    name: str
    output: Any
    """`{context, result}`, `{status: "denied", reason}` or `{error}`."""


class ToolProgressEvent(WireEvent, frozen=True, kw_only=True):
    id: str
    tool_call_id: str
    name: str
    content: Any


class UsageEvent(WireEvent, frozen=True, kw_only=True):
    input_tokens: int
    """The whole prompt, whether it came from a cache or not."""
    output_tokens: int
    """Reasoning included."""
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None


class ErrorEvent(WireEvent, frozen=True, kw_only=True):
    message: str


class RelayEvent(WireEvent, frozen=True, kw_only=True):
    kind: str
    id: str
    tool_call_id: str
    tool: str
    params: Any
    options: list[dict[str, Any]] | None = None
    """The possible answers to an approval, each with what it grants."""
    preview: list[dict[str, Any]] | None = None
    subagent: str = ""


class ReplInputEvent(WireEvent, frozen=True, kw_only=True):
    id: str
    code: str
    iteration: int | None = None


class ReplProgressEvent(WireEvent, frozen=True, kw_only=True):
    id: str
    """Of this piece alone."""
    chunk: str
    stream: Literal["stdout", "stderr"]


class ReplOutputEvent(WireEvent, frozen=True, kw_only=True):
    id: str
    """That of the input."""
    stdout: str
    error: str = ""
    done: bool
    iteration: int | None = None
    duration_ms: int | None = None
    truncated: bool = False


class UserEvent(WireEvent, frozen=True, kw_only=True):
    """A message of the user. The client that sent it knows it, so a stream of events does not repeat it."""

    content: Any
    """A text, or parts."""


class RetractedEvent(WireEvent, frozen=True, kw_only=True):
    """The text of that id was retracted. Only a graph shows it; a stream of events has no such event."""

    id: str


class Connected(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="connected"):
    """The first event of a server."""

    session_id: str


RunEvent: TypeAlias = (
    HarnessStart
    | HarnessEnd
    | TextEvent
    | ReasoningEvent
    | ToolCallEvent
    | ToolResultEvent
    | ToolProgressEvent
    | UsageEvent
    | ErrorEvent
    | RelayEvent
    | ReplInputEvent
    | ReplProgressEvent
    | ReplOutputEvent
    | UserEvent
    | RetractedEvent
)
AnyWireEvent: TypeAlias = RunEvent | Connected

UNTOLD = (UserEvent, RetractedEvent)
"""Not part of a stream of events."""
