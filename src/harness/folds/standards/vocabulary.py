"""What the standards share: a call of any kind as one, its title, texts that grow, files in messages, tokens as others count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.events import (
    Event,
    ReplInput,
    ReplOutput,
    ReplProgress,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Usage,
)
from harness.events.operation import Operation
from harness.log.run_tree import REPL_TOOL

LONGEST_PROGRESS = 8_000
"""Of the output of a call that is running so many characters are shown, the last ones."""
CANCELLED = frozenset(("interrupted", "cancelled"))
PROGRAMS = frozenset((ReplInput, ReplProgress, ReplOutput))
_TITLE_FIELDS = ("command", "path", "query", "url", "task", "name")


class CountedTokens(NamedTuple):
    """Tokens as most standards count them: the whole prompt, and all that the model wrote."""

    prompt: int | None
    completion: int | None


def counted_tokens(usage: Usage) -> CountedTokens:
    return CountedTokens(
        sum_known(usage.input, usage.cache_read, usage.cache_write), sum_known(usage.output, usage.reasoning)
    )


def sum_known(*counts: int | None) -> int | None:
    """None if none of them is known."""
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if numbers else None


def as_call(event: Event) -> Event:
    """A program that a model wrote, its output and its end, as the call that it is."""
    envelope: dict[str, Any] = {
        "seq": event.seq,
        "timestamp_ms": event.timestamp_ms,
        "run_id": event.run_id,
    }
    if isinstance(event, ReplInput):
        return ToolStart(**envelope, call_id=event.id, tool_name=REPL_TOOL, input={"code": event.code})
    if isinstance(event, ReplProgress):
        return ToolProgress(**envelope, call_id=event.id, text=event.text, stream=event.stream)
    if isinstance(event, ReplOutput):
        return ToolEnd(
            **envelope,
            call_id=event.id,
            tool_name=REPL_TOOL,
            success=not event.error,
            output=event.stdout + event.error,
            duration_ms=event.duration_ms,
        )
    return event


def call_title(tool_name: str, operations: Sequence[Operation]) -> str:
    """What a person reads on the row of a call: the command, the path, what is searched for; else the tool."""
    for operation in operations[:1]:
        for field in _TITLE_FIELDS:
            text = getattr(operation, field, "")
            if text:
                return str(text)
    return tool_name or "tool"


class MessageFile(NamedTuple):
    """An image or a file of a message, whatever its source calls the fields."""

    media_type: str
    data: str
    """Base64; empty where there is only an address."""
    url: str
    name: str

    @property
    def address(self) -> str:
        return self.url or f"data:{self.media_type};base64,{self.data}"


def file_parts(parts: Sequence[Any] | None, family: str = "") -> list[MessageFile]:
    """The images and files among the parts of a message. `family`: only those, such as `image/`."""
    parts_of_files = []
    for part in parts or ():
        if not isinstance(part, dict):
            continue
        media = part.get("media_type") or part.get("mediaType") or part.get("mimeType") or ""
        data, url = part.get("data") or "", part.get("url") or ""
        if not (isinstance(media, str) and isinstance(data, str) and isinstance(url, str)):
            continue
        if media.startswith(family) and media and (data or url):
            parts_of_files.append(MessageFile(media, data, url, str(part.get("name") or "")))
    return parts_of_files


def without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and value not in ("", {}, [])}
