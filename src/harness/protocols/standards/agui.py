"""AG-UI: events of a run, as lines of JSON or as server-sent events.

A question ends a run of AG-UI, and the next one goes on: all runs of a stream are one run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from harness.contracts.translator import Ending, Record
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.formats.fields import besides, count_of, first_text, items_of, output_of, record_of, text_of
from harness.protocols.standards.records import StandardTranslator, TextPieces

_NOTICES: dict[str, type[Error | Warning | Info]] = {
    "harness.Error": Error,
    "harness.Warning": Warning,
    "harness.Info": Info,
}
_ROLES: dict[str, Literal["assistant", "user", "system"]] = {"assistant": "assistant", "user": "user"}
"""All others are the system's."""
_KINDS: dict[str, Literal["permission", "question", "plan", "tool"]] = {
    "harness:permission": "permission",
    "harness:plan": "plan",
}


class AguiTranslator(StandardTranslator):
    rules: ClassVar[dict[str, str]] = {
        "RUN_STARTED": "_start",
        "RUN_FINISHED": "_finish",
        "RUN_ERROR": "_fail",
        "SUBAGENT_STARTED": "_start_agent",
        "SUBAGENT_FINISHED": "_finish_agent",
        "TEXT_MESSAGE_START": "_open_text",
        "TEXT_MESSAGE_CONTENT": "_add_text",
        "TEXT_MESSAGE_CHUNK": "_add_text",
        "TEXT_MESSAGE_END": "_close_text",
        "REASONING_MESSAGE_CONTENT": "_reason",
        "REASONING_MESSAGE_CHUNK": "_reason",
        "THINKING_TEXT_MESSAGE_CONTENT": "_reason",
        "TOOL_CALL_START": "_open_call",
        "TOOL_CALL_ARGS": "_add_arguments",
        "TOOL_CALL_CHUNK": "_add_arguments",
        "TOOL_CALL_END": "_start_call",
        "TOOL_CALL_RESULT": "_end_call",
        "CUSTOM": "_custom",
        **dict.fromkeys(
            (
                *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "REASONING_END"),
                *("THINKING_START", "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_END"),
                *("THINKING_END", "STEP_STARTED", "STEP_FINISHED"),
            ),
            "",
        ),
    }

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, TextPieces] = {}
        self._latest_text = ""
        self._arguments: dict[str, tuple[Record, list[str]]] = {}
        self._latest_call = ""
        self._agents: set[str] = set()
        self._has_begun = False

    def record(self, record: Record) -> Sequence[Event]:
        closing: list[Event] = []
        kind = self.kind(record)
        if kind != "TEXT_MESSAGE_CHUNK" and self._texts.get("chunks") is not None:
            closing += self._close_text({"messageId": "chunks"})
        if kind != "TOOL_CALL_CHUNK" and self._latest_call:
            closing += self._start_call({"toolCallId": self._latest_call})
        return [*closing, *super().record(record)]

    # Runs

    def _start(self, record: Record) -> Sequence[Event]:
        if self._has_begun:
            return []
        self._has_begun = True
        out: list[Event] = [SessionStart(agent="ag-ui", session_id=text_of(record.get("threadId")))]
        messages = map(record_of, items_of(record_of(record.get("input")).get("messages")))
        out += [
            Message(role="user", text=output_of(message.get("content")))
            for message in messages
            if message.get("role") == "user"
        ]
        return out

    def _finish(self, record: Record) -> Sequence[Event]:
        outcome = record_of(record.get("outcome"))
        out = [*self._usage(record)]
        if outcome.get("type") == "interrupt":
            return [*out, *self._ask(items_of(outcome.get("interrupts")))]
        if outcome.get("type") == "cancelled":
            return [*out, Result(success=False, outcome="interrupted")]
        result = record.get("result")
        text = result if isinstance(result, str) else ""
        return [*out, Result(success=True, text=text, structured=None if text else result)]

    def _fail(self, record: Record) -> Sequence[Event]:
        message, code = first_text(record, "message") or "the run failed", text_of(record.get("code"))
        out = [*self._usage(record), Error(message=message, code=code)]
        return [
            *out,
            Result(success=False, outcome="timed_out" if code == "timed_out" else "failed", text=message),
        ]

    def _usage(self, record: Record) -> list[Event]:
        out: list[Event] = []
        for row in map(record_of, items_of(record.get("usage"))):
            prompt, cache_read, cache_write, output, reasoning = (
                count_of(row.get(name))
                for name in (
                    *("inputTokens", "cachedInputTokens", "cacheWriteInputTokens"),
                    *("outputTokens", "reasoningTokens"),
                )
            )
            usage = Usage(
                input=besides(prompt, cache_read, cache_write),
                output=output,
                cache_read=cache_read,
                cache_write=cache_write,
                reasoning=reasoning,
            )
            out.append(UsageDelta(usage=usage, model=text_of(row.get("model"))))
        return out

    def _ask(self, interrupts: list[Any]) -> list[Event]:
        out: list[Event] = []
        for number, interrupt in enumerate(map(record_of, interrupts)):
            about = record_of(record_of(interrupt.get("metadata")).get("harness"))
            relay = Relay(
                id=text_of(interrupt.get("id")) or f"interrupt-{number}",
                kind=_KINDS.get(text_of(interrupt.get("reason")), "question"),
                call_id=text_of(interrupt.get("toolCallId")),
                tool_name=text_of(about.get("tool_name")),
                input=about.get("input"),
                question=text_of(interrupt.get("message")),
                resume_schema=interrupt.get("responseSchema"),
                run_id=text_of(interrupt.get("subagentRunId")),
            )
            out.append(relay)
        return out

    def _start_agent(self, record: Record) -> Sequence[Event]:
        key = text_of(record.get("subagentRunId"))
        if not key or key in self._agents:
            return []  # it goes on after a question
        self._agents.add(key)
        parent = text_of(record.get("parentToolCallId"))
        return [SessionStart(run_id=key, parent_id=parent, name=text_of(record.get("name")))]

    def _finish_agent(self, record: Record) -> Sequence[Event]:
        outcome, key = record_of(record.get("outcome")), text_of(record.get("subagentRunId"))
        kind = outcome.get("type")
        if kind == "suspended":
            return []
        result = record.get("result")
        text = result if isinstance(result, str) else text_of(outcome.get("message"))
        if kind in (None, "success"):
            return [Result(success=True, text=text, run_id=key)]
        return [
            Result(
                success=False,
                outcome="interrupted" if kind == "cancelled" else "failed",
                text=text,
                run_id=key,
            )
        ]

    # Texts and calls

    def _open_text(self, record: Record) -> Sequence[Event]:
        key = text_of(record.get("messageId"))
        role = text_of(record.get("role")) or "assistant"
        self._texts[key] = TextPieces(role, text_of(record.get("subagentRunId")))
        return []

    def _add_text(self, record: Record) -> Sequence[Event]:
        key = "chunks" if self.kind(record) == "TEXT_MESSAGE_CHUNK" else text_of(record.get("messageId"))
        if key not in self._texts:
            self._open_text({**record, "messageId": key})
        open_text, delta = self._texts[key], text_of(record.get("delta"))
        open_text.pieces.append(delta)
        if open_text.role != "assistant" or not delta:
            return []
        return [TextDelta(id=key, text=delta, run_id=open_text.run_id)]

    def _close_text(self, record: Record) -> Sequence[Event]:
        key = text_of(record.get("messageId"))
        text = self._texts.pop(key, None)
        if text is None or not text.whole:
            return []
        return [Message(role=_ROLES.get(text.role, "system"), text=text.whole, id=key, run_id=text.run_id)]

    def _reason(self, record: Record) -> Sequence[Event]:
        delta, run_id = text_of(record.get("delta")), text_of(record.get("subagentRunId"))
        return (
            [ReasoningDelta(id=text_of(record.get("messageId")), text=delta, run_id=run_id)] if delta else []
        )

    def _open_call(self, record: Record) -> Sequence[Event]:
        self._arguments[text_of(record.get("toolCallId"))] = (record, [])
        return []

    def _add_arguments(self, record: Record) -> Sequence[Event]:
        key = text_of(record.get("toolCallId")) or self._latest_call
        out: Sequence[Event] = []
        if self.kind(record) == "TOOL_CALL_CHUNK":
            if self._latest_call not in ("", key):
                out = self._start_call({"toolCallId": self._latest_call})
            self._latest_call = key
        _, pieces = self._arguments.setdefault(key, (record, []))
        pieces.append(text_of(record.get("delta")))
        return out

    def _start_call(self, record: Record) -> Sequence[Event]:
        key = text_of(record.get("toolCallId"))
        self._latest_call = "" if key == self._latest_call else self._latest_call
        if key not in self._arguments:
            return [Unknown(raw=record, reason="the end of a call that was never announced")]
        start, pieces = self._arguments.pop(key)
        name, run_id = text_of(start.get("toolCallName")), text_of(start.get("subagentRunId"))
        return self.begin_call(key, name, "".join(pieces), start, run_id)

    def _end_call(self, record: Record) -> Sequence[Event]:
        key, run_id = text_of(record.get("toolCallId")), text_of(record.get("subagentRunId"))
        return self.end_call(key, output_of(record.get("content")), success=None, run_id=run_id)

    def _custom(self, record: Record) -> Sequence[Event]:
        """What Harness itself has added to a stream; what others have is not known."""
        value, run_id = record_of(record.get("value")), text_of(record.get("subagentRunId"))
        kind = text_of(record.get("name"))
        if kind == "harness.RelayReply":
            is_approved = value.get("approved") is True
            return [RelayReply(id=text_of(value.get("id")), approved=is_approved, run_id=run_id)]
        if kind in _NOTICES:
            notice = _NOTICES[kind]
            return [
                notice(message=text_of(value.get("message")), code=text_of(value.get("code")), run_id=run_id)
            ]
        return [Unknown(raw=record, run_id=run_id)]

    def finish(self, ending: Ending) -> Sequence[Event]:
        del ending
        return [event for key in list(self._texts) for event in self._close_text({"messageId": key})]


TRANSLATOR = AguiTranslator
