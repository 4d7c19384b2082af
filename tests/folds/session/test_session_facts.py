"""Signals, files and the facts of a thread."""

from __future__ import annotations

from typing import Any

import pytest

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
    ObservationEnd,
    ObservationFailed,
    ObservationStart,
    ReflectionFailed,
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
from harness.folds.session.encoding import to_wire
from harness.folds.session.translation import SessionTranslation, history_messages
from session_log import DONE, START, emitted, logged, types, wired


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
    live = emitted(START, event)
    idle = emitted(event)
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
    events = emitted(START, TextDelta(text="x"), event)

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


def test_the_whole_state_is_emitted_with_what_changed() -> None:
    events = emitted(StateChanged(changes={"a": 1}), StateChanged(changes={"b": 2, "a": 3}))

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
def test_facts_are_emitted_in_this_form(event: Event, expected: list[dict[str, Any]]) -> None:
    assert [wired(one) for one in emitted(event)] == expected


def test_a_failure_of_memory_is_an_error_that_is_emitted_once() -> None:
    text = "Observational memory observation run failed: no model"
    events = emitted(
        START,
        ObservationFailed(cycle_id="c", error="no model"),
        Error(message=text),
        Result(success=False, outcome="interrupted"),
    )

    assert types(events) == ["agent_start", "om_observation_failed", "error", "agent_end"]
    assert events[2].error.message == text  # type: ignore[attr-defined]
    assert wired(events[-1])["reason"] == "aborted"
    buffering = emitted(BufferingFailed(cycle_id="c", error="x", operation_type="reflection"))
    assert wired(buffering[1])["error"]["message"] == "Observational memory reflection buffering failed: x"


def test_a_try_of_memory_that_is_made_again_or_was_stopped_is_no_error() -> None:
    events = emitted(
        START,
        ObservationFailed(cycle_id="a", error="stopped", stopped=True),
        ReflectionFailed(cycle_id="b", error="stopped", stopped=True),
        ReflectionFailed(cycle_id="c", error="too long", will_retry=True),
        BufferingFailed(cycle_id="d", error="too long", operation_type="reflection", will_retry=True),
    )

    assert types(events) == [
        "agent_start",
        *("om_observation_failed", "om_reflection_failed", "om_reflection_failed", "om_buffering_failed"),
    ]


def test_a_message_has_a_mark_where_its_conversation_was_noted_down() -> None:
    log = logged(
        START,
        TextDelta(id="a", text="Let me see."),
        ObservationStart(cycle_id="c", tokens_to_observe=700),
        ObservationEnd(
            cycle_id="c",
            duration_ms=5,
            tokens_observed=700,
            observation_tokens=20,
            observations="* noted",
            current_task="Do it",
        ),
        ThreadRenamed(title="New", old_title="Old", cycle_id="c"),
        TextDelta(id="b", text="Done."),
        DONE,
    )
    translation = SessionTranslation()
    events = [one for event in log for one in translation.feed(event)]

    assert types(events) == [
        "agent_start",
        *("message_start", "message_update"),
        *("om_observation_start", "message_update"),
        *("om_observation_end", "message_update"),
        *("om_thread_title_updated", "message_update"),
        *("message_update", "message_end", "agent_end"),
    ]
    parts = [
        {"type": "text", "text": "Let me see."},
        {"type": "om_observation_start", "tokensToObserve": 700, "operationType": "observation"},
        {
            "type": "om_observation_end",
            "tokensObserved": 700,
            "observationTokens": 20,
            "durationMs": 5,
            "operationType": "observation",
            "observations": "* noted",
            "currentTask": "Do it",
        },
        {"type": "om_thread_title_updated", "threadId": "", "oldTitle": "Old", "newTitle": "New"},
        {"type": "text", "text": "Done."},
    ]
    assert wired(events[-2])["message"]["content"] == parts
    [message] = history_messages(log)
    assert to_wire(message)["content"] == parts


def test_a_run_that_has_said_nothing_yet_begins_its_message_with_the_mark() -> None:
    failed = ObservationFailed(cycle_id="c", error="no model")
    events = emitted(START, ObservationStart(cycle_id="c", tokens_to_observe=700), failed)

    assert types(events) == [
        "agent_start",
        *("om_observation_start", "message_start", "message_update"),
        *("message_update", "om_observation_failed", "error"),
    ]
    assert wired(events[4])["message"]["content"] == [
        {"type": "om_observation_start", "tokensToObserve": 700, "operationType": "observation"},
        {"type": "om_observation_failed", "error": "no model", "operationType": "observation"},
    ]


def test_what_was_noted_of_another_thread_or_between_runs_marks_no_message() -> None:
    other = ObservationEnd(cycle_id="c", observations="* x", thread_id="another")
    assert types(emitted(START, TextDelta(text="Hi."), other))[-1] == "om_observation_end"
    assert types(emitted(ObservationStart(cycle_id="c"))) == ["om_observation_start"]
