"""The order of a conversation, whether it is being made (`transcript`) or read from a log (`history`).

Rules
1. An answer of the model comes first, then the results of its calls in the order of the calls, then what was added
   meanwhile: steering, signals, files.
2. Additions wait while the model is being asked, and while calls are open. Otherwise they have their place at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

_Turn = TypeVar("_Turn")


class TurnOrder(Generic[_Turn]):
    """Calls `place` with one turn after the other, each as soon as its place is known."""

    __slots__ = ("additions", "has_answer", "is_in_step", "place", "results")

    def __init__(self, place: Callable[[_Turn], object]) -> None:
        self.place = place
        self.is_in_step = False
        """Whether the model is being asked."""
        self.has_answer = False
        """Whether the last turn with a place is an answer: calls of it, and results, may still come."""
        self.results: dict[str, _Turn | None] = {}
        """By call, in the order of the calls: what has no place yet. None: the call is open."""
        self.additions: list[_Turn] = []

    @property
    def has_open_calls(self) -> bool:
        return None in self.results.values()

    def begin_step(self) -> None:
        """The model is asked with everything that was said so far. No call is open."""
        self.settle()
        self.is_in_step = True

    def end_step(self) -> None:
        self.is_in_step = False
        self._release()

    def answer(self, turn: _Turn, calls: Iterable[str] = ()) -> None:
        """The model has answered, with these calls. No call of its answer before is open."""
        self.settle()
        self.place(turn)
        self.has_answer = True
        self.results = dict.fromkeys(calls)

    def result(self, call_id: str, turn: _Turn) -> None:
        """A call of the last answer has ended."""
        self.results[call_id] = turn
        self._release()

    def add(self, turn: _Turn) -> None:
        """Something was said that is no answer and no result."""
        if self.is_in_step or self.has_open_calls:
            self.additions.append(turn)
        else:
            self.settle()
            self.place(turn)

    def settle(self) -> None:
        """The last answer has all its results: place them, and then what was added, unless the model is being asked."""
        self.has_answer = False
        if self.results:
            results, self.results = self.results, {}
            for turn in results.values():
                assert turn is not None, "every call has a result before anything else follows"
                self.place(turn)
        if self.additions and not self.is_in_step:
            additions, self.additions = self.additions, []
            for addition in additions:
                self.place(addition)

    def _release(self) -> None:
        if self.additions and not self.is_in_step and not self.has_open_calls:
            self.settle()
