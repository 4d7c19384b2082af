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
    stated: Usage | None = None
    """What the agent itself says it used, where `usage` is what a gateway saw."""


class ModelCall(Event, frozen=True, kw_only=True):
    """A call of the agent's model that went through a gateway, once it was answered. Bodies are in the raw record."""

    id: str
    """Of the call; a `UsageDelta` with the same id says what it used."""
    wire: str = ""
    """The model API: anthropic, chat, gemini or responses."""
    model: str = ""
    """The one that answered."""
    asked_model: str = ""
    """The one that the agent asked for."""
    conversation: str = ""
    """The same for all calls of one conversation: the main one, each sub-agent's, each side request is one."""
    step: int = 0
    """Which answer of its conversation it is, from 1; a call that failed has the step of the one that repeats it."""
    status: int
    """Of HTTP; 0: there was no answer."""
    tools: str = ""
    """A digest of the tools that were offered."""
    tool_count: int = 0
    sent_bytes: int = 0
    """The body of the request."""
    new_bytes: int = 0
    """How much of it was not in an earlier one."""
    calls: int = 0
    """How many tool calls the answer holds."""
    took_ms: int = 0
    first_ms: int = 0
    """Until the first byte of the answer."""
    stop_reason: str = ""
    """The provider's own word."""
    is_cut: bool = False
    """The answer broke off: what it used is at least what it stated until then."""
    origin: Literal["provider", "recording", "translated", "script", "gateway"] = "provider"
    """Who answered. `gateway`: it was refused."""
    usage: Usage | None = None
    """What the answer states. It was used now only if a `UsageDelta` says so: an answer from a recording costs nothing."""
    differs: list[str] = msgspec.field(default_factory=list)
    """Of an answer from a recording: how the request differs from the recorded one."""


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
