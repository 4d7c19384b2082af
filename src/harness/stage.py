"""The one shape on both sides of the log.

A translator turns native records into events; a view turns events into something to
read. Both are stages: a function of what was fed so far, with no I/O, no clock and no
random ids, so that feeding the same items again always gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from harness.events import Event

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


class Stage(Protocol[In_contra, Out_co]):
    """Contract: `feed` never raises on what the far side wrote; `finish` is called once, last."""

    def feed(self, item: In_contra, /) -> Sequence[Out_co]: ...

    def finish(self) -> Sequence[Out_co]: ...


class Fold(Stage[In_contra, Out_co], Protocol[In_contra, Out_co]):
    """A stage that has a value.

    Contract: `restore(snapshot())` and then the remaining items gives the same value as
    all items from the beginning.
    """

    @property
    def value(self) -> Any: ...

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any, /) -> None: ...


View: TypeAlias = Stage[Event, bytes]
"""A view that is read as text. Every module of `views/` has `open(options) -> View`."""


class Aside(bytes):
    """A piece that belongs on the error stream, beside the output."""


class ModelInput(NamedTuple):
    """What an agent has sent to its model, where a gateway recorded it."""

    tools: Sequence[Mapping[str, Any]] = ()
    """What the model could call, each once, as functions of OpenAI's API."""
    requests: Mapping[str, Mapping[str, Any]] = {}
    """By the id of the `ModelCall`: each without what the one before it in its conversation had."""


class ViewOptions(NamedTuple):
    """What a reader may choose; a view takes what concerns it and ignores the rest."""

    usage: bool = False
    """Show tokens and cost as they come, where that is optional."""
    reasoning: bool = False
    """Show the model's reasoning, where that is optional."""
    content: bool = False
    """Texts, arguments and results too, in a view that leaves them out unless asked."""
    human: bool = False
    """Read by a person, not by a program: a view that has two forms gives the readable one."""
    color: bool = False
    width: int = 100
    live: bool = False
    """Written to a terminal while the run is active: progress may be shown."""
    model_input: Callable[[], ModelInput] | None = None
    """What a gateway recorded of the agent's model calls: asked at the end, by a view that shows it."""


def feed_all(stage: Stage[In_contra, Out_co], items: Sequence[In_contra]) -> Sequence[Out_co]:
    """The same as `feed` with each. Uses the stage's own `feed_all` where it has one."""
    at_once: Callable[[Sequence[In_contra]], Sequence[Out_co]] | None = getattr(stage, "feed_all", None)
    return at_once(items) if at_once is not None else [out for item in items for out in stage.feed(item)]


def run_through(stage: Stage[In_contra, Out_co], items: Iterable[In_contra]) -> list[Out_co]:
    """Feed everything, finish, and return all that came out."""
    out: list[Out_co] = []
    for item in items:
        out.extend(stage.feed(item))
    out.extend(stage.finish())
    return out
