"""What was said and done in a log, as another agent can continue it: prompts, answers, and calls with their results.

Of a sub-agent only the result of its call is taken. Every call has exactly one result; one that never came is marked
as missing. Reasoning is left out, because it is bound to its provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.events import (
    Compacted,
    Event,
    Message,
    Operation,
    ReasoningDelta,
    Result,
    SessionStart,
    Signal,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolStart,
)
from harness.log.run_tree import RunTree

NO_RESULT = "[interrupted: this call has no result]"
NO_OUTPUT = "(no output)"
_CALL = "tool_call"
"""A part of a message that the log has as an event of its own."""
_SUMMARY = "[Summary of what was said before]"


class HandedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said."""

    text: str
    at_ms: int = 0


class HandedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its result."""

    tool_name: str
    input: Any = None
    operations: tuple[Operation, ...] = ()
    output: str = NO_RESULT
    has_failed: bool = True
    exit_code: int | None = None
    at_ms: int = 0
    ended_ms: int = 0


class HandedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a model: words, then calls. At least one of them."""

    text: str = ""
    calls: tuple[HandedCall, ...] = ()
    at_ms: int = 0


HandedTurn: TypeAlias = HandedPrompt | HandedAnswer


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """What of the log is not in the conversation, or not as it was."""

    reasoning: bool = False
    files: int = 0
    """Images and documents."""
    sub_agents: int = 0
    no_result: int = 0
    """Calls whose result never came."""
    shortened: int = 0
    """Outputs and inputs of calls."""
    left_out: int = 0
    """The oldest messages."""
    is_compacted: bool = False
    """A summary of the agent stands for what came before it."""
    masked: int = 0


class HandedConversation(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    """The last that worked in it."""
    version: str = ""
    session_id: str = ""
    """The agent's own, or that of the log."""
    cwd: str = ""
    model: str = ""
    turns: tuple[HandedTurn, ...] = ()
    losses: Losses = Losses()

    @property
    def calls(self) -> list[HandedCall]:
        return [call for turn in self.turns if isinstance(turn, HandedAnswer) for call in turn.calls]

    @property
    def prompts(self) -> list[HandedPrompt]:
        return [turn for turn in self.turns if isinstance(turn, HandedPrompt)]

    @property
    def started_ms(self) -> int:
        return self.turns[0].at_ms if self.turns else 0

    @property
    def ended_ms(self) -> int:
        calls = [call.ended_ms for call in self.calls]
        return max((*calls, *(turn.at_ms for turn in self.turns)), default=0)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with `change` applied to each of its texts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: with_texts(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_texts(inner, change) for inner in value]
    return value


def conversation_of(events: Iterable[Event]) -> HandedConversation:
    fold = ConversationFold()
    for event in events:
        fold.feed(event)
    return fold.finish()


class ConversationFold:
    """Events of a log in, the conversation out. Never raises on what a log holds."""

    def __init__(self) -> None:
        self._about = HandedConversation(agent="")
        self._losses = Losses()
        self._turns: list[HandedTurn] = []
        self._text = ""
        """Of the answer that is open."""
        self._text_ms = 0
        self._calls: dict[str, HandedCall] = {}
        """Of the answer that is open."""
        self._waiting: set[str] = set()
        """Calls of it that have no result yet."""
        self._held: list[HandedTurn] = []
        """Said while calls were open."""
        self._pieces: dict[str, str] = {}
        """Streamed texts whose whole has not come."""
        self._tree = RunTree()
        self._children: set[str] = set()
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            SessionStart: self._on_start,
            Message: self._on_message,
            Signal: self._on_signal,
            TextDelta: self._on_piece,
            TextRetracted: self._on_retracted,
            ReasoningDelta: self._on_reasoning,
            ToolStart: self._on_call,
            ToolEnd: self._on_call_end,
            Compacted: self._on_compacted,
            Result: self._on_result,
        }

    def feed(self, event: Event) -> None:
        tree = self._tree
        run = tree.feed(event)
        if run.depth:
            if tree.began:
                self._children.add(run.id)
            return
        if tree.began or (tree.ended and not isinstance(event, Result)):
            self._end_answer()
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def finish(self) -> HandedConversation:
        self._end_answer()
        turns = [turn for turn in self._turns if isinstance(turn, HandedPrompt) or turn.text or turn.calls]
        children = len(self._children)
        return replace(self._about, turns=tuple(turns), losses=replace(self._losses, sub_agents=children))

    def _on_start(self, event: SessionStart) -> None:
        about = self._about
        self._about = replace(
            about,
            agent=event.agent or about.agent,
            version=event.version or (about.version if event.agent == about.agent else ""),
            session_id=event.session_id or about.session_id,
            cwd=event.cwd or about.cwd,
            model=event.model or about.model,
        )

    def _on_message(self, event: Message) -> None:
        self._note_files(event.parts)
        if event.role == "user":
            text = event.text or ("[a file, which is left out]" if event.parts else "")
            if text:
                self._add_prompt(HandedPrompt(text=text, at_ms=event.timestamp_ms))
        elif event.role == "assistant":
            self._pieces.pop(event.id, None)
            self._answer(event.text, event.timestamp_ms)

    def _on_signal(self, event: Signal) -> None:
        if event.category == "user" and isinstance(event.contents, str) and event.contents:
            self._add_prompt(HandedPrompt(text=event.contents, at_ms=event.timestamp_ms))

    def _answer(self, text: str, at_ms: int) -> None:
        if not text.strip():
            return
        if self._waiting:
            self._held.append(HandedAnswer(text=text, at_ms=at_ms))
            return
        self._close()
        self._text, self._text_ms = text, at_ms

    def _add_prompt(self, prompt: HandedPrompt) -> None:
        if self._waiting:
            self._held.append(prompt)
            return
        self._end_answer()
        self._turns.append(prompt)

    def _on_piece(self, event: TextDelta) -> None:
        self._pieces[event.id] = self._pieces.get(event.id, "") + event.text
        self._text_ms = self._text_ms or event.timestamp_ms

    def _on_retracted(self, event: TextRetracted) -> None:
        self._pieces.pop(event.id, None)

    def _on_reasoning(self, _event: ReasoningDelta) -> None:
        self._losses = replace(self._losses, reasoning=True)

    def _on_call(self, event: ToolStart) -> None:
        if self._calls and not self._waiting:
            self._close()
        self._waiting.add(event.call_id)
        self._calls[event.call_id] = HandedCall(
            tool_name=event.tool_name,
            input=event.input,
            operations=tuple(event.operations),
            at_ms=event.timestamp_ms,
            ended_ms=event.timestamp_ms,
        )

    def _on_call_end(self, event: ToolEnd) -> None:
        call = self._calls.get(event.call_id)
        if call is None or event.call_id not in self._waiting:
            return
        self._note_files(event.parts)
        self._waiting.discard(event.call_id)
        is_missing = event.output is None and event.success is None
        self._calls[event.call_id] = replace(
            call,
            operations=call.operations if event.operations is None else tuple(event.operations),
            output=NO_RESULT if is_missing else event.output or NO_OUTPUT,
            has_failed=event.has_failed,
            exit_code=event.exit_code,
            ended_ms=event.timestamp_ms,
        )
        if is_missing:
            self._losses = replace(self._losses, no_result=self._losses.no_result + 1)
        if not self._waiting and self._held:
            self._close()

    def _on_compacted(self, event: Compacted) -> None:
        """Where the summary is not in the log, all that was said is better than nothing."""
        if event.summary:
            self._end_answer()
            self._turns = [HandedPrompt(text=f"{_SUMMARY}\n\n{event.summary}", at_ms=event.timestamp_ms)]
            self._losses = replace(self._losses, is_compacted=True)

    def _on_result(self, event: Result) -> None:
        if self._tree.answer_in_result:
            self._answer(event.text, event.timestamp_ms)
        self._end_answer()

    def _note_files(self, parts: list[Any] | None) -> None:
        files = [part for part in parts or () if not isinstance(part, dict) or part.get("type") != _CALL]
        self._losses = replace(self._losses, files=self._losses.files + len(files))

    def _end_answer(self) -> None:
        """Also of what is open: text that was cut off, and calls without a result."""
        pieces, self._pieces = "".join(self._pieces.values()), {}
        missing = len(self._waiting)
        self._losses = replace(self._losses, no_result=self._losses.no_result + missing)
        self._waiting.clear()
        self._close()
        if pieces.strip():
            self._turns.append(HandedAnswer(text=pieces, at_ms=self._text_ms))

    def _close(self) -> None:
        """The answer that is open becomes a turn, and what was held follows."""
        calls, self._calls = tuple(self._calls.values()), {}
        text, self._text = self._text, ""
        if text or calls:
            at_ms = self._text_ms if text else calls[0].at_ms
            self._turns.append(HandedAnswer(text=text, calls=calls, at_ms=at_ms))
        self._text_ms = 0
        held, self._held = self._held, []
        self._turns += held
