"""The runs of a thread that have not ended: the open calls of each, and the message that it is writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from harness.events import (
    Event,
    Message,
    ReasoningDelta,
    StepEnd,
    StepStart,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.events.operation import Command, Spawn, Write
from harness.folds.session import events as wire
from harness.folds.session.content import files_of
from harness.folds.session.events import HarnessEvent
from harness.folds.session.messages import Frame, HarnessMessage, MessageDraft, StopReason
from harness.folds.session.parts import Part, TextPart, ThinkingPart

_ABORTED = "[Aborted by user]"


def aborted_output(text: str) -> str:
    """The result of a call whose sub-agent was stopped."""
    return f"{_ABORTED}\n\nPartial output:\n{text}" if text else _ABORTED


class OpenCall(msgspec.Struct):
    name: str
    is_command: bool = False
    paths: list[str] = []
    """The files that it writes if it succeeds."""
    agent_name: str = ""
    task: str = ""
    """Of a call that starts a sub-agent."""

    @classmethod
    def of(cls, start: ToolStart) -> OpenCall:
        spawn = next((operation for operation in start.operations if isinstance(operation, Spawn)), None)
        return cls(
            start.tool_name,
            any(isinstance(operation, Command) for operation in start.operations),
            [operation.path for operation in start.operations if isinstance(operation, Write)],
            "" if spawn is None else spawn.name,
            "" if spawn is None else spawn.task,
        )

    def written(self, end: ToolEnd) -> list[str]:
        """The files that it wrote successfully."""
        if end.success is False:
            return []
        if end.operations is None:
            return self.paths
        return [
            operation.path
            for operation in end.operations
            if isinstance(operation, Write) and operation.success is not False
        ]


class TextStream(msgspec.Struct):
    """A text that is being streamed."""

    place: int
    pieces: list[str]


class TopRun(msgspec.Struct):
    """A run without a parent: the agent that the user talks to."""

    run_id: str
    is_running: bool = True
    draft: MessageDraft | None = None
    texts: dict[str, TextStream] = {}
    streamed: dict[str, str] = {}
    """The emitted part of a text that is still being streamed, when another message ended the one it began in."""
    thoughts: dict[str, int] = {}
    """Positions of the reasoning parts that are being streamed."""
    calls: dict[str, OpenCall] = {}
    inputs: dict[str, str] = {}
    """Calls whose arguments are being streamed, with the name of the tool."""
    answered: list[str] = []
    """Calls whose question was answered."""
    messages: int = 0
    has_spoken: bool = False
    failure: str = ""
    """The last error that was emitted."""
    cut_off: str = ""
    """Why the last answer of the model is incomplete."""

    def begin_message(self, event: Event) -> list[HarnessEvent]:
        """Start a message at that event. Does nothing if one is being written."""
        if self.draft is not None:
            return []
        self.draft = MessageDraft(self.message_id(event), event.timestamp_ms)
        return [wire.MessageStartEvent(message=HarnessMessage(self.draft, 0))]

    def message_id(self, event: Event) -> str:
        """From the position in the log; for an event outside a log, from a count."""
        self.messages += 1
        place = event.seq if event.seq >= 0 else f"unlogged-{self.messages}"
        return f"{event.run_id}/{place}"

    def end_message(self, stop_reason: StopReason, error: str = "") -> list[HarnessEvent]:
        draft = self.draft
        if draft is None:
            return []
        for stream_id, stream in self.texts.items():
            self.streamed[stream_id] = self.streamed.get(stream_id, "") + "".join(stream.pieces)
        self.draft, self.texts, self.thoughts = None, {}, {}
        frame = Frame("assistant", stop_reason, error or None)
        return [wire.MessageEndEvent(message=HarnessMessage(draft, len(draft.changes), frame))]

    def update(self) -> list[HarnessEvent]:
        draft = self.draft
        if draft is None:
            return []
        return [wire.MessageUpdateEvent(message=HarnessMessage(draft, len(draft.changes)))]

    def add(self, parts: Sequence[Part], size: int = 0) -> list[HarnessEvent]:
        """Add complete parts: each is emitted, then the message."""
        draft = self.draft
        if draft is None or not parts:
            return []
        for part in parts:
            draft.begin(part)
        draft.size += size + 64 * len(parts)
        return [*parts, *self.update()]

    def say(self, stream_id: str, text: str) -> list[HarnessEvent]:
        """Add a piece of text."""
        draft = self.draft
        if draft is None:
            return []
        stream = self.texts.get(stream_id)
        if stream is None:
            stream = self.texts[stream_id] = TextStream(draft.begin(TextPart(text="")), [])
            self.has_spoken = True
        stream.pieces.append(text)
        draft.write(stream.place, text)
        return [TextPart(text=text), *self.update()]

    def think(self, stream_id: str, text: str) -> list[HarnessEvent]:
        draft = self.draft
        if draft is None:
            return []
        place = self.thoughts.get(stream_id)
        if place is None:
            place = self.thoughts[stream_id] = draft.begin(ThinkingPart(thinking=""))
        draft.write(place, text)
        return [ThinkingPart(thinking=text), *self.update()]

    def withdraw(self, stream_id: str) -> list[HarnessEvent]:
        stream = self.texts.pop(stream_id, None)
        if stream is None or self.draft is None:
            return []
        self.draft.rewrite(stream.place, None)
        return self.update()

    def leave_open_texts(self) -> None:
        """What is written next is new, also under an id that was used before."""
        self.texts, self.streamed = {}, {}

    def not_streamed(self, stream_id: str, text: str) -> str:
        """The part of a complete text that is not in a message that has ended."""
        return text.removeprefix(self.streamed.pop(stream_id, "")) if self.streamed else text

    def complete(self, stream_id: str, text: str) -> list[HarnessEvent]:
        """A text is complete: emit what was not streamed of it."""
        self.thoughts.pop("", None)
        stream = self.texts.pop(stream_id, None)
        if stream is not None:
            streamed_text = "".join(stream.pieces)
            if text.startswith(streamed_text):
                rest = text[len(streamed_text) :]
                self.texts[stream_id] = stream
                events = self.say(stream_id, rest) if rest else []
                self.texts.pop(stream_id, None)
                return events
            if stream_id or streamed_text.strip() == text.strip():
                # The same text, with its end trimmed or redacted differently.
                if self.draft is not None:
                    self.draft.rewrite(stream.place, text)
                return self.update()
        if not text:
            return []
        self.has_spoken = True
        return self.add([TextPart(text=text)], len(text))

    def end_inputs(self) -> list[HarnessEvent]:
        """End all arguments that are being streamed."""
        open_inputs, self.inputs = self.inputs, {}
        return [wire.ToolInputEndEvent(tool_call_id=call_id) for call_id in open_inputs]


class ChildRun(msgspec.Struct):
    """A run inside another run, or on a fork: shown as the sub-agent of a call."""

    tool_call_id: str
    agent_type: str
    started_ms: int
    is_fork: bool = False
    calls: dict[str, str] = {}
    """Names of the tools, by call id."""

    def say(self, text: str) -> list[HarnessEvent]:
        return [self._delta(text)] if text else []

    def start_call(self, call_id: str, name: str, arguments: object) -> list[HarnessEvent]:
        if call_id in self.calls or (self.is_fork and name == "subagent"):
            return []
        self.calls[call_id] = name
        start = wire.SubagentToolStartEvent(
            tool_call_id=self.tool_call_id,
            agent_type=self.agent_type,
            sub_tool_name=name,
            sub_tool_args=arguments,
        )
        return [start]

    def end_call(self, call_id: str, result: object, *, is_error: bool) -> list[HarnessEvent]:
        name = self.calls.pop(call_id, None)
        if name is None:
            return []
        end = wire.SubagentToolEndEvent(
            tool_call_id=self.tool_call_id,
            agent_type=self.agent_type,
            sub_tool_name=name,
            sub_tool_result=result,
            is_error=is_error,
        )
        return [end]

    def end(self, result: str, duration_ms: int, *, is_error: bool) -> list[HarnessEvent]:
        end = wire.SubagentEndEvent(
            tool_call_id=self.tool_call_id,
            agent_type=self.agent_type,
            result=result,
            is_error=is_error,
            duration_ms=duration_ms,
        )
        return [end]

    def stop(self, text: str = "", duration_ms: int = 0) -> list[HarnessEvent]:
        """The user stopped it, which is not an error."""
        return self.end(aborted_output(text), duration_ms, is_error=False)

    def cut_off(self, *, is_stopped: bool) -> list[HarnessEvent]:
        """The run that started it has ended before it."""
        return self.stop() if is_stopped else self.end("", 0, is_error=True)

    def _delta(self, text: str) -> HarnessEvent:
        return wire.SubagentTextDeltaEvent(
            tool_call_id=self.tool_call_id, agent_type=self.agent_type, text_delta=text
        )


# Text, reasoning, complete messages, and why the model stopped.

_CUT_OFF = {
    "length": "the answer was cut off: it reached the greatest length that the model may write",
    "refusal": "the answer was held back by the provider's content filter",
}
_SAME = {"max_tokens": "length", "content_filter": "refusal", "content-filter": "refusal"}


def _text(run: TopRun, event: TextDelta) -> Sequence[HarnessEvent]:
    return [*run.begin_message(event), *run.say(event.id, event.text)] if event.text else ()


def _reasoning(run: TopRun, event: ReasoningDelta) -> Sequence[HarnessEvent]:
    return [*run.begin_message(event), *run.think(event.id, event.text)] if event.text else ()


def _message(run: TopRun, event: Message) -> Sequence[HarnessEvent]:
    files, text = files_of(event.parts or ()), run.not_streamed(event.id, event.text)
    events = run.begin_message(event) if text or files else []
    return [*events, *run.complete(event.id, text), *run.add(files), *run.end_inputs()]


def _step_start(run: TopRun, event: StepStart) -> Sequence[HarnessEvent]:
    del event
    run.cut_off = ""
    return ()


def _step_end(run: TopRun, event: StepEnd) -> Sequence[HarnessEvent]:
    reason = event.stop_reason.lower()
    run.cut_off = _CUT_OFF.get(_SAME.get(reason, reason), "")
    if not run.cut_off:
        return ()
    run.failure = run.cut_off
    return (wire.ErrorEvent(error=wire.Problem(message=run.cut_off), error_type=event.stop_reason),)


SPEECH: Mapping[type[Event], Callable[[TopRun, Any], Sequence[HarnessEvent]]] = {
    TextDelta: _text,
    ReasoningDelta: _reasoning,
    Message: _message,
    StepStart: _step_start,
    StepEnd: _step_end,
}
