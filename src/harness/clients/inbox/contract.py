"""The contract of sessions: how a program lists, reads and commands them, wherever they are.

with open_sessions(store, prices) as sessions:       # of this machine; or open_sessions(store, prices, url=…, token=…)
    for row in sessions.page().rows: ...
    sessions.send(row.id, Approve(relay_id=ask.id, arguments_hash=ask.arguments_hash))
    seen = sessions.wait(seen, 1.0)                  # until something has changed

`local_sessions` reads the files and finds the programs that run them, `served_sessions` asks a server. What runs
conversations has a contract of its own: `conversations.backend`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self

from harness.clients.commands import Command
from harness.clients.conversations.backend import Setup
from harness.clients.inbox.rows import InboxPage
from harness.clients.inbox.today import Today
from harness.events import Event
from harness.folds.inbox.row import InboxRow, RowAsk

LISTED = 500


class EventTail(Protocol):
    """A log as it grows. Contract: used by one thread."""

    def poll(self) -> Sequence[Event]:
        """What has come since, at most a few thousand; empty: no more at the moment. Raises HarnessError."""
        ...

    def close(self) -> None: ...


class SessionLogs(Protocol):
    """What happens in sessions. Raises HarnessError."""

    def tail(self, session: str, wake: Callable[[], object], cursor: int = 0) -> EventTail:
        """Its log from there on; `wake` is called from any thread when there is more."""
        ...

    def read(self, session: str, first: int = 0) -> Iterable[Event]:
        """The log as it is now, from there on."""
        ...

    def find(self, text: str) -> Sequence[str]:
        """The ids of the sessions in which all of the words occur."""
        ...


class CommandedSessions(Protocol):
    """What a person does in sessions. What is sent is carried out when the call returns. Raises HarnessError."""

    def send(self, session: str, command: Command) -> None: ...

    def start(self, setup: Setup, prompt: str) -> str:
        """A new conversation; its id."""
        ...

    def mark_seen(self, session: str) -> None:
        """A person has opened it."""
        ...

    def whole_ask(self, session: str, ask: str) -> RowAsk:
        """An open question with all that it is about, however long. Raises HarnessError, also when it is not open."""
        ...

    def answered_by(self, session: str, ask: str) -> str:
        """The client that answered first, as the server names it; empty: unknown. Returns at once."""
        ...

    @property
    def hosted(self) -> int:
        """How many conversations run in this program, and end with it."""
        ...


class Sessions(SessionLogs, CommandedSessions, Protocol):
    """Contract: thread-safe; `close` last. Rows are known after `load`; everything else needs none."""

    @property
    def today(self) -> Today: ...

    @property
    def problem(self) -> str:
        """Why rows may be old: one line; empty when they are current."""
        ...

    def load(self) -> None:
        """Read all rows, and follow them from now on. Raises HarnessError."""
        ...

    def page(self, limit: int = LISTED) -> InboxPage:
        """Needs you (the longest wait first), running, the rest by time."""
        ...

    def row(self, session: str) -> InboxRow | None: ...

    def wait(self, version: int, timeout_s: float) -> int:
        """Until something has changed since `version` (at first 0); returns what to give the next time."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
