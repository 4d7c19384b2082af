"""Steering events in a few words each, for people who read a thread from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from harness.events import (
    AnyEvent,
    Briefed,
    BufferingFailed,
    Event,
    Forked,
    GoalChanged,
    GoalEvaluated,
    MemoryActivated,
    MemoryModelChanged,
    ModeChanged,
    ModelChanged,
    ObservationEnd,
    ObservationFailed,
    ReflectionEnd,
    ReflectionFailed,
    Resumed,
    Signal,
    Steering,
    SteeringQueued,
    SubagentModelChanged,
    Suspended,
    ThreadCreated,
    ThreadRenamed,
    WorkspaceChanged,
)
from harness.views.formatting.amounts import tokens
from harness.views.formatting.calls import gist

STEERING: tuple[type[Event], ...] = tuple(kind for kind in get_args(AnyEvent) if issubclass(kind, Steering))


def steering_words(event: Event) -> str:
    """One line; empty if the event is of no interest to a reader."""
    words = _WORDS.get(type(event))
    return "" if words is None else words(event)


def signal_text(signal: Signal) -> str:
    """The text of a signal, without its files."""
    contents = signal.contents
    if isinstance(contents, str):
        return contents
    parts = contents if isinstance(contents, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def briefing_words(event: Briefed) -> str:
    """Says that the agent was briefed, not with what: the conversation shows that already."""
    return f"{event.agent} was given a summary of what was said and decided without it ({len(event.text):,} characters)"


def _thread(event: ThreadCreated) -> str:
    origin = f" (cloned from {event.cloned_from})" if event.cloned_from else ""
    return f"thread {event.title or event.id}{origin}"


def _mode(event: ModeChanged) -> str:
    before = f"{event.previous_mode_id} → " if event.previous_mode_id else ""
    return f"mode {before}{event.mode_id}"


def _model(event: ModelChanged) -> str:
    return f"model {event.model_id}" + (f" for mode {event.mode_id}" if event.mode_id else "")


def _subagent_model(event: SubagentModelChanged) -> str:
    return f"model {event.model_id} for {event.agent_type or 'all'} sub-agents"


def _fork(event: Forked) -> str:
    return f"{event.agent_type or 'a sub-agent'} goes on with a fork of this conversation"


def _workspace(event: WorkspaceChanged) -> str:
    return f"workspace failed: {event.error}" if event.status == "error" else ""


def _signal(event: Signal) -> str:
    return f"{event.tag_name}: {' '.join(signal_text(event).split())}"


def _goal(event: GoalChanged) -> str:
    goal = event.objective
    if goal is None:
        return "goal given up"
    status = goal.get("status")
    prefix = "goal" if status in (None, "active") else f"goal {gist(status)}"
    return f"{prefix}: {gist(goal.get('objective'))}"


def _evaluation(event: GoalEvaluated) -> str:
    payload = event.payload
    if payload.get("pending"):
        return ""
    status = "reached" if payload.get("passed") else gist(payload.get("status") or "not reached")
    count = f"{gist(payload.get('iteration'))}/{gist(payload.get('maxRuns'))}"
    reason = payload.get("pausedReason") or payload.get("reason")
    return f"goal {status}, attempt {count}" + (f": {gist(reason)}" if reason else "")


def _observed(event: ObservationEnd) -> str:
    return f"memory: {tokens(event.tokens_observed)} tokens noted in {tokens(event.observation_tokens)}"


def _activated(event: MemoryActivated) -> str:
    return f"memory: {event.messages_activated} messages replaced by {tokens(event.observation_tokens)} tokens of notes"


_WORDS: Mapping[type[Event], Callable[[Any], str]] = {
    ThreadCreated: _thread,
    ThreadRenamed: lambda event: f"renamed: {event.title}",
    ModeChanged: _mode,
    ModelChanged: _model,
    SubagentModelChanged: _subagent_model,
    SteeringQueued: lambda event: f"said meanwhile: {' '.join(event.text.split())}",
    Briefed: briefing_words,
    Suspended: lambda _: "waits for an answer",
    Resumed: lambda _: "goes on",
    Forked: _fork,
    WorkspaceChanged: _workspace,
    Signal: _signal,
    GoalChanged: _goal,
    GoalEvaluated: _evaluation,
    ObservationEnd: _observed,
    ObservationFailed: lambda event: f"memory: observation failed: {event.error}",
    ReflectionEnd: lambda event: f"memory: notes shortened to {tokens(event.compressed_tokens)} tokens",
    ReflectionFailed: lambda event: f"memory: reflection failed: {event.error}",
    BufferingFailed: lambda event: f"memory: {event.operation_type} ahead failed: {event.error}",
    MemoryActivated: _activated,
    MemoryModelChanged: lambda event: f"model {event.model_id} for the {event.role}",
}
