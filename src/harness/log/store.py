"""The contract of a store: memory, files, PostgreSQL, and any other that you write.

    store = FileStore("sessions")                       # or MemoryStore(), open_store("postgresql://…")
    writer = store.create(Metadata(session_id="s1"))    # one writer; usually behind a Hub, which stamps events
    writer.append([TextDelta(seq=0, text="hello")])
    for event in read_all(store, "s1"): ...             # any number of readers, in any process

A store of your own needs no base class: it has these methods, and passes `harness.testing.stores`.

Contract (proved for every store by `harness.testing.stores`)
- One writer per log, any number of readers, in any process where the store allows it.
- `append` stores all events, in order, or raises OSError and stores none of them.
- Reading from cursor N begins with the event whose `seq` is N, and continues without a gap or a repetition.
- The log of a writer that died can be opened at once, and read up to its last whole event.
- A fork is (another log, `seq`) and its own events, never a copy: reading it gives the other log's
  events below that `seq`, then its own. A log that has forks is hidden when it is deleted, and is
  removed with the last of them.
- A log's id is any text of 1 to 128 letters, digits, `_` and `-`; no other id names anything.
- Snapshots are a cache: any of them may be deleted at any time.
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
    """The process that writes a log, or wrote it last."""

    pid: int
    host: str


class Fork(msgspec.Struct, frozen=True):
    """Where a log branches off another one: it begins with that log's events below `seq`."""

    log_id: str
    seq: int


KEPT = "kept"
"""The setting of a log that is a copy of a session which an agent program recorded itself: what it is a copy of."""


class Metadata(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known of a log without reading it: `<id>.meta.json` of a file store.

    Only `session_id` is needed to create a log. `save_metadata` replaces all of it.
    """

    session_id: str
    agent: str = ""
    """The agent's display name."""
    agent_name: str = ""
    """The agent's name in commands and settings, such as `claude`."""
    prompt: str = ""
    model: str = ""
    cwd: str = ""
    start_time: str = ""
    """Seconds since the epoch."""
    duration_ms: int | None = None
    success: bool = False
    outcome: str = ""
    """How the run ended (see `Result.outcome`); empty while it runs."""
    activity: Literal["", "running", "waiting"] = ""
    """Of a thread: whether it has a run, or one that waits for an answer. Of a writer that died, the last value."""
    agent_session_id: str = ""
    agent_sessions: list[str] = msgspec.field(default_factory=list)
    """Of a thread: the sessions that agent programs have had in it, each as `NAME:ID`."""
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
    """The thread's own: mode, models, and what the application stores with it."""
    fork: Fork | None = None
    deleted: bool = False
    """It was deleted, and is still there only for its forks."""

    def names_of_agents(self) -> list[tuple[str, str]]:
        """What agent programs call this session: the agent and its own id, for each of them."""
        own = [(self.agent_name, self.agent_session_id)] if self.agent_session_id else []
        # The name of an agent that is known by its command has colons of its own: `acp:my-agent --acp`.
        more = (
            agent_session.rpartition(":")
            if agent_session.startswith("acp:")
            else agent_session.partition(":")
            for agent_session in self.agent_sessions
        )
        return [*own, *((agent, session_id) for agent, _, session_id in more)]


def is_copy(metadata: Metadata) -> bool:
    """Whether a log is a copy of a session that an agent program recorded itself."""
    return KEPT in metadata.settings


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which logs to find: all conditions must hold, and those left out do not matter.

    store.find(Query(kind="thread", resource_id="me", text="parser", limit=20))
    """

    kind: Literal["run", "thread"] | None = None
    resource_id: str | None = None
    text: str = ""
    """Each of its words occurs, in whatever case, in the prompt, the title or a message of the log itself
    (not of the log that it is a fork of)."""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Settings that have exactly these values."""
    without_settings: tuple[str, ...] = ()
    """Settings that must be missing or false."""
    include_forks: bool = True
    fork_of: str | None = None
    active: bool = False
    """Only logs with a run that is running or waits for an answer, or was when their writer died."""
    excluding: tuple[str, ...] = ()
    """Not the logs of these ids."""
    live_first: bool = False
    """Those that are being written come first; otherwise, and among them, the last changed comes first."""
    limit: int | None = None
    offset: int = 0


class LogWriter(Protocol):
    """The only writer of a log, until it is closed."""

    next_seq: int
    """What the next event must have."""

    def append(self, events: Sequence[Event]) -> int:
        """Store them; returns about how many bytes they take. Raises OSError.

        Where an event holds what cannot be stored (half a character), it is replaced in the list by what was stored.
        """
        ...

    def close(self) -> None:
        """Release the log: another writer may open it."""
        ...


class LogReader(Protocol):
    """Reads one log, from a cursor on."""

    def read(self, most: int = 1000) -> list[Event]:
        """The next events, at most that many; empty when there are no more at the moment."""
        ...

    def close(self) -> None:
        """Release what reading has opened."""
        ...


class Store(Protocol):
    """A place for logs; see the top of this module for what it promises. Methods may be called from any thread."""

    def create(self, metadata: Metadata) -> LogWriter:
        """Create a log under `metadata.session_id`, and write it. Raises StoreError.

        With `metadata.fork` its writer begins at the `seq` of the fork. Raises UnknownSession where there is
        no such log, and StoreError where that log is shorter.
        """
        ...

    def open(self, log_id: str) -> LogWriter:
        """Write an existing log further. Repairs an end that a crash tore. Raises UnknownSession, LogLocked."""
        ...

    def reader(self, log_id: str, cursor: int = 0) -> LogReader:
        """Read a log from the event `cursor` on. Raises UnknownSession."""
        ...

    def is_live(self, log_id: str) -> bool:
        """Whether it has a writer now, in any process."""
        ...

    def metadata(self, log_id: str) -> Metadata:
        """What is known of a log. Raises UnknownSession."""
        ...

    def save_metadata(self, metadata: Metadata) -> None:
        """Replace all metadata of the log, atomically. Raises UnknownSession."""
        ...

    def list(self) -> Iterator[Metadata]:
        """All logs, the newest first."""
        ...

    def delete(self, log_id: str) -> None:
        """Remove a log and all that belongs to it. Raises UnknownSession, or LogLocked while it is being written."""
        ...

    def find(self, query: Query) -> builtins.list[Metadata]:
        """The logs that fulfil the query, the last changed first."""
        ...

    def total(self, query: Query) -> int:
        """How many logs `find` gives without a limit. With `text` it may be an estimate when very many match."""
        ...

    def version(self) -> int | None:
        """A number that changes whenever the answer of `find` may change; None where the store cannot say."""
        ...

    def catch_up(self) -> None:
        """Bring the store's index up to date, which may take long. Meanwhile `find` and `total`, called from other
        threads, answer at once from what is indexed so far, the last changed first.
        """
        ...

    def resource_ids(self) -> builtins.list[str]:
        """The resource ids of all logs, sorted, each once."""
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
        """The newest snapshot of this name, and the `seq` of the first event that is not in it.

        A fork has those of the log it branched off, up to that place. Raises UnknownSession.
        """
        ...

    def save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        """Store `data`, a fold of the log `log_id` up to `seq`, in place of an older snapshot of this `name`.

        Ignored if the log is shorter than `seq`. Raises UnknownSession.
        """
        ...

    def watch(self, log_id: str, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` soon (≤ 100 ms) after any process has changed the log; returns a function that stops it.

        `wake` is called from another thread, perhaps once for many changes, perhaps without one: read the log to see.
        Raises UnknownSession.
        """
        ...

    def close(self) -> None:
        """End all watching and release what is open for reading. The store can still be used: it opens again what it
        needs. Writers stay open.
        """
        ...


def stamped(metadata: Metadata) -> Metadata:
    """The same object, with the current time where it has none; so a later save of it has them too."""
    now_ms = time.time_ns() // 1_000_000
    metadata.created_ms = metadata.created_ms or now_ms
    metadata.updated_ms = metadata.updated_ms or now_ms
    return metadata


def read_all(store: Store, log_id: str, cursor: int = 0) -> Iterator[Event]:
    """All events that are in the log now, from `cursor` on."""
    for batch in read_batches(store, log_id, cursor):
        yield from batch


def read_batches(store: Store, log_id: str, cursor: int = 0) -> Iterator[Sequence[Event]]:
    """The same, as they are read: many at once."""
    reader = store.reader(log_id, cursor)
    try:
        while batch := reader.read():
            yield batch
    finally:
        reader.close()
