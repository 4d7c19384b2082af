"""What lasts from one run of a two-way agent to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from harness.approvals.approver import Approver
from harness.approvals.rules import Rule
from harness.contracts.driver import AskedCall, Send
from harness.events import Relay
from harness.process.child import OutputChunk
from harness.runs.launch import Launch
from harness.runs.line import Line


class HeldTools(Protocol):
    """Tools of ours that the program was handed. Used from any thread."""

    @property
    def waits(self) -> bool:
        """Whether one of them asks a person."""
        ...

    def owns(self, call: AskedCall) -> bool:
        """Whether the program asks about a call of one of them."""
        ...

    def withdraw(self) -> Sequence[Relay]:
        """Stop all calls; what they have asked and nobody has answered."""
        ...


class _NoTools:
    waits = False

    def owns(self, call: AskedCall) -> bool:
        del call
        return False

    def withdraw(self) -> Sequence[Relay]:
        return ()


NO_TOOLS: HeldTools = _NoTools()


class ProgramConversation:
    """What lasts from one run to the next: the line, and who decides what need not be asked. Used by one run at a time."""

    def __init__(
        self,
        approver: Approver | None = None,
        *,
        ask_timeout_s: float | None = None,
        on_turn: Callable[[], object] | None = None,
        on_grant: Callable[[Sequence[Rule], str], object] | None = None,
        tools: HeldTools | None = None,
    ) -> None:
        """`on_turn`: called when the program begins a turn or asks while no run uses it. It has to return soon.

        `on_grant`: called when a person allowed something for always, with what it is called, in the thread of the run.
        """
        self.tools: HeldTools = tools or NO_TOOLS
        self.line: Line | None = None
        self.unread: list[OutputChunk | Send] = []
        """The last words of a process that is gone: the next run records them."""
        self.approver = approver
        self.on_grant = on_grant
        self.ask_timeout_s = ask_timeout_s
        self._on_turn = on_turn
        self._lock = threading.Lock()

    def take(self, launch: Launch) -> Line | None:
        """The line for a run with this launch; one that does not fit is closed."""
        with self._lock:
            line, self.line = self.line, None
        if line is None:
            return None
        line.take_back()
        if line.fits(launch):
            return line
        line.close()
        self.unread += line.unread
        return None

    def give(self, line: Line) -> None:
        """The run is over, the line may be used again."""
        with self._lock:
            self.line = line
        line.rest(self._on_turn)

    def close(self) -> None:
        """Close the line. Blocks until its process is gone."""
        with self._lock:
            line, self.line = self.line, None
        if line is not None:
            line.close()
