"""A log as a conversation that another agent can continue: `contracts.conversation` has its types.

Of a sub-agent only the result of its call is taken. Every call has exactly one result; one that never came is marked
as missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from harness.contracts.conversation import (
    NO_OUTPUT,
    NO_RESULT,
    HandedAnswer,
    HandedCall,
    HandedConversation,
    HandedPrompt,
    HandedTurn,
    Losses,
)
from harness.events import (
    Compacted,
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    Signal,
    ToolEnd,
    ToolStart,
)
from harness.folds.finished import FinishedFold
from harness.log.run_tree import RunTree

_CALL = "tool_call"
"""A part of a message that the log has as an event of its own."""
_SUMMARY = "[Summary of what was said before]"


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
        self._late_turns: list[HandedTurn] = []
        """Said while calls were open."""
        self._tree = RunTree()
        self._finished = FinishedFold(self._tree)
        self._children: set[str] = set()
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            SessionStart: self._on_start,
            Signal: self._on_signal,
            ReasoningDelta: self._on_reasoning,
            ToolStart: self._on_call,
            ToolEnd: self._on_call_end,
            Compacted: self._on_compacted,
            Result: self._on_result,
        }

    def feed(self, event: Event) -> None:
        tree = self._tree
        run = tree.feed(event)
        finished = self._finished.feed(event)
        if run.depth:
            if tree.began:
                self._children.add(run.id)
            return
        if tree.began or (tree.ended and not isinstance(event, Result)):
            self._end_answer()
        for item in finished:
            if isinstance(item, Message) and not tree.depth(item.run_id):
                self._on_message(item)
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def finish(self) -> HandedConversation:
        for item in self._finished.finish():
            if isinstance(item, Message) and not self._tree.depth(item.run_id):
                self._on_message(item)
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
            self._answer(event.text, event.timestamp_ms)

    def _on_signal(self, event: Signal) -> None:
        if event.category == "user" and isinstance(event.contents, str) and event.contents:
            self._add_prompt(HandedPrompt(text=event.contents, at_ms=event.timestamp_ms))

    def _answer(self, text: str, at_ms: int) -> None:
        if not text.strip():
            return
        if self._waiting:
            self._late_turns.append(HandedAnswer(text=text, at_ms=at_ms))
            return
        self._close()
        self._text, self._text_ms = text, at_ms

    def _add_prompt(self, prompt: HandedPrompt) -> None:
        if self._waiting:
            self._late_turns.append(prompt)
            return
        self._end_answer()
        self._turns.append(prompt)

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
        if not self._waiting and self._late_turns:
            self._close()

    def _on_compacted(self, event: Compacted) -> None:
        """Where the summary is not in the log, all that was said is better than nothing."""
        if event.summary:
            self._end_answer()
            self._turns = [HandedPrompt(text=f"{_SUMMARY}\n\n{event.summary}", at_ms=event.timestamp_ms)]
            self._losses = replace(self._losses, is_compacted=True)

    def _on_result(self, _event: Result) -> None:
        self._end_answer()

    def _note_files(self, parts: list[Any] | None) -> None:
        files = [part for part in parts or () if not isinstance(part, dict) or part.get("type") != _CALL]
        self._losses = replace(self._losses, files=self._losses.files + len(files))

    def _end_answer(self) -> None:
        """Also if calls of it have no result."""
        missing = len(self._waiting)
        self._losses = replace(self._losses, no_result=self._losses.no_result + missing)
        self._waiting.clear()
        self._close()

    def _close(self) -> None:
        """The answer that is open becomes a turn, and what was held follows."""
        calls, self._calls = tuple(self._calls.values()), {}
        text, self._text = self._text, ""
        if text or calls:
            at_ms = self._text_ms if text else calls[0].at_ms
            self._turns.append(HandedAnswer(text=text, calls=calls, at_ms=at_ms))
        self._text_ms = 0
        late_turns, self._late_turns = self._late_turns, []
        self._turns += late_turns
