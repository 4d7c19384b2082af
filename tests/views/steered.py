"""One of every event of the one who steers, with a text wherever text can be."""

from __future__ import annotations

from harness.events import (
    Briefed,
    BufferingEnd,
    BufferingFailed,
    BufferingStart,
    Event,
    FollowUpsChanged,
    Forked,
    GoalChanged,
    GoalEvaluated,
    LimitWindow,
    MemoryActivated,
    MemoryModelChanged,
    MemoryStatus,
    ModeChanged,
    ModelChanged,
    NotificationChanged,
    ObservationEnd,
    ObservationFailed,
    ObservationStart,
    Parked,
    ReflectionEnd,
    ReflectionFailed,
    ReflectionStart,
    Resumed,
    Signal,
    StateChanged,
    SteeringQueued,
    SubagentModelChanged,
    Suspended,
    ThreadCreated,
    ThreadRenamed,
    Unparked,
    WorkspaceChanged,
)
from harness.formatting.approval import STEERING


def steered(text: str) -> list[Event]:
    events: list[Event] = [
        ThreadCreated(id=text, resource_id=text, title=text, cloned_from=text),
        ThreadRenamed(title=text, old_title=text, cycle_id=text),
        ModeChanged(mode_id=text, previous_mode_id=text),
        ModelChanged(model_id=text, mode_id=text),
        SubagentModelChanged(model_id=text, agent_type=text),
        StateChanged(changes={text: text}),
        FollowUpsChanged(pending=[text], taken_by=text),
        SteeringQueued(id=text, text=text),
        Briefed(agent=text, text=text),
        Forked(call_id=text, log_id=text, agent_type=text, task=text, model_id=text),
        WorkspaceChanged(status="error", error=text, workspace_id=text, workspace_name=text),
        *_signals(text),
        NotificationChanged(record={"id": text}),
        GoalChanged(objective={"objective": text, "status": text}),
        GoalChanged(),
        GoalEvaluated(payload={"status": text, "reason": text, "iteration": 1, "maxRuns": 2}),
        GoalEvaluated(payload={"pending": True}),
        MemoryStatus(windows={text: text, "active": text, "buffered": {"observations": text}}),
        ObservationStart(cycle_id=text),
        ObservationEnd(cycle_id=text, observations=text, current_task=text, suggested_response=text),
        ObservationFailed(cycle_id=text, error=text),
        ReflectionStart(cycle_id=text),
        ReflectionEnd(cycle_id=text, observations=text),
        ReflectionFailed(cycle_id=text, error=text),
        BufferingStart(cycle_id=text),
        BufferingEnd(cycle_id=text, observations=text),
        BufferingFailed(cycle_id=text, error=text),
        MemoryActivated(cycle_id=text, previous_model=text, current_model=text),
        MemoryModelChanged(role="observer", model_id=text),
        Suspended(),
        Resumed(),
        Parked(id=text, window=LimitWindow(name=text, status="reached"), resumes_at_ms=1),
        Unparked(id=text, reason="resumed"),
    ]
    assert {type(event) for event in events} == set(STEERING)
    return events


def _signals(text: str) -> list[Event]:
    return [
        Signal(
            id=text,
            category=category,
            tag_name=text,
            contents=contents,
            attributes={"type": text, "gapMs": text, text: text},
            metadata={text: text},
            state={"id": text, "mode": text, "version": text},
        )
        for category in ("user", "state", "reactive", "notification")
        for contents in (text, [{"type": "text", "text": text}, {"type": "file", "data": 1}, 7], {text: 1})
    ]
