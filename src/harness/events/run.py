"""A run: its start and result, the steps and the to-do list in between, and the compaction of its context."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from harness.events.envelope import Event
from harness.events.usage import Usage

Outcome: TypeAlias = Literal[
    "completed",
    "failed",
    "timed_out",
    "stalled",
    "interrupted",
    "limit_exceeded",
    "agent_not_found",
    "spawn_failed",
    "unknown",
]
"""`unknown`: the run is read from the agent's own store, which does not say how it ended."""


class SessionStart(Event, frozen=True, kw_only=True):
    """The run has started. The first event of its run, apart from notices that came earlier."""

    agent: str = ""
    model: str = ""
    cwd: str = ""
    version: str = ""
    name: str = ""
    """What a sub-agent calls itself (its type or role)."""
    max_turns: int | None = None
    """How often its model may be asked, where that is known."""
    runner: str = ""
    """The sandbox runner in which it happens, by its name or address; empty: it happens here."""
    sandbox: str = ""
    """What confines it, or its commands: namespaces, bubblewrap or landlock; empty: nothing does."""
    facts: str = ""
    """What the system prompt of Harness's own agent says about the place, as earlier versions wrote it."""
    prompt: str = ""
    """The system prompt of Harness's own agent, in the first run of a session, which keeps it: what a provider has read is
    cheaper the second time as long as the beginning stays. What was added for one run alone is not in it."""


class Result(Event, frozen=True, kw_only=True):
    """The run has ended: exactly one per run, and of the top-level run always the last event."""

    success: bool
    outcome: Outcome = msgspec.field(
        default_factory=lambda: "completed"
    )  # a factory, so that it is always written
    text: str = ""
    """The answer: the last text of the agent."""
    duration_ms: int | None = None
    total_cost_usd: float | None = None
    usage: Usage | None = None
    stop_reason: str = ""
    """The agent's own word for why it stopped."""
    exit_code: int | None = None
    signal: int | None = None
    turns: int | None = None
    structured: Any = None
    """The answer as data, where the run was asked for a schema."""
    log_id: str = ""
    """The id of its log, for `harness sessions`; of a top-level run."""


class Compacted(Event, frozen=True, kw_only=True):
    """The agent shortened its context."""

    trigger: str = ""
    before_tokens: int | None = None
    after_tokens: int | None = None
    summary: str = ""
    """What the model sees in place of everything before the last turns; known of Harness's own agents."""
    kept: int | None = None
    """How many of the last turns stay; None where it is not known: then the log alone does not say what is left."""
    longest_output: int | None = None
    """Outputs of tools with more characters were shortened: in the turns that stay, or, without a summary, in
    those before them."""


class StepStart(Event, frozen=True, kw_only=True):
    """A model call of a run begins. What comes until the `StepEnd` of the same run is its answer."""

    id: str
    """Of this call alone, a UUIDv7."""
    model: str = ""


class StepEnd(Event, frozen=True, kw_only=True):
    """The model call has ended."""

    id: str
    """That of the `StepStart`."""
    stop_reason: str = ""
    """`end`, `tool_calls`, `length`, `refusal`, `error`, `cancelled`, or the provider's own word."""


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of the agent's to-do list."""

    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    id: str = ""
    active_form: str = ""
    """What is shown while it is being worked on."""


class TasksChanged(Event, frozen=True, kw_only=True):
    """The whole list as it is now."""

    tasks: list[Task]
