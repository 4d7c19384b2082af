"""What a memory is given of a conversation: its entries in order, and the step that is about to be made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from harness.sources.model import AssistantTurn, ToolTurn, Turn


class Entry(Protocol):
    """One turn of a conversation, and where it stands in the log.

    Contract: an entry that comes later than a step has a higher `seq` than all entries of that step.
    """

    @property
    def turn(self) -> Turn: ...

    @property
    def message_id(self) -> str: ...

    @property
    def created_ms(self) -> int: ...

    @property
    def seq(self) -> int: ...


class Step(Protocol):
    """A model is about to be asked. Contract: entries only grow, and unchanged ones stay the same objects."""

    @property
    def entries(self) -> Sequence[Entry]: ...

    @property
    def step_number(self) -> int:
        """0 is the first of a run."""

    @property
    def model(self) -> object:
        """A `Model`, or the name of one."""


def model_name(step: Step) -> str:
    return str(getattr(step.model, "name", step.model) or "")


def has_open_calls(entries: Sequence[Entry]) -> bool:
    """Whether the last answer waits for results: what belongs together must not be torn apart."""
    answered: set[str] = set()
    for entry in reversed(entries):
        turn = entry.turn
        if isinstance(turn, ToolTurn):
            answered.add(turn.call_id)
        elif isinstance(turn, AssistantTurn):
            return any(call.id not in answered for call in turn.calls)
    return False


def starts_group(entry: Entry) -> bool:
    """Whether a conversation may be cut before this entry: never between a call and its result."""
    return not isinstance(entry.turn, ToolTurn)
