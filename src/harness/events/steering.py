"""What was decided around the agent: facts of a conversation that the session writes, not the agent.

All of them inherit `Steering`, so that a view which shows only the agents' work can ignore them in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from harness.events.envelope import Event
from harness.events.usage import LimitWindow


class Steering(Event, frozen=True, kw_only=True):
    """Base of these events; never written itself."""


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
    """The settings stored with it then: its mode, its model, and others."""


class ThreadRenamed(Steering, frozen=True, kw_only=True):
    """The conversation has a new title."""

    title: str
    old_title: str = ""
    cycle_id: str = ""
    """Of the observation that found the title; empty when a person gave it."""


class ModeChanged(Steering, frozen=True, kw_only=True):
    """Another mode (set of instructions, tools and model) is active from here on."""

    mode_id: str
    previous_mode_id: str = ""


class ModelChanged(Steering, frozen=True, kw_only=True):
    """Another model is used from here on: by this thread, by one of its modes, or everywhere."""

    model_id: str
    scope: Literal["", "global", "thread", "mode"] = ""
    mode_id: str = ""


class SubagentModelChanged(Steering, frozen=True, kw_only=True):
    """Another model is used by sub-agents, all or those of one type."""

    model_id: str
    scope: str = "thread"
    agent_type: str = ""


class StateChanged(Steering, frozen=True, kw_only=True):
    """What changed of the application's own state, and nothing else."""

    changes: dict[str, Any]


class FollowUpsChanged(Steering, frozen=True, kw_only=True):
    """The whole queue as it is now. What waited before is not repeated: it may come with large files."""

    pending: list[Any]
    """What waits, in order; a number refers to a place (from 0) of the queue before."""
    taken_by: str = ""
    """The run that took the first one, when that is why the queue changed."""

    def queue(self, before: Sequence[Any]) -> list[Any]:
        """What waits now, when this is what waited before."""
        return [
            before[entry] if type(entry) is int and 0 <= entry < len(before) else entry
            for entry in self.pending
        ]


class SteeringQueued(Steering, frozen=True, kw_only=True):
    """A message to a running agent was accepted.

    The run takes it between two steps: then a `Message` of the same id is in the log. Where no run has taken it,
    because the process died, it is delivered first in the next run, or when this one is resumed.
    """

    id: str
    text: str
    parts: list[Any] | None = None
    """Files, as in `Message`."""


class Briefed(Steering, frozen=True, kw_only=True):
    """An agent that does not see this log was given, before its prompt, a summary of what happened without it; or all
    of it, as a session of its own, which it continues.

    It comes before the run, with the run's id. The prompt itself is the run's `Message`, without this.
    """

    agent: str
    text: str
    """As the agent was given it; of a session, the note that it begins with."""
    form: Literal["briefing", "native"] = "briefing"
    """`native`: a session of the agent, whose id is `session_id`."""
    why: str = ""
    """Why in this form, where there was a choice."""
    lost: Sequence[str] = ()
    """What the session does not have."""
    files: Sequence[str] = ()
    """The files that were made for it: `harness hand-over --remove ID` removes them."""


class Suspended(Steering, frozen=True, kw_only=True):
    """The run holds no resources any more and waits for answers to its open relays, however long that takes.

    It has not ended: it continues with `Resumed`, in this process or in another one.
    """


class Resumed(Steering, frozen=True, kw_only=True):
    """The run continues where it was suspended."""


class Forked(Steering, frozen=True, kw_only=True):
    """The call's sub-agent works on a fork of this conversation: its events are in that log."""

    call_id: str
    log_id: str
    agent_type: str = ""
    task: str = ""
    model_id: str = ""


class WorkspaceChanged(Steering, frozen=True, kw_only=True):
    """The workspace (the folder, or the remote machine) has another status."""

    status: Literal["pending", "initializing", "ready", "paused", "error", "destroying", "destroyed"]
    error: str = ""
    workspace_id: str = ""
    workspace_name: str = ""


class Signal(Steering, frozen=True, kw_only=True):
    """Input for the model that no person typed: state, a reminder, a notification; or a person's words with attributes."""

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
    """A notification of the inbox, as it is now."""

    record: dict[str, Any]


class GoalChanged(Steering, frozen=True, kw_only=True):
    """The goal as it is now; None when it was removed."""

    objective: dict[str, Any] | None = None


class GoalEvaluated(Steering, frozen=True, kw_only=True):
    """A judge has assessed how far the goal is reached."""

    payload: dict[str, Any]


class Parked(Steering, frozen=True, kw_only=True):
    """The provider refused the last run until a window opens again; then the conversation continues by itself."""

    id: str
    window: LimitWindow
    resumes_at_ms: int
    number: int = 1
    """Which window this is since a person's last message: so many were waited for, with this one."""
    most: int = 1
    again: int = 0
    """How often the window was found full once more, right after it should have opened."""


class Unparked(Steering, frozen=True, kw_only=True):
    """The conversation does not wait for a window any more.

    `resumed` is written before the agent is asked to continue: where nothing follows it, the process died in between,
    and the agent is never asked a second time without a person.
    """

    id: str
    reason: Literal["resumed", "message", "cancelled"]
