"""Where logs are kept: the contract that memory, files and any other store fulfil.

Contract (proved for every store by `harness.testing.stores`)
- One writer per log, any number of readers, in any process where the store allows it.
- `append` hands events over whole and in order, or raises OSError and keeps nothing of them.
- What a reader is given was handed to the store before; reading from cursor N begins with the
  event whose `seq` is N, and goes on without a gap or a repetition.
- A writer that died leaves its log free at once and readable up to its last whole event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from harness.events import Event


class Writer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who writes, or wrote last."""

    pid: int
    host: str


class Metadata(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known of a log without reading it: the sidecar file."""

    session_id: str
    agent: str = ""
    """The agent's display name."""
    agent_name: str = ""
    prompt: str = ""
    model: str = ""
    cwd: str = ""
    start_time: str = ""
    """Seconds since the epoch."""
    duration_ms: int | None = None
    success: bool = False
    outcome: str = ""
    """Empty while the run is going on."""
    agent_session_id: str = ""
    version: str = ""
    total_cost_usd: float | None = None
    name: str = ""
    tags: list[str] = msgspec.field(default_factory=list)
    writer: Writer | None = None


class LogWriter(Protocol):
    next_seq: int

    def append(self, events: Sequence[Event]) -> int:
        """Store them; returns about how many bytes they take. Raises OSError."""
        ...

    def close(self) -> None: ...


class LogReader(Protocol):
    def read(self, most: int = 1000) -> list[Event]:
        """The next events, at most that many; empty when there are no more at the moment."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    def create(self, metadata: Metadata) -> LogWriter:
        """A new log under `metadata.session_id`. Raises StoreError."""
        ...

    def open(self, log_id: str) -> LogWriter:
        """An existing log, to append to. Repairs a torn end. Raises UnknownSession, LogLocked."""
        ...

    def reader(self, log_id: str, cursor: int = 0) -> LogReader:
        """Raises UnknownSession."""
        ...

    def is_live(self, log_id: str) -> bool:
        """Whether somebody is writing it now."""
        ...

    def metadata(self, log_id: str) -> Metadata:
        """Raises UnknownSession."""
        ...

    def save_metadata(self, metadata: Metadata) -> None:
        """Replace it as a whole, atomically."""
        ...

    def list(self) -> Iterator[Metadata]:
        """All logs, the newest first."""
        ...

    def delete(self, log_id: str) -> None:
        """Raises UnknownSession, or LogLocked while it is being written."""
        ...


def read_all(store: Store, log_id: str, cursor: int = 0) -> Iterator[Event]:
    """Everything that is in the log now."""
    reader = store.reader(log_id, cursor)
    try:
        while batch := reader.read():
            yield from batch
    finally:
        reader.close()
