"""What Claude's sub-agents have used, as far as its stream tells it call by call.

A line of a sub-agent tells what its model was given; what it answered is not counted yet at that time. Only of
its last call the whole is told, by the result of the call that spawned it. The rest is in the totals alone.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from harness.events import Usage
from harness.events.usage import CLASSES
from harness.sources.formats.fields import items_of, record_of, text_of
from harness.sources.formats.model_ledger import usage_of_call


class ModelCall(msgspec.Struct, frozen=True):
    model: str
    usage: Usage
    is_last: bool = False
    """It asked for no tool: the sub-agent has nothing more to do."""


class ChildUsage:
    """By run, what its lines have told."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, ModelCall]] = {}
        self._ends: dict[str, ModelCall] = {}

    def note_line(self, run_id: str, message: dict[str, Any]) -> None:
        usage = usage_of_call(record_of(message.get("usage")))
        message_id, calls = text_of(message.get("id")), self._calls.setdefault(run_id, {})
        if not message_id or not any(getattr(usage, name) for name in CLASSES):
            return
        asks = any(record_of(block).get("type") == "tool_use" for block in items_of(message.get("content")))
        known = calls.get(message_id)
        asks = asks or (known is not None and not known.is_last)
        given = replace(usage, output=None, reasoning=None)
        calls[message_id] = ModelCall(text_of(message.get("model")), given, is_last=not asks)

    def note_end(self, run_id: str, detail: dict[str, Any]) -> None:
        usage = usage_of_call(record_of(detail.get("usage")))
        if any(getattr(usage, name) for name in CLASSES):
            self._ends[run_id] = ModelCall(text_of(detail.get("resolvedModel")), usage)

    def take(self, run_id: str) -> dict[str, ModelCall]:
        """Its model calls by their ids, the last one whole where that is known."""
        calls, end = self._calls.pop(run_id, {}), self._ends.pop(run_id, None)
        if end is None:
            return calls
        last_id, last = next(reversed(calls.items()), ("", ModelCall("", Usage())))
        model = end.model or last.model
        return {**calls, last_id if last.is_last else "": ModelCall(model, end.usage)}
