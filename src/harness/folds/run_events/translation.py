"""Translates a log into events that name their run.

Rules
1. The output of a model during a step is emitted under the step's id, below the run that asked; without steps it
   is emitted under the run's own id.
2. A call that a model asks for in a step is emitted twice: as requested, under the step and the model's own id,
   and as carried out, under the run and the id of the log. A call that was refused has only its result there.
3. No two streams share an id: an id that is used again, in this or another run, gets a number.
4. Warnings, tasks, steering and the like are not emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    TextDelta,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Usage,
    UsageDelta,
)
from harness.folds.run_events import events as wire
from harness.folds.run_events.events import (
    WireEvent,
    denial,
    outcome_of,
    question_of,
    requested_calls,
    user_content,
)
from harness.formatting.approval import choices_data, every_call, preview_data
from harness.log.run_tree import RunNode as LogRun
from harness.log.run_tree import RunTree

# The ids under which each run is emitted, and what is still open in it.


class OpenRun(msgspec.Struct):
    run_id: str
    parent_id: str = ""
    speaker_id: str = ""
    speaker_parent_id: str = ""
    """The ids under which the model's output is emitted: those of the step, or of the run itself."""
    texts: dict[str, str] = {}
    reasonings: dict[str, str] = {}
    """The ids under which streams are emitted."""
    refused: dict[str, dict[str, Any]] = {}
    """Refused calls, with what is emitted as their result."""
    progress_pieces: dict[str, int] = {}
    """Of open calls."""
    snippets: int = 0
    """How many programs were run, in a run that works by writing programs."""
    pieces: int = 0
    """Pieces of output of the current program."""
    is_final: bool = False

    @property
    def is_in_step(self) -> bool:
        return self.speaker_id != self.run_id

    def begin(self, parent_id: str, depth: int, max_iterations: int | None) -> wire.HarnessStart:
        self.parent_id = parent_id
        self.speak_as("")
        return wire.HarnessStart(
            run_id=self.run_id, parent_id=parent_id, depth=depth, max_iterations=max_iterations
        )

    def speak_as(self, step_id: str) -> None:
        self.speaker_id = step_id or self.run_id
        self.speaker_parent_id = self.run_id if step_id else self.parent_id

    def forget_answer(self) -> None:
        """Close the streams of the model's last answer."""
        self.texts, self.reasonings, self.refused = {}, {}, {}

    def text(self, stream_id: str, content: str) -> wire.TextEvent:
        return wire.TextEvent(
            run_id=self.speaker_id, parent_id=self.speaker_parent_id, id=stream_id, content=content
        )

    def reasoning(self, stream_id: str, content: str) -> wire.ReasoningEvent:
        return wire.ReasoningEvent(
            run_id=self.speaker_id, parent_id=self.speaker_parent_id, id=stream_id, content=content
        )

    def retracted(self, stream_id: str) -> wire.RetractedEvent:
        return wire.RetractedEvent(run_id=self.speaker_id, parent_id=self.speaker_parent_id, id=stream_id)

    def request(self, call_id: str, name: str, arguments: Any) -> wire.ToolCallEvent:
        """A call as the model asks for it."""
        return wire.ToolCallEvent(
            run_id=self.speaker_id, parent_id=self.speaker_parent_id, id=call_id, name=name, input=arguments
        )

    def usage(self, tokens: Usage) -> wire.UsageEvent:
        prompt, answer = prompt_and_answer(tokens)
        return wire.UsageEvent(
            run_id=self.speaker_id,
            parent_id=self.speaker_parent_id,
            input_tokens=prompt,
            output_tokens=answer,
            cache_read_tokens=tokens.cache_read,
            cache_creation_tokens=tokens.cache_write,
        )

    def error(self, message: str) -> wire.RunErrorEvent:
        return wire.RunErrorEvent(run_id=self.speaker_id, parent_id=self.speaker_parent_id, message=message)

    def call(self, call_id: str, name: str, arguments: Any) -> wire.ToolCallEvent:
        """A call as it is carried out."""
        return wire.ToolCallEvent(
            run_id=self.run_id, parent_id=self.parent_id, id=call_id, name=name, input=arguments
        )

    def progress(self, call_id: str, name: str, text: str) -> wire.ToolProgressEvent:
        piece = self.progress_pieces[call_id] = self.progress_pieces.get(call_id, 0) + 1
        return wire.ToolProgressEvent(
            run_id=self.run_id,
            parent_id=self.parent_id,
            id=f"{call_id}:progress:{piece}",
            tool_call_id=call_id,
            name=name,
            content=text,
        )

    def result(self, call_id: str, name: str, output: Any) -> wire.ToolResultEvent:
        return wire.ToolResultEvent(
            run_id=self.run_id, parent_id=self.parent_id, id=call_id, name=name, output=output
        )


def prompt_and_answer(tokens: Usage) -> tuple[int, int]:
    """Tokens of the whole prompt, cached or not, and of the whole answer."""
    prompt = (tokens.input or 0) + (tokens.cache_read or 0) + (tokens.cache_write or 0)
    return prompt, (tokens.output or 0) + (tokens.reasoning or 0)


class _State(msgspec.Struct):
    runs: dict[str, OpenRun] = {}
    streams: dict[str, int] = {}
    """How often each stream id was used."""


class WireTranslation:
    """Stage: event of a log → wire events. Its snapshot is plain data."""

    def __init__(self, tree: RunTree | None = None) -> None:
        """`tree`: the run tree of the same log, if another reader shares it."""
        self._tree = tree or RunTree()
        self._state = _State()
        self._handlers: Mapping[type[Event], Callable[[OpenRun, Any], Sequence[WireEvent]]] = {
            SessionStart: _no_events,
            Result: self._on_result,
            StepStart: self._on_step_start,
            StepEnd: self._on_step_end,
            TextDelta: self._on_text,
            ReasoningDelta: self._on_reasoning,
            Message: self._on_message,
            ToolStart: self._on_tool_start,
            ToolProgress: self._on_tool_progress,
            ToolEnd: self._on_tool_end,
            Relay: self._on_relay,
            RelayReply: self._on_relay_reply,
            UsageDelta: self._on_usage,
            Error: self._on_error,
            ReplInput: self._on_repl_input,
            ReplProgress: self._on_repl_progress,
            ReplOutput: self._on_repl_output,
        }

    def feed(self, event: Event, /) -> Sequence[WireEvent]:
        node = self._tree.feed(event)
        handler = self._handlers.get(type(event)) if self._tree.withdrawn is None else self._on_withdrawal
        if handler is None:
            return ()
        run = self._run(event.run_id)
        is_start = type(event) is SessionStart
        if not self._tree.ended and not is_start:
            return handler(run, event)
        events: list[WireEvent] = [
            self._aborted(other) for other in self._tree.ended if other is not node and other.start
        ]
        if node.start is event and isinstance(event, SessionStart):
            events.append(run.begin(node.call_id, node.depth, event.max_turns))
        return [*events, *handler(run, event)]

    def finish(self) -> Sequence[WireEvent]:
        return ()

    def snapshot(self) -> dict[str, Any]:
        return {"tree": self._tree.snapshot(), "state": msgspec.to_builtins(self._state)}

    def restore(self, snapshot: dict[str, Any], /) -> None:
        self._state = msgspec.convert(snapshot["state"], _State)
        self._tree.restore(snapshot["tree"])

    def _run(self, run_id: str) -> OpenRun:
        run = self._state.runs.get(run_id)
        if run is None:
            run = self._state.runs[run_id] = OpenRun(run_id, speaker_id=run_id)
        return run

    def _aborted(self, node: LogRun) -> WireEvent:
        """The run ended without a `Result`."""
        run = self._state.runs.pop(node.id, None) or OpenRun(node.id, node.call_id)
        return wire.HarnessEnd(run_id=run.run_id, parent_id=run.parent_id, reason="aborted")

    def _on_result(self, run: OpenRun, event: Result) -> Sequence[WireEvent]:
        answer = self._tree.said
        events = [] if answer is None else [self._whole_text(run, "", answer.text)]
        del self._state.runs[run.run_id]
        run.speak_as("")
        reason = "aborted" if event.outcome == "interrupted" else ""
        if not run.snippets:
            return (*events, wire.HarnessEnd(run_id=run.run_id, parent_id=run.parent_id, reason=reason))
        if run.is_final:
            reason = "final"
        elif event.outcome == "limit_exceeded":
            reason = "max_iterations"
        end = wire.HarnessEnd(
            run_id=run.run_id,
            parent_id=run.parent_id,
            reason=reason,
            iterations=run.snippets if event.turns is None else event.turns,
            total_usage=None if event.usage is None else wire.TotalUsage(*prompt_and_answer(event.usage)),
        )
        return (*events, end)

    def _on_step_start(self, run: OpenRun, event: StepStart) -> Sequence[WireEvent]:
        run.speak_as(event.id)
        run.forget_answer()
        return ()

    def _on_step_end(self, run: OpenRun, event: StepEnd) -> Sequence[WireEvent]:
        del event
        run.speak_as("")
        return ()

    def _on_text(self, run: OpenRun, event: TextDelta) -> Sequence[WireEvent]:
        text = event.text
        if not text:
            return ()
        stream = run.texts.get(event.id)
        if stream is None:
            stream = run.texts[event.id] = self._new_stream(run, event.id, "text")
        return (run.text(stream, text),)

    def _on_reasoning(self, run: OpenRun, event: ReasoningDelta) -> Sequence[WireEvent]:
        if not event.text:
            return ()
        stream = run.reasonings.get(event.id)
        if stream is None:
            stream = run.reasonings[event.id] = self._new_stream(run, event.id, "reasoning")
        return (run.reasoning(stream, event.text),)

    def _on_withdrawal(self, run: OpenRun, event: Any) -> Sequence[WireEvent]:
        stream = run.texts.pop(event.id, None)
        return () if stream is None else (run.retracted(stream),)

    def _on_message(self, run: OpenRun, event: Message) -> Sequence[WireEvent]:
        if event.role == "user":
            return (wire.UserEvent(run_id=run.run_id, parent_id=run.parent_id, content=user_content(event)),)
        return self._answer(run, event) if event.role == "assistant" else ()

    def _answer(self, run: OpenRun, event: Message) -> Sequence[WireEvent]:
        events: list[WireEvent] = []
        run.reasonings.pop("", None)
        stream = run.texts.pop(event.id, None)
        rest = self._tree.rest(event)
        if rest is None and event.text:
            events.append(self._whole_text(run, event.id, event.text))
        elif stream is not None and rest:
            events.append(run.text(stream, rest))
        if event.parts and run.is_in_step:
            events += [run.request(call.id, call.name, call.input) for call in requested_calls(event.parts)]
        return events

    def _on_tool_start(self, run: OpenRun, event: ToolStart) -> Sequence[WireEvent]:
        if event.call_id in run.refused:
            return ()
        run.reasonings.pop("", None)
        return (run.call(event.call_id, event.tool_name, event.input),)

    def _on_tool_progress(self, run: OpenRun, event: ToolProgress) -> Sequence[WireEvent]:
        if not event.text:
            return ()
        name = self._tree.call.tool_name if self._tree.call is not None else ""
        return (run.progress(event.call_id, name, event.text),)

    def _on_tool_end(self, run: OpenRun, event: ToolEnd) -> Sequence[WireEvent]:
        run.progress_pieces.pop(event.call_id, None)
        denied = run.refused.pop(event.call_id, None)
        return (run.result(event.call_id, event.tool_name, denied or outcome_of(event)),)

    def _on_relay(self, run: OpenRun, event: Relay) -> Sequence[WireEvent]:
        relay = wire.RelayEvent(
            run_id=run.run_id,
            parent_id=run.parent_id,
            kind=event.kind,
            id=event.id,
            tool_call_id=event.call_id,
            tool=event.tool_name,
            params=question_of(event),
            options=choices_data(event),
            preview=preview_data(event),
            calls=every_call(event),
            subagent=event.subagent,
        )
        return (relay,)

    def _on_relay_reply(self, run: OpenRun, event: RelayReply) -> Sequence[WireEvent]:
        # A refusal without an approval request has the id of the call itself.
        question = next(iter(self._tree.relays), None)
        run_id, call_id = (run.run_id, event.id) if question is None else (question.run_id, question.call_id)
        if call_id and not event.approved:
            self._run(run_id).refused[call_id] = denial(event.reason)
        return ()

    def _on_usage(self, run: OpenRun, event: UsageDelta) -> Sequence[WireEvent]:
        return (run.usage(event.usage),)

    def _on_error(self, run: OpenRun, event: Error) -> Sequence[WireEvent]:
        return (run.error(event.message),)

    def _on_repl_input(self, run: OpenRun, event: ReplInput) -> Sequence[WireEvent]:
        run.snippets += 1
        run.pieces = 0
        code = wire.ReplInputEvent(
            run_id=run.run_id,
            parent_id=run.parent_id,
            id=event.id,
            code=event.code,
            iteration=event.iteration,
        )
        return (code,)

    def _on_repl_progress(self, run: OpenRun, event: ReplProgress) -> Sequence[WireEvent]:
        run.pieces += 1
        printed = wire.ReplProgressEvent(
            run_id=run.run_id,
            parent_id=run.parent_id,
            id=f"{event.id}:{run.pieces}",
            chunk=event.text,
            stream=event.stream,
        )
        return (printed,)

    def _on_repl_output(self, run: OpenRun, event: ReplOutput) -> Sequence[WireEvent]:
        run.is_final = event.done
        output = wire.ReplOutputEvent(
            run_id=run.run_id,
            parent_id=run.parent_id,
            id=event.id,
            stdout=event.stdout,
            error=event.error,
            done=event.done,
            iteration=event.iteration,
            duration_ms=event.duration_ms,
            truncated=event.truncated,
        )
        return (output,)

    def _whole_text(self, run: OpenRun, stream_id: str, text: str) -> WireEvent:
        return run.text(self._new_stream(run, stream_id, "text"), text)

    def _new_stream(self, run: OpenRun, stream_id: str, kind: str) -> str:
        name = stream_id or f"{run.speaker_id}:{kind}"
        counts = self._state.streams
        times = counts[name] = counts.get(name, 0) + 1
        return name if times == 1 else f"{name}:{times}"


def _no_events(run: OpenRun, event: Event) -> Sequence[WireEvent]:
    del run, event
    return ()
