"""Reading what `harness run` writes into a pipe: events of `--format ndjson`, line by line, and what adds up.

    events = list(harness.ndjson.read(open("run.ndjson", "rb")))
    print(sum_costs(events), total_tokens(events))
    for call in extract_tool_calls(events):
        print(call.name, call.success)

Types may be written in either way, `ToolStart` or `tool_start`; a line that is no event raises UsageError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec

from harness.errors import UsageError

Record: TypeAlias = dict[str, Any]
"""One event as it was written; `type` is always spelled `ToolStart`."""


class ToolCallRecord(NamedTuple):
    """A tool call and its end; `success` is None for a call that did not end."""

    id: str
    name: str
    input: str
    success: bool | None
    output: str


def read(lines: Iterable[bytes | str]) -> Iterator[Record]:
    """The events, in order; blank lines are passed over. Raises UsageError at the line that is none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"line {number} is no JSON: {error}", hint="give the output of `--format ndjson`"
            ) from error
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise UsageError(f"line {number} is no event", hint="give the output of `--format ndjson`")
        yield {**event, "timestamp_ms": event.get("timestamp_ms", 0), "type": _spelled(event["type"])}


def sum_costs(events: Iterable[Record]) -> float:
    """What the events state in dollars: that of each usage, and that of each result."""
    return sum(_cost(event) for event in events)


def total_tokens(events: Iterable[Record]) -> tuple[int, int]:
    """Input and output of all usage that was stated on the way (`--usage` writes it)."""
    usages = [event.get("usage") or {} for event in events if event["type"] == "UsageDelta"]
    return _sum(usages, "input_tokens"), _sum(usages, "output_tokens")


def extract_tool_calls(events: Iterable[Record]) -> list[ToolCallRecord]:
    """Each call with the first end of its id that is not yet matched to another call."""
    everything = list(events)
    ends: dict[str, list[Record]] = {}
    for event in everything:
        if event["type"] == "ToolEnd":
            ends.setdefault(event.get("call_id", ""), []).append(event)
    calls = []
    for event in everything:
        if event["type"] == "ToolStart":
            waiting = ends.get(event.get("call_id", ""))
            calls.append(_call(event, waiting.pop(0) if waiting else {}))
    return calls


def one_line(event: Record) -> str:
    """An event for a log that people read: `[tool:ok] Bash(toolu_1)`."""
    match event["type"]:
        case "SessionStart":
            return f"[session:{event.get('session_id', '')}] agent={event.get('agent', '')}"
        case "TextDelta":
            return str(event.get("text", ""))
        case "Message":
            return f"[{event.get('role', '')}] {event.get('text', '')}"
        case "ToolStart":
            return f"[tool:start] {_named(event)}"
        case "ToolEnd":
            return f"[tool:{'ok' if event.get('success') else 'fail'}] {_named(event)}"
        case "UsageDelta":
            tokens = event.get("usage") or {}
            return f"[usage] {tokens.get('input_tokens') or 0} in / {tokens.get('output_tokens') or 0} out"
        case "Result":
            return f"[result:{'success' if event.get('success') else 'error'}] {event.get('text', '')}"
        case "Error":
            return f"[error] {event.get('message', '')}"
        case other:
            return f"[{other}]"


def _spelled(name: str) -> str:
    return name if name[:1].isupper() else "".join(word.capitalize() for word in name.split("_"))


def _cost(event: Record) -> float:
    if event["type"] == "UsageDelta":
        return float((event.get("usage") or {}).get("cost_usd") or 0)
    return float(event.get("total_cost_usd") or 0) if event["type"] == "Result" else 0.0


def _sum(usages: list[Record], name: str) -> int:
    return sum(usage.get(name) or 0 for usage in usages)


def _call(start: Record, end: Record) -> ToolCallRecord:
    return ToolCallRecord(
        id=start.get("call_id", ""),
        name=start.get("tool_name", ""),
        input=start.get("input", ""),
        success=end.get("success"),
        output=end.get("output") or "",
    )


def _named(event: Record) -> str:
    return f"{event.get('tool_name', '')}({event.get('call_id', '')})"
