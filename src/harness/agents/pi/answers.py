"""Pi's model answers: piece by piece while they are written, and whole when they have ended.

Rules
1. A part of an answer is named `message-<number>:<index>`, in its pieces and in the whole.
2. The text of a failed answer is held back until it is known whether the model is asked again: if so it is
   retracted, because the next answer repeats it; if not it is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from harness.events import (
    Event,
    Message,
    ReasoningDelta,
    TextDelta,
    TextRetracted,
    ToolInputDelta,
    Usage,
    UsageDelta,
    Warning,
)
from harness.formats.fields import (
    amount_of,
    besides,
    count_of,
    items_of,
    record_of,
    text_of,
    with_one_text,
)

_NO_INDEX = -1
_SILENT_PIECES = ("start", "text_start", "text_end", "thinking_start", "toolcall_end", "done", "error")


class Answers:
    """All answers of a run, one after the other."""

    def __init__(self) -> None:
        self.text_index = _NO_INDEX
        """The part of text that is being written, once it has started: its pieces take the fast path."""
        self.text_id = ""
        self.latest: dict[str, Any] = {}
        """The last update of an answer that has not ended: it may have the usage so far."""
        self.stop_reason = ""
        """How the last answer ended, in the agent's terms."""
        self.count = 0
        """How many have come to an end, failed ones apart."""
        self._number = 0
        self._is_open = False
        self._streamed: dict[str, None] = {}
        """Names of the parts of this answer of which pieces were emitted."""
        self._held_events: list[Event] = []
        self._calls: dict[int, tuple[str, str]] = {}
        self._pieces: dict[str, Callable[[dict[str, Any], int], Sequence[Event]]] = {
            "text_delta": self._text_delta,
            "thinking_delta": self._thinking_delta,
            "thinking_end": self._thinking_end,
            "toolcall_start": self._call_start,
            "toolcall_delta": self._call_delta,
        } | dict.fromkeys(_SILENT_PIECES, lambda _event, _index: ())

    def open(self) -> None:
        self._number += 1
        self._is_open = True
        self._streamed, self._calls, self.latest = {}, {}, {}
        self.text_index = _NO_INDEX

    def update(self, record: dict[str, Any]) -> Sequence[Event] | None:
        """A piece of the answer; None when it is of no known kind."""
        event = record_of(record.get("assistantMessageEvent"))
        action = self._pieces.get(text_of(event.get("type")))
        if action is None:
            return None
        if not self._is_open:
            self.open()
        self.latest = record
        return action(event, count_of(event.get("contentIndex")) or 0)

    def end(self, message: dict[str, Any]) -> list[Event]:
        """The whole answer. Of a failed one only the usage is emitted yet."""
        if not self._is_open:
            self.open()
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items_of(content)
        if not self._streamed:
            blocks = with_one_text(blocks)
        self.stop_reason = text_of(message.get("stopReason"))
        has_failed = self.stop_reason == "error"
        self.count += not has_failed
        out: list[Event] = []
        for index, block in enumerate(map(record_of, blocks)):
            if block.get("type") == "thinking":
                out += self._whole_reasoning(text_of(block.get("thinking")), index)
            elif text := text_of(block.get("text")):
                target = self._held_events if has_failed else out
                target.append(Message(role="assistant", text=text, id=self._name(index)))
        if self.stop_reason == "length":
            out.append(Warning(message="the answer was cut off at the model's token limit", code="length"))
        elif self.stop_reason == "stop" and not blocks:
            out.append(Warning(message="the model answered nothing", code="empty_answer"))
        is_certain = self.stop_reason not in ("error", "aborted")
        out += _usage_deltas(message.get("usage"), message, is_certain=is_certain)
        self.text_index, self.latest, self._is_open = _NO_INDEX, {}, False
        return out

    def take_back(self) -> list[Event]:
        """The model is asked again."""
        out: list[Event] = [TextRetracted(id=name) for name in self._streamed]
        self._streamed, self._held_events = {}, []
        return out

    def stand(self) -> list[Event]:
        """The model is not asked again."""
        out, self._held_events = self._held_events, []
        return out

    def break_off(self) -> list[Event]:
        """No more will come, not even the end of what is being written: what it used counts."""
        message = record_of(self.latest.get("message"))
        usage = self.latest.get("usage", message.get("usage"))
        return [*self.stand(), *_usage_deltas(usage, message, is_certain=False)]

    def _name(self, index: int) -> str:
        return f"message-{self._number}:{index}"

    def _text_delta(self, event: dict[str, Any], index: int) -> Sequence[Event]:
        self.text_index, self.text_id = index, self._name(index)
        text = text_of(event.get("delta"))
        if not text:
            return ()
        self._streamed[self.text_id] = None
        return (TextDelta(id=self.text_id, text=text),)

    def _thinking_delta(self, event: dict[str, Any], index: int) -> Sequence[Event]:
        text = text_of(event.get("delta"))
        if not text:
            return ()
        self._streamed[self._name(index)] = None
        return (ReasoningDelta(id=self._name(index), text=text),)

    def _thinking_end(self, event: dict[str, Any], index: int) -> Sequence[Event]:
        return self._whole_reasoning(text_of(event.get("content")), index)

    def _whole_reasoning(self, text: str, index: int) -> list[Event]:
        """Some models write their reasoning only when it is over."""
        name = self._name(index)
        if not text or name in self._streamed:
            return []
        self._streamed[name] = None
        return [ReasoningDelta(id=name, text=text)]

    def _call_start(self, event: dict[str, Any], index: int) -> Sequence[Event]:
        call_id, name = text_of(event.get("id")), text_of(event.get("toolName"))
        if not call_id:
            # Versions that name it only there repeat the whole answer so far in every piece.
            so_far = items_of(record_of(event.get("partial")).get("content"))
            block = record_of(so_far[index]) if index < len(so_far) else {}
            call_id, name = text_of(block.get("id")), text_of(block.get("name"))
        self._calls[index] = (call_id, name)
        return ()

    def _call_delta(self, event: dict[str, Any], index: int) -> Sequence[Event]:
        if not self._calls.get(index, ("", ""))[0]:
            self._call_start(event, index)
        call_id, name = self._calls[index]
        text = text_of(event.get("delta"))
        if not text or not call_id:
            return ()
        self._calls[index] = (call_id, "")
        return (ToolInputDelta(call_id=call_id, text=text, tool_name=name),)


def _usage_deltas(data: Any, message: dict[str, Any], *, is_certain: bool) -> list[Event]:
    """Failed answers say 0 where the usage is not known."""
    usage = _usage_of(record_of(data))
    has_used = any((usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning))
    if not has_used and not (is_certain and usage):
        return []
    return [
        UsageDelta(usage=usage, model=text_of(message.get("model")), id=text_of(message.get("responseId")))
    ]


def _usage_of(data: dict[str, Any]) -> Usage:
    """Its output includes the reasoning; its input never what came from or went to the cache. Tokens that cost nothing
    are those of a model whose price it was not given.
    """
    output, reasoning = count_of(data.get("output")), count_of(data.get("reasoning"))
    usage = Usage(
        input=count_of(data.get("input")),
        output=besides(output, reasoning),
        cache_read=count_of(data.get("cacheRead")),
        cache_write=count_of(data.get("cacheWrite")),
        reasoning=reasoning,
    )
    cost = amount_of(record_of(data.get("cost")).get("total"))
    if cost is None or (cost == 0 and usage.all_tokens):
        return usage
    return replace(usage, cost_usd=cost, cost_source="stated")
