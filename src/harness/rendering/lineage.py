"""Which runs of a log are top runs, and how the others hang below them.

A `SessionStart` without a parent begins a top run, unless one is going on: then it is a child that nobody announced.
In a thread it always does: a run that was cut off there may never have been ended. Every other run is a child of the
run that made the call named by its `parent_id`.
"""

from __future__ import annotations

from harness.events import Event, Result, SessionStart, Suspended, ThreadCreated, ToolStart


class Lineage:
    """Let it `see` where runs and calls begin and runs end; of a thread, also the thread. All else tells nothing."""

    def __init__(self) -> None:
        self._tops: set[str] = set()
        self._latest = ""
        """The last of the top runs."""
        self._is_going_on = False
        self._is_thread = False
        self._log_id = ""
        self._parents: dict[str, str] = {}
        self._callers: dict[str, str] = {}
        """Calls made by children only: a call that is not here was made by a top run."""

    def see(self, event: Event) -> None:
        run_id = event.run_id
        if isinstance(event, ToolStart):
            if not self.is_top(event):
                self._callers[event.call_id] = run_id
        elif isinstance(event, SessionStart):
            self._begin(run_id, event.parent_id)
        elif isinstance(event, Result | Suspended):
            if run_id == self._latest:
                self._is_going_on = False
        elif isinstance(event, ThreadCreated):
            self._is_thread = True
            self._log_id = run_id
            self._tops.add(run_id)

    @property
    def log_id(self) -> str:
        """The id of the log: its thread's, or its only run's. Empty as long as nothing has begun."""
        return self._log_id

    def is_top(self, event: Event) -> bool:
        """Whether an event belongs to a top run, as far as is known by now."""
        return self._is_top(event.run_id)

    def depth(self, run_id: str) -> int:
        """0 for a top run, 1 for its children, and so on."""
        return 0 if self._is_top(run_id) else max(1, len(self.ancestors(run_id)))

    def ancestors(self, run_id: str) -> list[str]:
        """The runs above one, nearest first, up to a top run."""
        found: list[str] = []
        while run_id in self._parents and len(found) < len(self._parents):
            run_id = self._parents[run_id]
            found.append(run_id)
        return found

    def _is_top(self, run_id: str) -> bool:
        return run_id in self._tops or (not self._tops and run_id not in self._parents)

    def _begin(self, run_id: str, parent_id: str) -> None:
        if not parent_id and (self._is_thread or not self._is_going_on):
            self._tops.add(run_id)
            self._log_id = self._log_id or run_id
            self._latest, self._is_going_on = run_id, True
            self._parents.pop(run_id, None)
        elif run_id not in self._tops and run_id not in self._parents:
            caller = self._callers.get(parent_id, self._latest)
            self._parents[run_id] = "" if caller == run_id else caller
