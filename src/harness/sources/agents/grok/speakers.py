"""Whose words are these? Grok writes what its sub-agents say and do between its own lines, without a mark.

Whoever waits for the results of calls does not speak. So while an agent has calls open and one sub-agent
at work, it is that one who speaks; with several at work nobody can tell, and it counts as the agent's own.
A model answers in one go: what it says, what that used, and then the calls that it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.sources.formats.subagents import Subagents
from harness.sources.formats.toolset import Call


class Speakers:
    def __init__(self, children: Subagents) -> None:
        self._children = children
        self._spawners: dict[str, str] = {}
        """Call that spawned a sub-agent → the run that made it."""

    @property
    def working(self) -> list[str]:
        """Calls whose sub-agents were not told to have ended."""
        return list(self._spawners)

    def spawned(self, call: Call) -> None:
        self._spawners[call.id] = call.run_id

    def ended(self, call_id: str) -> None:
        self._spawners.pop(call_id, None)

    def now(self, open_calls: Iterable[Call]) -> str:
        """The run that speaks, as its calls and sub-agents stand."""
        waiting = {call.run_id for call in open_calls}
        run_id = ""
        while run_id in waiting:
            working = [call_id for call_id, spawner in self._spawners.items() if spawner == run_id]
            child = self._children.find(working[0]) if len(working) == 1 else None
            if child is None or child.run_id == run_id:
                break
            run_id = child.run_id
        return run_id
