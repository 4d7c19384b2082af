"""What the screen needs of the world: rows, logs as they grow, and someone who carries out commands.

`interfaces/tui/file_data.py` follows the files of this machine, `server_data.py` is a client of `harness serve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from harness.events import Event
from harness.interfaces.commands import Command
from harness.interfaces.inbox.today import Today
from harness.interfaces.server.backend import Setup
from harness.interfaces.tui.fleet_data import FleetSource
from harness.views.inbox.row import InboxRow


class EventTail(Protocol):
    """A log as it grows. Contract: used by one thread."""

    def poll(self) -> Sequence[Event]:
        """What has come since, at most a few thousand; empty: no more at the moment. Raises HarnessError."""
        ...

    def close(self) -> None: ...


class ScreenData(Protocol):
    """Contract: `open` first, `close` last; `wake` may be called from any thread. `rows`, `today`, `total` and
    `notice` return at once. Everything else may take its time and raises HarnessError for what cannot be done.
    """

    def open(self, wake: Callable[[], object]) -> None:
        """Begin to follow; `wake` is called when `rows` may give something else."""
        ...

    def rows(self) -> Sequence[InboxRow]:
        """Needs you (the longest wait first), running, the rest by time."""
        ...

    @property
    def total(self) -> int:
        """How many sessions there are; `rows` may give only the latest."""
        ...

    @property
    def today(self) -> Today: ...

    @property
    def notice(self) -> str:
        """Why what is shown may be old; empty: it is not. With one, nothing can be answered."""
        ...

    @property
    def hosted(self) -> int:
        """How many conversations run in this program, and end with it."""
        ...

    def send(self, session: str, command: Command) -> None: ...

    def start(self, setup: Setup, prompt: str) -> str:
        """A new conversation; its id."""
        ...

    def agents(self) -> Sequence[str]:
        """The names of those that can be started."""
        ...

    def tail(self, session: str, wake: Callable[[], object], cursor: int = 0) -> EventTail: ...

    def read(self, session: str, first: int = 0) -> Iterable[Event]:
        """The log as it is now, from there on."""
        ...

    def mark_seen(self, session: str) -> None:
        """A person has opened it."""
        ...

    def answered_by(self, session: str, ask: str) -> str:
        """Who answered it first; empty when that is not known. Returns at once."""
        ...

    def find(self, text: str) -> Sequence[str]:
        """The ids of the sessions in which all of the words occur."""
        ...

    def files(self, folder: str, beginning: str) -> Sequence[str]:
        """A few paths below the folder that continue what was typed."""
        ...

    def usage(self) -> str:
        """A table: tokens and cost of each agent."""
        ...

    def fleets(self) -> FleetSource:
        """Returns at once; to be closed by the one who asked."""
        ...

    def close(self) -> None: ...
