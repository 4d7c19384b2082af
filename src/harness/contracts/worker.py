"""Workers carry out a run: a supervised process, or a loop in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from harness.events import Event, Operation, RelayReply, Result, SessionStart

OnEnd: TypeAlias = Callable[[Result, SessionStart | None], None]
"""Called by a worker, last, with the run's `Result` and its first event."""
BeforeWork: TypeAlias = Callable[[Sequence[Sequence[Operation]]], Awaitable[None]]
"""Awaited ahead of calls, with what they mean to do: nothing is changed before it returns."""


class Worker(Protocol):
    """Contract: `work` runs once, in the run's own thread, and appends events until the run's `Result`;
    `stop` may be called at any time, from any thread, and again to stop with more force.
    """

    @property
    def result(self) -> Result | None: ...

    def work(self) -> None: ...

    def stop(self) -> None: ...


@runtime_checkable
class Steerable(Protocol):
    is_steerable: bool
    """Whether it takes messages now, as far as is known."""

    def steer(self, text: str, message_id: str = "") -> None:
        """Give the run another message, taken at its next boundary. From any thread."""
        ...


@runtime_checkable
class Announcing(Protocol):
    """It says ahead of its calls what they mean to do."""

    before_work: BeforeWork | None


@runtime_checkable
class EventNoter(Protocol):
    def note(self, event: Event) -> bool:
        """Put an event of somebody else into the log of the run. False when it is over. From any thread."""
        ...


@runtime_checkable
class Answerable(Protocol):
    def reply(self, reply: RelayReply) -> bool:
        """Answer a `Relay`. False when nothing of that id waits (any more). From any thread."""
        ...
