"""The contract of a history: where one agent program stores its sessions, and how they are read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from harness.contracts.translator import Record
from harness.stage import Stage

if TYPE_CHECKING:
    from harness.contracts.reading import Reading
    from harness.log.raw import RawEntry

Activity: TypeAlias = Literal["busy", "waiting", "idle", "open"]
"""What an agent does in a session that it has open. `waiting`: for an answer, in its own screen; `open`: it has the
session open, and no more is known."""

StoredRecord: TypeAlias = Record | str
"""One record of a store; a text where the store holds something that is no record."""


class Home(msgspec.Struct, frozen=True):
    """Where agents have their stores: a home directory and the environment that may name others."""

    directory: str
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    projects: tuple[str, ...] = ()
    """Directories of projects, for agents that store their sessions there."""

    def folder(self, *names: str, variable: str = "", below: tuple[str, ...] = ()) -> str:
        """`names` below the home, or `below` within the folder that the variable names."""
        folder = self.environment.get(variable, "") if variable else ""
        if folder and os.path.isabs(folder):
            return os.path.join(folder, *below)
        return os.path.join(self.directory, *names, *below)

    def data_folder(self, *names: str) -> str:
        """Below the folder for programs' data."""
        return self.folder(".local", "share", variable="XDG_DATA_HOME", below=names)


def current_home(projects: Iterable[str] = ()) -> Home:
    """That of this process."""
    return Home(os.path.expanduser("~"), dict(os.environ), tuple(projects))


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session in an agent's store, as far as it is known without reading it."""

    agent: str
    session_id: str
    """The agent's own."""
    path: str
    """The file, or the database that it is in."""
    mark: str
    """Changes whenever the session may have changed."""
    changed_ms: int
    size: int = 0
    """In bytes; 0 where the store is a database, which does not say."""
    cwd: str = ""
    started_ms: int = 0
    title: str = ""
    is_child: bool = False
    """A sub-agent's, which another session has started."""
    parent_id: str = ""
    """The session that has started it, where that is known."""


class RecordStage(Stage[StoredRecord, "RawEntry"], Protocol):
    """From the records of one session to the raw entries of its runs; `rewording.Rewording` is one."""

    cwd: str
    title: str
    """What the agent or the user calls the session."""
    parent_id: str
    counts: Counter[str]
    """How many records each rule has taken."""

    def release(self) -> Sequence[RawEntry]:
        """What waits for more, as it is."""
        ...


class StoredText(NamedTuple):
    at_ms: int
    role: str
    text: str


class StoreScanner(NamedTuple):
    """Reads sessions without translating them."""

    scan: Callable[[StoredSession, bytes], Iterator[Reading]]
    """A session; with the state of an earlier reading, only what is new. Raises CannotScan where a file is not as
    expected: the session is then read whole."""
    texts: Callable[[StoredSession, str, int, int, Sequence[bytes]], Iterator[StoredText]]
    """The texts in a part of one of its files: at least those in which one of these bytes occurs, in lower case. None
    given: all of them."""


class AgentHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Contract: nothing here raises on what is in a store, changes it, or reads what holds credentials.

    A session that was deleted or cannot be read has no records.
    """

    agent: str
    """The name of the agent whose translator reads it."""
    title: str
    """The agent's display name, here because a list needs nothing else of the agent."""
    place: Callable[[Home], str]
    """The folder, file or database in which the sessions are."""
    find: Callable[[Home], Iterator[StoredSession]]
    """All sessions, in any order, without reading them where that can be avoided."""
    records: Callable[[StoredSession], Iterator[StoredRecord]]
    """The records of a session in their order; half a record at the end of a file is none."""
    rewording: Callable[[StoredSession], RecordStage]
    live: Callable[[Home], dict[str, Activity]] | None = None
    """The sessions that a process has open now, where the agent says so."""
    deleted_after_days: Callable[[Home], int | None] | None = None
    """After how many days without a change the agent deletes a session; None: never."""
    differs: frozenset[str] = frozenset()
    """Kinds of events that differ between the store and the live log of an undisturbed run."""
    scanner: Callable[[], StoreScanner] | None = None
    """A faster reading, for large stores. It is imported by this call: a list of known sessions needs none of it."""
    problem: Callable[[Home], str] | None = None
    """Why the sessions that may be there cannot be listed; empty where they can, or where there is nothing. Of a folder
    that is plain to see."""
    rewound: Callable[[StoredSession], int] | None = None
    """How many prompts were taken back: what they led to is history, but the agent's model does not know it any more.
    None where an agent stores no such prompts."""
    copies_are_new: bool = False
    """What a fork has copied has the time of the fork: when it was used is known where the original was read, too."""
    takes_stored_model: bool = False
    """The agent resumes a session with its usual model, and takes the one that is stored by the same name."""
    current: Callable[[StoredSession], Iterator[StoredRecord]] | None = None
    """The records without those prompts, and what they led to."""
