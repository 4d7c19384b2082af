"""OpenAI's Responses: the events of a stream, or whole responses, of any number of model calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.contracts.translator import Record
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Relay,
    Result,
    SessionStart,
    TextDelta,
    Unknown,
    Usage,
    UsageDelta,
)
from harness.formats.fields import (
    arguments_of,
    besides,
    count_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.protocols.standards.records import StandardTranslator

_RESULTS = ("output", "result", "results", "outputs")
_NO_INPUT = frozenset(("id", "type", "status", "call_id", "name", "error", *_RESULTS))
_PROGRESS = (
    *("response.in_progress", "response.queued", "response.output_item.added"),
    *("response.content_part.added", "response.content_part.done", "response.output_text.done"),
    *("response.output_text.annotation.added", "response.refusal.done"),
    *("response.function_call_arguments.delta", "response.function_call_arguments.done"),
    *("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"),
    *("response.mcp_call_arguments.delta", "response.mcp_call_arguments.done"),
    *("response.mcp_call.in_progress", "response.mcp_call.completed", "response.mcp_call.failed"),
    *("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
    *("response.reasoning_summary_text.done", "response.reasoning_text.done"),
)
"""What the item says once more when it is done."""


class ResponsesTranslator(StandardTranslator):
    rules: ClassVar[dict[str, str]] = {
        **dict.fromkeys(_PROGRESS, ""),
        "response.created": "_create",
        "response.output_text.delta": "_text",
        "response.refusal.delta": "_text",
        "response.reasoning_summary_text.delta": "_reason",
        "response.reasoning_text.delta": "_reason",
        "response.output_item.done": "_item_done",
        "response.completed": "_end",
        "response.incomplete": "_end",
        "response.failed": "_end",
        "response.cancelled": "_end",
        "error": "_error",
        "response": "_whole",
    }

    def __init__(self) -> None:
        super().__init__()
        self._has_begun = False
        self._streams: set[str] = set()
        """Items whose text came in pieces."""

    def kind(self, record: Record) -> str:
        return "response" if record.get("object") == "response" else super().kind(record)

    def _create(self, record: Record) -> Sequence[Event]:
        return self._begin(record_of(record.get("response")))

    def _begin(self, response: Record) -> list[Event]:
        if self._has_begun:
            return []
        self._has_begun = True
        model, name = text_of(response.get("model")), text_of(response.get("id"))
        return [SessionStart(agent="openai", model=model, session_id=name)]

    def _whole(self, record: Record) -> Sequence[Event]:
        out = self._begin(record)
        for item in map(record_of, items_of(record.get("output"))):
            out += self._item(item)
        return [*out, *self._ending(record)]

    def _text(self, record: Record) -> Sequence[Event]:
        key, delta = text_of(record.get("item_id")), text_of(record.get("delta"))
        self._streams.add(key)
        return [TextDelta(id=key, text=delta)] if delta else []

    def _reason(self, record: Record) -> Sequence[Event]:
        key, delta = text_of(record.get("item_id")), text_of(record.get("delta"))
        self._streams.add(key)
        return [ReasoningDelta(id=key, text=delta)] if delta else []

    def _item_done(self, record: Record) -> Sequence[Event]:
        return self._item(record_of(record.get("item")))

    def _item(self, item: Record) -> list[Event]:
        kind, key = text_of(item.get("type")), text_of(item.get("id"))
        if kind == "message":
            parts = map(record_of, items_of(item.get("content")))
            text = "".join(first_text(part, "text", "refusal") for part in parts)
            return [Message(role="assistant", text=text, id=key)] if text else []
        if kind == "reasoning":
            parts = map(record_of, [*items_of(item.get("summary")), *items_of(item.get("content"))])
            text = "" if key in self._streams else "\n\n".join(text_of(part.get("text")) for part in parts)
            return [ReasoningDelta(id=key, text=text)] if text else []
        if kind == "mcp_approval_request":
            name, arguments = text_of(item.get("name")), arguments_of(item.get("arguments"))
            return [Relay(id=key, kind="permission", tool_name=name, input=arguments)]
        if kind.endswith("_call_output"):
            return self.end_call(text_of(item.get("call_id")), output_of(item.get("output")), success=None)
        if kind.endswith("_call"):
            return self._call(kind, item)
        return [Unknown(raw=item)]

    def _call(self, kind: str, item: Record) -> list[Event]:
        """A call, and its result where the item has one: of a tool that the server has run."""
        key = text_of(item.get("call_id")) or text_of(item.get("id"))
        arguments = item.get("arguments", item.get("input"))
        if arguments is None:
            arguments = {name: value for name, value in item.items() if name not in _NO_INPUT}
        name = text_of(item.get("name")) or kind.removesuffix("_call")
        out = self.begin_call(key, name, arguments, item)
        status, output = (
            item.get("status"),
            next((item[field] for field in _RESULTS if item.get(field) is not None), None),
        )
        is_ours = kind in ("function_call", "custom_tool_call")
        if is_ours or status not in ("completed", "failed", None):
            return out  # its result is in the next request
        failure = item.get("error")
        text = output_of(output) or output_of(record_of(failure).get("content") or failure)
        return [*out, *self.end_call(key, text, success=status != "failed" and not failure)]

    def _end(self, record: Record) -> Sequence[Event]:
        return [
            *self._begin(record_of(record.get("response"))),
            *self._ending(record_of(record.get("response"))),
        ]

    def _ending(self, response: Record) -> list[Event]:
        usage, model = record_of(response.get("usage")), text_of(response.get("model"))
        prompt, completion = (
            record_of(usage.get("input_tokens_details")),
            record_of(usage.get("output_tokens_details")),
        )
        out: list[Event] = []
        if usage:
            cache_read, reasoning = (
                count_of(prompt.get("cached_tokens")),
                count_of(completion.get("reasoning_tokens")),
            )
            cache_write = count_of(prompt.get("cache_write_tokens"))
            counts = Usage(
                input=besides(count_of(usage.get("input_tokens")), cache_read, cache_write),
                output=besides(count_of(usage.get("output_tokens")), reasoning),
                cache_read=cache_read,
                cache_write=cache_write,
                reasoning=reasoning,
            )
            out.append(UsageDelta(usage=counts, model=model))
        status = text_of(response.get("status")) or "completed"
        if status == "completed":
            return [*out, Result(success=True)]
        if status == "cancelled":
            return [*out, Result(success=False, outcome="interrupted")]
        why = text_of(record_of(response.get("incomplete_details")).get("reason"))
        failure = record_of(response.get("error"))
        message = text_of(failure.get("message")) or why or status
        out.append(Error(message=message, code=text_of(failure.get("code")) or status))
        return [*out, Result(success=False, outcome="failed", text=message, stop_reason=why)]

    def _error(self, record: Record) -> Sequence[Event]:
        failure = record_of(record.get("error")) or record
        message, code = text_of(failure.get("message")) or "the API failed", text_of(failure.get("code"))
        return [Error(message=message, code=code), Result(success=False, outcome="failed", text=message)]


TRANSLATOR = ResponsesTranslator
