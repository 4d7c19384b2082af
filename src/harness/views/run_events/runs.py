"""Under which ids each run of a log is told, and what of it is still open."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.events import Usage
from harness.views.run_events import events as wire


class OpenRun(msgspec.Struct):
    run_id: str
    parent_id: str = ""
    speaker_id: str = ""
    speaker_parent_id: str = ""
    """Under which ids the model is told: those of the step, or of the run itself."""
    texts: dict[str, str] = {}
    reasonings: dict[str, str] = {}
    """Under which ids streams are told."""
    refused: dict[str, dict[str, Any]] = {}
    """Calls that may not be carried out, with what is told as their result."""
    progress_pieces: dict[str, int] = {}
    """Of open calls."""
    snippets: int = 0
    """Programs that were run, in a run that works by writing programs."""
    pieces: int = 0
    """Of the output of the present one."""
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
        """What the model said last is done with."""
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

    def usage(self, used: Usage) -> wire.UsageEvent:
        prompt, answer = prompt_and_answer(used)
        return wire.UsageEvent(
            run_id=self.speaker_id,
            parent_id=self.speaker_parent_id,
            input_tokens=prompt,
            output_tokens=answer,
            cache_read_tokens=used.cache_read,
            cache_creation_tokens=used.cache_write,
        )

    def error(self, message: str) -> wire.ErrorEvent:
        return wire.ErrorEvent(run_id=self.speaker_id, parent_id=self.speaker_parent_id, message=message)

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


def prompt_and_answer(used: Usage) -> tuple[int, int]:
    """Tokens of the whole prompt, cached or not, and of all that came back."""
    prompt = (used.input or 0) + (used.cache_read or 0) + (used.cache_write or 0)
    return prompt, (used.output or 0) + (used.reasoning or 0)
