"""Where logs are kept: the contract that memory, files and any other store fulfil.

Contract (proved for every store by `harness.testing.stores`)
- One writer per log, any number of readers, in any process where the store allows it.
- `append` hands events over whole and in order, or raises OSError and keeps nothing of them.
- What a reader is given was handed to the store before; reading from cursor N begins with the
  event whose `seq` is N, and goes on without a gap or a repetition.
- A writer that died leaves its log free at once and readable up to its last whole event.
- A fork is (another log, `seq`) and its own events, never a copy: reading it gives the other log's
  events below that `seq`, then its own. A log that has forks is hidden when it is deleted, and is
  removed with the last of them.
- A log's id is any text of 1 to 128 letters, digits, `_` and `-`; no other id names anything.
- Snapshots are a cache: any of them may be gone at any time.
- Where the storage fails, `append` raises OSError, everything else StoreError, and the same call works
  again when the storage does.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import msgspec

from harness.events import Event, Usage


class Writer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who writes, or wrote last."""

    pid: int
    host: str


class Fork(msgspec.Struct, frozen=True):
    """Where a log leaves another one: it begins with that log's events below `seq`."""

    log_id: str
    seq: int


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
    activity: Literal["", "running", "waiting"] = ""
    """Of a thread: whether a run goes on in it, or waits for somebody's answer. Where its writer died, `running`
    is what it last said."""
    agent_session_id: str = ""
    version: str = ""
    total_cost_usd: float | None = None
    cost_source: Literal["", "computed"] = ""
    """Where the cost was computed from prices."""
    name: str = ""
    """What a person calls it; of a thread its title."""
    tags: list[str] = msgspec.field(default_factory=list)
    writer: Writer | None = None
    kind: Literal["run", "thread"] = "run"
    """A thread is a conversation of many runs."""
    resource_id: str = ""
    """Whose thread it is: a person, a project, whatever the application groups by."""
    created_ms: int = 0
    """Where it is 0, `create` sets it."""
    updated_ms: int = 0
    """Where it is 0, `create` sets it. `find` gives the time of the last event where that is later."""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """The thread's own: mode, models, whatever the application keeps with it."""
    fork: Fork | None = None
    deleted: bool = False
    """It is kept for its forks alone."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which logs `find` is asked for. What is left out does not matter."""

    kind: Literal["run", "thread"] | None = None
    resource_id: str | None = None
    text: str = ""
    """Each of its words occurs, in whatever case, in the prompt, the title or a message of the log itself
    (not of the log that it is a fork of)."""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Settings that have exactly these values."""
    without_settings: tuple[str, ...] = ()
    """Settings none of which is on."""
    include_forks: bool = True
    fork_of: str | None = None
    active: bool = False
    """Only those that wait for somebody's answer, or in which something goes on, or did when their writer died."""
    excluding: tuple[str, ...] = ()
    """Not the logs of these ids."""
    live_first: bool = False
    """Those that are being written come first; otherwise, and among them, the last changed comes first."""
    limit: int | None = None
    offset: int = 0


class LogWriter(Protocol):
    next_seq: int

    def append(self, events: Sequence[Event]) -> int:
        """Store them; returns about how many bytes they take. Raises OSError.

        Where one holds what cannot be stored (half a character), a list has afterwards, in its place, what was.
        """
        ...

    def close(self) -> None: ...


class LogReader(Protocol):
    def read(self, most: int = 1000) -> list[Event]:
        """The next events, at most that many; empty when there are no more at the moment."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    def create(self, metadata: Metadata) -> LogWriter:
        """A new log under `metadata.session_id`. Raises StoreError.

        With `metadata.fork` its writer begins at the `seq` of the fork. Raises UnknownSession where there is
        no such log, and StoreError where that log has not come so far.
        """
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

    def find(self, query: Query) -> builtins.list[Metadata]:
        """The logs that are asked for, the last changed first."""
        ...

    def total(self, query: Query) -> int:
        """How many `find` gives without a limit. Of very many that say some words it may be a few more, for not each
        is looked at.
        """
        ...

    def version(self) -> int | None:
        """Another number whenever `find` may answer otherwise than before; None where nobody knows."""
        ...

    def catch_up(self) -> None:
        """Get ready for `find`, which may take long; while that goes on, in another thread, `find` and `total` answer
        at once, from what is known so far, the last changed first.
        """
        ...

    def resource_ids(self) -> builtins.list[str]:
        """Of all logs, sorted, each once."""
        ...

    def messages(self, log_id: str, limit: int) -> int:
        """The `seq` from which the last `limit` messages can be read whole; a few more may come with them.

        What the agent says between two messages of the user is one message. Raises UnknownSession.
        """
        ...

    def usage(self, log_id: str) -> Usage:
        """What its own events say was used; a fork does not repeat what was used before. Raises UnknownSession."""
        ...

    def snapshot(self, log_id: str, name: str) -> tuple[int, bytes] | None:
        """The newest that was kept under this name, and the `seq` from which reading goes on.

        A fork gives the one of the log that it left, if that was made before. Raises UnknownSession.
        """
        ...

    def save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        """Keep it instead of an older one; not if the log has not come so far. Raises UnknownSession."""
        ...

    def watch(self, log_id: str, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` soon (≤ 100 ms) after any process has changed it; returns how to stop that.

        It is called from another thread, perhaps once for many changes, perhaps for none: whoever is woken
        looks for himself. Raises UnknownSession.
        """
        ...

    def close(self) -> None:
        """End all watching, and let go of what is held open for reading; asked again, it is opened again.

        Writers keep what they hold.
        """
        ...


def stamped(metadata: Metadata) -> Metadata:
    """The same object, with the times that nobody has given; so a later save of it has them too."""
    now_ms = time.time_ns() // 1_000_000
    metadata.created_ms = metadata.created_ms or now_ms
    metadata.updated_ms = metadata.updated_ms or now_ms
    return metadata


def read_all(store: Store, log_id: str, cursor: int = 0) -> Iterator[Event]:
    """Everything that is in the log now."""
    reader = store.reader(log_id, cursor)
    try:
        while batch := reader.read():
            yield from batch
    finally:
        reader.close()
