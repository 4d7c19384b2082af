"""The events that name their run: each has the id of its run, and of the run's parent.

A run is one agent, or one call of a model made by an agent (`parent_id` is then the agent's run). What is
not known is absent, never null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from harness.events import Message, Relay, ToolEnd
from harness.formatting.question_data import QuestionedCall, QuestionOption


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


class RunErrorEvent(WireEvent, frozen=True, kw_only=True, tag="error"):
    message: str


class RelayEvent(WireEvent, frozen=True, kw_only=True):
    kind: str
    id: str
    tool_call_id: str
    tool: str
    params: Any
    options: list[QuestionOption] | None = None
    """The possible answers to an approval, each with what it grants."""
    preview: list[dict[str, Any]] | None = None
    calls: list[QuestionedCall] | None = None
    """Where one answer is for several calls: all of them."""
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
    | RunErrorEvent
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


# The contents of run events: requests of a model, results of a call, messages of a user.


class RequestedCall(NamedTuple):
    id: str
    """The model's own."""
    name: str
    input: Any


def requested_calls(parts: Sequence[Any]) -> list[RequestedCall]:
    """The calls among the parts of a model's answer."""
    calls = [part for part in map(_as_data, parts) if part.get("type") == "tool_call"]
    return [
        RequestedCall(str(call.get("id", "")), str(call.get("name", "")), call.get("input")) for call in calls
    ]


def user_content(message: Message) -> Any:
    """A text, or parts where there is more than text."""
    parts = [_content_part(part) for part in map(_as_data, message.parts or ()) if part]
    if not parts:
        return message.text
    return [{"type": "text", "text": message.text}, *parts] if message.text else parts


def outcome_of(end: ToolEnd) -> dict[str, Any]:
    """The outcome of a call, as far as it is in the log."""
    output = end.output
    if end.result is not None and end.success is not False:
        return {"context": output or "", "result": end.result}
    if end.exit_code is not None:  # a program that exited, with any code
        return {"context": output or "", "result": {"exitCode": end.exit_code}}
    if end.success is False:
        return _stated_failure(output) or {"error": output or "failed"}
    return {} if output is None else {"context": output}


def context_of(output: Any) -> Any:
    """The part of a result that is meant for the model, if there is one."""
    context = output.get("context") if isinstance(output, dict) else None
    return context if isinstance(context, str) else output


def question_of(relay: Relay) -> Any:
    """The arguments of a call that needs approval, else the question."""
    if relay.input is not None:
        return relay.input
    fields = {"question": relay.question, "options": relay.options}
    return {name: value for name, value in fields.items() if value}


def denial(reason: str) -> dict[str, Any]:
    return {"status": "denied", "reason": reason} if reason else {"status": "denied"}


def _stated_failure(output: str | None) -> dict[str, Any] | None:
    """A failure that the loop has already written in this format, for the model."""
    if output is None or not output.startswith(('{"status":"denied"', '{"error":')):
        return None
    try:
        value: dict[str, Any] = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if value.keys() in ({"status"}, {"status", "reason"}, {"error"}) else None


def _content_part(part: dict[str, Any]) -> dict[str, Any]:
    media_type = part.get("media_type")
    if part.get("type") != "file" or not isinstance(media_type, str):
        return part
    kind = "image" if media_type.startswith("image/") else "document"
    return {"type": kind, "mediaType": media_type, "data": part.get("data", "")}


def _as_data(part: Any) -> dict[str, Any]:
    """A part as plain data, as in the log file; in a live run it may still be a struct."""
    if isinstance(part, msgspec.Struct):
        part = msgspec.to_builtins(part)
    return part if isinstance(part, dict) else {}
