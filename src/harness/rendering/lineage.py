"""Which run of a log is the top one, and how the others hang below it.

The first `SessionStart` without a parent begins the top run; every other run is a child of the
run that made the call named by its `parent_id`.
"""

from __future__ import annotations

from harness.events import Event, SessionStart, ToolStart


class Lineage:
    """Let it `see` every `SessionStart` and `ToolStart`; other events tell it nothing."""

    def __init__(self) -> None:
        self._top: str | None = None
        self._parents: dict[str, str] = {}
        self._callers: dict[str, str] = {}
        """Calls made by children only: a call that is not here was made by the top run."""

    def see(self, event: SessionStart | ToolStart) -> None:
        run_id = event.run_id
        if isinstance(event, ToolStart):
            if not self.is_top(event):
                self._callers[event.call_id] = run_id
        elif self._top is None and not event.parent_id:
            self._top = run_id
            self._parents.pop(run_id, None)
        elif run_id != self._top and run_id not in self._parents:
            caller = self._callers.get(event.parent_id, self._top or "")
            self._parents[run_id] = "" if caller == run_id else caller

    def is_top(self, event: Event) -> bool:
        """Whether an event belongs to the top run, as far as is known by now."""
        return event.run_id == self._top or (self._top is None and event.run_id not in self._parents)

    def depth(self, run_id: str) -> int:
        """0 for the top run, 1 for its children, and so on."""
        if run_id == self._top or (self._top is None and run_id not in self._parents):
            return 0
        return max(1, len(self.ancestors(run_id)))

    def ancestors(self, run_id: str) -> list[str]:
        """The runs above one, nearest first, up to the top run."""
        found: list[str] = []
        while run_id in self._parents and len(found) < len(self._parents):
            run_id = self._parents[run_id]
            found.append(run_id)
        return found
