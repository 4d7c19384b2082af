"""Sub-agents as runs of their own: when each begins, what it was asked, how it ended.

A child run is named after the call that spawned it. One that writes again after its end (an agent
can be woken up) is a run of its own, `<call>#2`.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from harness.events import Event, Message, Outcome, Result, SessionStart

_OUTCOMES: dict[str, Outcome] = {"completed": "completed", "failed": "failed"}


class AgentChild(msgspec.Struct):
    run_id: str
    task_id: str = ""
    depth: int = 1
    is_background: bool = False
    has_prompt: bool = False
    status: str = ""
    """How it ended, while its last text is still to come."""
    error: str = ""


class ChildRuns:
    """All children of one run and of its children, by the id of the spawning call."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._open: dict[str, AgentChild] = {}
        self._calls_of_tasks: dict[str, str] = {}
        self._times: Counter[str] = Counter()

    def find(self, call_id: str) -> AgentChild | None:
        return self._open.get(call_id)

    def has_started(self, call_id: str) -> bool:
        return call_id in self._times

    def call_of_task(self, task_id: str) -> str:
        """The call that spawned the agent with this id of its own."""
        return self._calls_of_tasks.get(task_id, "")

    def begin(
        self, call_id: str, *, name: str, prompt: str, parent_id: str = "", task_id: str = "", cwd: str = ""
    ) -> list[Event]:
        """The child is there; nothing if that was known."""
        if task_id:
            self._calls_of_tasks[task_id] = call_id
        child = self._open.get(call_id)
        if child is not None:
            child.task_id = child.task_id or task_id
            return []
        self._times[call_id] += 1
        times = self._times[call_id]
        child = AgentChild(call_id if times == 1 else f"{call_id}#{times}", task_id=task_id)
        self._open[call_id] = child
        start = SessionStart(
            run_id=child.run_id,
            parent_id=parent_id or call_id,
            session_id=task_id,
            agent=self._agent,
            name=name,
            cwd=cwd,
        )
        return [start, *self.ask(call_id, prompt)] if times == 1 else [start]

    def ask(self, call_id: str, prompt: str) -> list[Event]:
        """The prompt of the child, once."""
        child = self._open.get(call_id)
        if child is None or child.has_prompt or not prompt:
            return []
        child.has_prompt = True
        return [Message(role="user", text=prompt, run_id=child.run_id)]

    def end(self, call_id: str, status: str, text: str, duration_ms: int | None = None) -> list[Event]:
        """The child has ended as `status` says; nothing if it was not there."""
        child = self._open.pop(call_id, None)
        if child is None:
            return []
        status = status or child.status
        return [
            Result(
                run_id=child.run_id,
                success=status == "completed",
                outcome=_OUTCOMES.get(status, "interrupted"),
                text=text or child.error,
                duration_ms=duration_ms,
            )
        ]

    def end_all_known(self) -> list[Event]:
        """The end of those of which it is known how they ended, innermost first."""
        call_ids = [call_id for call_id, child in self._open.items() if child.status]
        return [event for call_id in reversed(call_ids) for event in self.end(call_id, "", "")]
