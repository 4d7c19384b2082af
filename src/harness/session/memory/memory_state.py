"""What all parts of one memory work on: how it is set up, what it knows, and the way into the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from harness.events import Event, ThreadRenamed
from harness.log.clock import new_clock
from harness.log.ids import new_run_id
from harness.session.memory.config import MemoryConfig
from harness.session.memory.record import Progress, RecordFold
from harness.session.memory.thresholds import maximum, message_threshold, retention_floor
from harness.session.memory.token_window import Window
from harness.session.memory.tokens import TokenCounter, estimated_tokens

Append: TypeAlias = Callable[[Event], Event | None]
"""Puts an event into the log of the thread at once; may give it back as it is there."""

_SHORTEST_TITLE = 3


class Notebook:
    def __init__(
        self,
        config: MemoryConfig,
        fold: RecordFold,
        append: Append,
        *,
        thread_id: str = "",
        resource_id: str = "",
        clock_ms: Callable[[], int] | None = None,
        new_id: Callable[[], str] | None = None,
        count: TokenCounter = estimated_tokens,
    ) -> None:
        self.config = config
        self.fold = fold
        self.thread_id = thread_id
        self.resource_id = resource_id
        self.clock_ms = clock_ms or new_clock()
        self.count = count
        self.window = Window(count)
        self.live: set[str] = set()
        """Cycles that are going on in this process."""
        self.extra_tokens = 0
        """Unobserved tokens of the resource's other threads."""
        self._append = append
        self._new_id = new_id or (lambda: new_run_id(self.clock_ms()))

    @property
    def key(self) -> str:
        """Under which the record keeps this thread."""
        return self.thread_id if self.config.scope == "resource" else ""

    @property
    def progress(self) -> Progress:
        return self.fold.progress(self.key)

    @property
    def pending(self) -> int:
        """Tokens that nobody has observed."""
        if not self.window.length:
            return self.progress.pending_tokens
        return self.window.tokens_after(self.progress.observed_seq) + self.extra_tokens

    @property
    def threshold(self) -> int:
        return message_threshold(self.config.message_threshold, self.fold.known.observation_tokens)

    @property
    def reflection_threshold(self) -> int:
        return maximum(self.config.reflection.observation_tokens)

    @property
    def floor(self) -> float:
        return retention_floor(self.config.observation.buffer_activation, self.threshold)

    def begin(self) -> str:
        """A new cycle, which is going on from now on."""
        cycle_id = self._new_id()
        self.live.add(cycle_id)
        return cycle_id

    def put(self, event: Event) -> None:
        """Into the log, and into what is known."""
        stamped = self._append(event)
        if stamped is None:
            stamped = replace(event, timestamp_ms=self.clock_ms())
        self.fold.feed(stamped, thread_id=self.key)

    def end(self, cycle_id: str, event: Event) -> None:
        self.live.discard(cycle_id)
        self.put(event)

    def rename(self, title: str, cycle_id: str) -> None:
        """Give the thread the title that was found, if it is one and is new."""
        title = " ".join(title.split())
        old = self.progress.title
        if len(title) >= _SHORTEST_TITLE and title != old:
            self.put(ThreadRenamed(title=title, old_title=old, cycle_id=cycle_id))
