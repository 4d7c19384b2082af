"""Signals, files and the facts of a thread."""

from __future__ import annotations

from typing import Any

import pytest
from session_log import DONE, START, logged, told, types, wired

from harness.events import (
    BufferingFailed,
    Error,
    Event,
    FollowUpsChanged,
    Info,
    MemoryActivated,
    Message,
    ModeChanged,
    ModelChanged,
    ObservationFailed,
    Result,
    Signal,
    StateChanged,
    Task,
    TasksChanged,
    TextDelta,
    ThreadRenamed,
    Warning,
    WorkspaceChanged,
)
from harness.rendering.session.encoding import to_wire
from harness.rendering.session.translation import history_messages


def signal(category: Any, tag: str, contents: Any = "words", **fields: Any) -> Signal:
    return Signal(id="s1", category=category, tag_name=tag, contents=contents, **fields)


SIGNALS = [
    (
        signal(
            "reactive", "system-reminder", attributes={"type": "temporal-gap", "gapText": "2 h", "gapMs": 7}
        ),
        {"type": "system_reminder", "message": "words", "reminderType": "temporal-gap", "gapText": "2 h"}
        | {"gapMs": 7.0},
    ),
    (
        signal(
            "state",
            "current-task-list",
            state={"id": "tasks", "mode": "delta", "cacheKey": "k", "version": 2},
        ),
        {
            "type": "state_signal",
            "id": "s1",
            "stateId": "tasks",
            "mode": "delta",
            "cacheKey": "k",
            "version": 2,
        }
        | {"message": "words"},
    ),
    (
        signal("reactive", "file-changed", attributes={"path": "a"}),
        {"type": "reactive_signal", "id": "s1", "tagName": "file-changed", "message": "words"}
        | {"attributes": {"path": "a"}},
    ),
    (
        signal("notification", "notification", attributes={"source": "ci", "priority": "high"}),
        {"type": "notification", "id": "s1", "message": "words", "source": "ci", "priority": "high"}
        | {"attributes": {"source": "ci", "priority": "high"}},
    ),
    (
        signal(
            "notification",
            "notification-summary",
            attributes={"pending": 2},
            metadata={"bySource": {"ci": 2}, "byPriority": {"low": 2}, "notificationIds": ["a", "b"]},
        ),
        {"type": "notification_summary", "id": "s1", "message": "words", "pending": 2, "bySource": {"ci": 2}}
        | {"byPriority": {"low": 2}, "notificationIds": ["a", "b"]},
    ),
]


@pytest.mark.parametrize(("event", "part"), SIGNALS, ids=[part["type"] for _, part in SIGNALS])  # type: ignore[misc]
def test_each_kind_of_signal_is_a_part_and_an_event(event: Signal, part: dict[str, Any]) -> None:
    live = told(START, event)
    idle = told(event)
    (stored,) = history_messages(logged(START, event, DONE))

    assert types(live) == ["agent_start", "message_start", part["type"], "message_update"]
    assert wired(live[2]) == part
    assert wired(live[3])["message"]["content"] == [part]
    assert types(idle) == [part["type"], "message_start", "message_end"]
    assert to_wire(stored) == {"id": "s1", "role": "user", "createdAt": 1001, "content": [part]}


def test_words_of_a_person_with_attributes_are_a_message_with_attributes() -> None:
    event = signal(
        "user",
        "user",
        [{"type": "text", "text": "see"}, {"type": "file", "data": "aGk=", "mediaType": "image/png"}],
        attributes={"from": "web"},
    )
    events = told(START, TextDelta(text="x"), event)

    assert types(events)[-3:] == ["message_end", "message_start", "message_end"]
    assert wired(events[-1])["message"] == {
        "id": "s1",
        "role": "user",
        "createdAt": 1002,
        "attributes": {"from": "web"},
        "content": [
            {"type": "text", "text": "see"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        ],
    }


def test_files_of_a_message_are_parts_and_what_cannot_be_read_is_passed_over() -> None:
    parts: list[Any] = [
        {"type": "file", "media_type": "application/pdf", "data": "eA==", "name": "a.pdf"},
        {"type": "file", "media_type": "text/plain", "data": 7},
        {"type": "tool_call", "id": "c"},
        "?",
        None,
    ]
    (message,) = history_messages(logged(Message(role="user", text="see", parts=parts)))

    assert to_wire(message)["content"] == [
        {"type": "text", "text": "see"},
        {"type": "file", "data": "eA==", "mediaType": "application/pdf", "filename": "a.pdf"},
    ]


def test_the_whole_state_is_told_with_what_changed() -> None:
    events = told(StateChanged(changes={"a": 1}), StateChanged(changes={"b": 2, "a": 3}))

    assert wired(events[0]) == {"type": "state_changed", "state": {"a": 1}, "changedKeys": ["a"]}
    assert wired(events[1]) == {
        "type": "state_changed",
        "state": {"a": 3, "b": 2},
        "changedKeys": ["b", "a"],
    }


FACTS: list[tuple[Event, list[dict[str, Any]]]] = [
    (
        ModeChanged(mode_id="b", previous_mode_id="a"),
        [{"type": "mode_changed", "modeId": "b", "previousModeId": "a"}],
    ),
    (ModelChanged(model_id="m"), [{"type": "model_changed", "modelId": "m"}]),
    (FollowUpsChanged(pending=["x"]), [{"type": "follow_up_queued", "count": 1}]),
    (
        FollowUpsChanged(pending=[], taken_by="r2"),
        [{"type": "follow_up_queued", "count": 0, "runId": "r2"}],
    ),
    (
        WorkspaceChanged(status="ready", workspace_id="w", workspace_name="n"),
        [
            {"type": "workspace_status_changed", "status": "ready"},
            {"type": "workspace_ready", "workspaceId": "w", "workspaceName": "n"},
        ],
    ),
    (
        WorkspaceChanged(status="error", error="no"),
        [
            {"type": "workspace_status_changed", "status": "error", "error": {"message": "no"}},
            {"type": "workspace_error", "error": {"message": "no"}},
        ],
    ),
    (Info(message="i"), [{"type": "info", "message": "i"}]),
    (Warning(message="w"), [{"type": "info", "message": "w"}]),
    (
        TasksChanged(
            tasks=[Task(text="Do", id="t1", active_form="Doing"), Task(text="x", status="completed")]
        ),
        [
            {
                "type": "task_updated",
                "tasks": [
                    {"id": "t1", "content": "Do", "status": "pending", "activeForm": "Doing"},
                    {"id": "task_2", "content": "x", "status": "completed", "activeForm": "x"},
                ],
            }
        ],
    ),
    (
        MemoryActivated(cycle_id="c", triggered_by="ttl", ttl_expired_ms=0),
        [
            {
                "type": "om_activation",
                "cycleId": "c",
                "operationType": "observation",
                "chunksActivated": 0,
                "tokensActivated": 0,
                "observationTokens": 0,
                "messagesActivated": 0,
                "generationCount": 0,
                "triggeredBy": "ttl",
                "ttlExpiredMs": 0,
            }
        ],
    ),
    (ThreadRenamed(title="by hand"), []),
    (
        ThreadRenamed(title="new", old_title="old", cycle_id="c"),
        [
            {
                "type": "om_thread_title_updated",
                "cycleId": "c",
                "threadId": "",
                "oldTitle": "old",
                "newTitle": "new",
            }
        ],
    ),
]


@pytest.mark.parametrize(("event", "expected"), FACTS, ids=[type(event).__name__ for event, _ in FACTS])
def test_facts_are_told_exactly_so(event: Event, expected: list[dict[str, Any]]) -> None:
    assert [wired(one) for one in told(event)] == expected


def test_a_failure_of_memory_is_an_error_that_is_told_once() -> None:
    text = "Observational memory observation run failed: no model"
    events = told(
        START,
        ObservationFailed(cycle_id="c", error="no model"),
        Error(message=text),
        Result(success=False, outcome="interrupted"),
    )

    assert types(events) == ["agent_start", "om_observation_failed", "error", "agent_end"]
    assert events[2].error.message == text  # type: ignore[attr-defined]
    assert wired(events[-1])["reason"] == "aborted"
    buffering = told(BufferingFailed(cycle_id="c", error="x", operation_type="reflection"))
    assert wired(buffering[1])["error"]["message"] == "Observational memory reflection buffering failed: x"
