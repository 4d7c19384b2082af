"""What runs have finished: messages, reasoning and calls, put together from their pieces.

    TextDelta … TextDelta ─▶ Message            the whole message counts; its pieces are dropped
    TextDelta ─▶ its withdrawal                 as if it had never been said
    Result                                      its text, if the run has said nothing else
    ReasoningDelta … ─▶ what the run does next  a thought
    ToolStart ─▶ ToolEnd                        a call

What a run has left open is finished with it, or with the log: a text that was cut off, a call without an end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from harness.events import Event, Message, ReasoningDelta, TextDelta, ToolEnd, ToolStart
from harness.log.run_tree import RunTree


class Thought(NamedTuple):
    run_id: str
    text: str


class FinishedCall(NamedTuple):
    start: ToolStart
    """Where the log has none: one with the names that the end has."""
    end: ToolEnd | None
    """None: the run has ended before it."""


Finished: TypeAlias = Message | Thought | FinishedCall


class FinishedFold:
    """`tree` has been fed each event before."""

    def __init__(self, tree: RunTree) -> None:
        self._tree = tree
        self._texts: dict[tuple[str, str], list[TextDelta]] = {}
        """Pieces of messages that are not complete yet, and may never be: by run and id."""
        self._thoughts: dict[str, list[str]] = {}
        """By run: reasoning that has not been followed by anything else."""
        self._calls: dict[tuple[str, str], ToolStart] = {}
        self._handlers: dict[type[Event], Callable[[Any], Sequence[Finished]]] = {
            TextDelta: self._on_text,
            ReasoningDelta: self._on_reasoning,
            Message: self._on_message,
            ToolStart: self._on_call,
            ToolEnd: self._on_call_end,
        }

    def feed(self, event: Event) -> Sequence[Finished]:
        tree, handler = self._tree, self._handlers.get(type(event))
        if tree.withdrawn is not None:
            self._texts.pop((event.run_id, tree.withdrawn), None)
        of_event = handler(event) if handler is not None else ()
        if tree.restarted:
            return self._open_texts(tree.run.id)
        if not tree.ended:
            return of_event
        leftovers = [item for run in tree.ended for item in self._open(run.id)]
        is_answer = tree.said is not None and tree.said is not event
        return [*leftovers, *of_event, *((tree.said,) if tree.said is not None and is_answer else ())]

    def finish(self) -> Sequence[Finished]:
        run_ids = (*self._thoughts, *(run_id for run_id, _ in (*self._texts, *self._calls)))
        return [item for run_id in dict.fromkeys(run_ids) for item in self._open(run_id)]

    def _on_text(self, event: TextDelta) -> Sequence[Finished]:
        self._texts.setdefault((event.run_id, event.id), []).append(event)
        return ()

    def _on_reasoning(self, event: ReasoningDelta) -> Sequence[Finished]:
        self._thoughts.setdefault(event.run_id, []).append(event.text)
        return ()

    def _on_message(self, event: Message) -> Sequence[Finished]:
        self._texts.pop((event.run_id, event.id), None)
        return [*self._thought(event.run_id), event]

    def _on_call(self, event: ToolStart) -> Sequence[Finished]:
        self._calls[event.run_id, event.call_id] = event
        return self._thought(event.run_id)

    def _on_call_end(self, event: ToolEnd) -> Sequence[Finished]:
        start = self._calls.pop((event.run_id, event.call_id), None)
        if start is None:
            start = ToolStart(call_id=event.call_id, tool_name=event.tool_name, run_id=event.run_id)
        return [FinishedCall(start, event)]

    def _thought(self, run_id: str) -> Sequence[Finished]:
        text = "".join(self._thoughts.pop(run_id, ())).strip()
        return [Thought(run_id, text)] if text else ()

    def _open(self, run_id: str) -> Sequence[Finished]:
        thought = self._thought(run_id)
        messages = self._open_texts(run_id)
        calls = [self._calls.pop(key) for key in [*self._calls] if key[0] == run_id]
        return [*thought, *messages, *(FinishedCall(start, None) for start in calls)]

    def _open_texts(self, run_id: str) -> list[Message]:
        return [_joined(self._texts.pop(key)) for key in [*self._texts] if key[0] == run_id]


def _joined(pieces: Sequence[TextDelta]) -> Message:
    first, text = pieces[0], "".join(piece.text for piece in pieces)
    at_ms = first.timestamp_ms
    return Message(role="assistant", text=text, run_id=first.run_id, id=first.id, timestamp_ms=at_ms)
