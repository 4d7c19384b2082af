"""What the one who steers decided: facts of a conversation that no agent said.

All of them inherit `Steering`, so that a view which shows the agents' work alone can pass them over in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from harness.events.envelope import Event


class Steering(Event, frozen=True, kw_only=True):
    """Base of these facts; never written itself."""


class ThreadCreated(Steering, frozen=True, kw_only=True):
    """The conversation begins: the first event of its log, or of its own part when it was forked."""

    id: str
    resource_id: str = ""
    title: str = ""
    cloned_from: str = ""
    """The thread that it was cloned from; what lies before this event is then that thread's."""
    state: dict[str, Any] | None = None
    """The application's own state that it begins with."""
    metadata: dict[str, Any] | None = None
    """What was kept with it then: its mode, its model, and whatever else."""


class ThreadRenamed(Steering, frozen=True, kw_only=True):
    title: str
    old_title: str = ""
    cycle_id: str = ""
    """Of the observation that found the title; empty when a person gave it."""


class ModeChanged(Steering, frozen=True, kw_only=True):
    mode_id: str
    previous_mode_id: str = ""


class ModelChanged(Steering, frozen=True, kw_only=True):
    model_id: str
    scope: Literal["", "global", "thread", "mode"] = ""
    mode_id: str = ""


class SubagentModelChanged(Steering, frozen=True, kw_only=True):
    model_id: str
    scope: str = "thread"
    agent_type: str = ""


class StateChanged(Steering, frozen=True, kw_only=True):
    """What changed of the application's own state, and nothing else."""

    changes: dict[str, Any]


class FollowUpsChanged(Steering, frozen=True, kw_only=True):
    """The whole queue as it is now. What waited before is not said again: it may come with large files."""

    pending: list[Any]
    """What waits, in order; a number stands for what was at that place (from 0) of the queue before."""
    taken_by: str = ""
    """The run that took the first one, when that is why the queue changed."""

    def queue(self, before: Sequence[Any]) -> list[Any]:
        """What waits now, when this is what waited before."""
        return [before[one] if type(one) is int and 0 <= one < len(before) else one for one in self.pending]


class SteeringQueued(Steering, frozen=True, kw_only=True):
    """Somebody said something to a run that goes on, and it was accepted.

    The run takes it at its next boundary: then a `Message` of the same id is in the log. Where no run has taken
    it, because the process died, it is still to be said: first of all in the next run, or when this one goes on.
    """

    id: str
    text: str
    parts: list[Any] | None = None
    """Files, as in `Message`."""


class Briefed(Steering, frozen=True, kw_only=True):
    """An agent that does not see this log was told, before its prompt, what was said and decided without it.

    It stands before the run, under the run's id. The prompt itself is the run's `Message`, without this.
    """

    agent: str
    text: str
    """As the agent was given it."""


class Suspended(Steering, frozen=True, kw_only=True):
    """The run has let go of everything and waits for the answers to its open relays; it may wait for ever.

    It is not over: the run goes on with `Resumed`, in this process or in another one.
    """


class Resumed(Steering, frozen=True, kw_only=True):
    """The run goes on where it was suspended."""


class Forked(Steering, frozen=True, kw_only=True):
    """The call's sub-agent works on a fork of this conversation: its events are in that log."""

    call_id: str
    log_id: str
    agent_type: str = ""
    task: str = ""
    model_id: str = ""


class WorkspaceChanged(Steering, frozen=True, kw_only=True):
    status: Literal["pending", "initializing", "ready", "paused", "error", "destroying", "destroyed"]
    error: str = ""
    workspace_id: str = ""
    workspace_name: str = ""


class Signal(Steering, frozen=True, kw_only=True):
    """Something the model is told that nobody typed: state, a reminder, a notification; or a person's words
    with attributes.
    """

    id: str
    category: Literal["user", "state", "reactive", "notification"]
    tag_name: str
    contents: Any
    """Text, or a list of text and file parts."""
    attributes: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    """Of a state signal: lane id, cache key, mode (`snapshot` or `delta`), version."""


class NotificationChanged(Steering, frozen=True, kw_only=True):
    """One record of the inbox as it is now."""

    record: dict[str, Any]


class GoalChanged(Steering, frozen=True, kw_only=True):
    """The objective as it is now; None when there is none any more."""

    objective: dict[str, Any] | None = None


class GoalEvaluated(Steering, frozen=True, kw_only=True):
    payload: dict[str, Any]
