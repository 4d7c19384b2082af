"""Files, signals, tasks and memory of a log as parts of messages. Unreadable data never raises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

import msgspec

from harness.events import (
    Message,
    ObservationEnd,
    ObservationFailed,
    ObservationStart,
    Signal,
    TasksChanged,
)
from harness.folds.session.display_state import TaskItem
from harness.folds.session.messages import Role
from harness.folds.session.parts import (
    FilePart,
    ImagePart,
    NotificationPart,
    NotificationSummaryPart,
    OmObservationEndPart,
    OmObservationFailedPart,
    OmObservationStartPart,
    Part,
    ReactiveSignalPart,
    SignalPart,
    StateSignalPart,
    SystemReminderPart,
    TextPart,
)
from harness.formatting.json_text import compact

Kind = TypeVar("Kind")
_REMINDER = "system-reminder"
_SUMMARY = "notification-summary"


def parts_of_message(message: Message) -> list[Part]:
    """Its text, then its files."""
    text: list[Part] = [TextPart(text=message.text)] if message.text else []
    return [*text, *files_of(message.parts or ())]


def files_of(parts: Sequence[Any]) -> list[ImagePart | FilePart]:
    """The files and images among parts; other and unreadable parts are skipped."""
    return [file for part in parts if (file := _file(_as_data(part))) is not None]


def parts_of_contents(contents: Any) -> list[Part]:
    """The contents of a signal: text, or a list of text and files."""
    if isinstance(contents, str):
        return [TextPart(text=contents)] if contents else []
    parts: list[Part] = []
    for part in contents if isinstance(contents, list | tuple) else ():
        data = {"type": "text", "text": part} if isinstance(part, str) else _as_data(part)
        text = data.get("text")
        if data.get("type") == "text" and isinstance(text, str):
            parts.append(TextPart(text=text))
        elif (file := _file(data)) is not None:
            parts.append(file)
    return parts


def part_of_signal(signal: Signal) -> SignalPart:
    """The part for any signal except a user's message."""
    words = "\n".join(part.text for part in parts_of_contents(signal.contents) if isinstance(part, TextPart))
    # Attributes are what the model sees; longer data may be in the metadata only.
    attributes = {**(signal.metadata or {}), **(signal.attributes or {})}
    if signal.category == "state":
        return _state_signal(signal, words)
    if signal.category == "notification":
        summary = signal.tag_name == _SUMMARY
        return (
            _notification_summary(signal, words, attributes)
            if summary
            else _notification(signal, words, attributes)
        )
    if signal.tag_name == _REMINDER:
        return _reminder(words, attributes)
    return ReactiveSignalPart(
        id=signal.id or None,
        tag_name=signal.tag_name,
        message=words,
        attributes=signal.attributes,
        metadata=signal.metadata,
    )


def role_of_signal(signal: Signal) -> Role:
    """The role of a signal that is a message of its own: `user`, unless its metadata has another role."""
    role_name: Any = (signal.metadata or {}).get("role")
    role: Role = role_name if role_name in get_args(Role) else "user"
    return role


def part_of_observation(event: ObservationStart | ObservationEnd | ObservationFailed) -> Part:
    """The part that marks where the memory observed the conversation."""
    if isinstance(event, ObservationStart):
        return OmObservationStartPart(
            tokens_to_observe=event.tokens_to_observe, operation_type=event.operation_type
        )
    if isinstance(event, ObservationFailed):
        return OmObservationFailedPart(error=event.error, operation_type="observation")
    return OmObservationEndPart(
        tokens_observed=event.tokens_observed,
        observation_tokens=event.observation_tokens,
        duration_ms=event.duration_ms,
        operation_type="observation",
        observations=event.observations or None,
        current_task=event.current_task or None,
        suggested_response=event.suggested_response or None,
    )


def task_items(event: TasksChanged) -> list[TaskItem]:
    return [
        TaskItem(
            id=task.id or f"task_{number}",
            content=task.text,
            status=task.status,
            active_form=task.active_form or task.text,
        )
        for number, task in enumerate(event.tasks, 1)
    ]


def _reminder(words: str, attributes: Mapping[str, Any]) -> SystemReminderPart:
    timestamp = attributes.get("timestamp")
    return SystemReminderPart(
        message=words,
        reminder_type=_first(str, attributes.get("type"), attributes.get("reminderType")),
        path=_first(str, attributes.get("path")),
        precedes_message_id=_first(str, attributes.get("precedesMessageId")),
        gap_text=_first(str, attributes.get("gapText")),
        gap_ms=_first(float, _number(attributes.get("gapMs"))),
        timestamp=None
        if timestamp is None
        else timestamp
        if isinstance(timestamp, str)
        else compact(timestamp),
        goal_max_turns=_count(attributes.get("goalMaxTurns")),
        judge_model_id=_first(str, attributes.get("judgeModelId")),
        goal_evaluation=attributes.get("goalEvaluation"),
    )


def _state_signal(signal: Signal, words: str) -> StateSignalPart:
    state = signal.state or {}
    return StateSignalPart(
        id=signal.id or None,
        state_id=_first(str, state.get("id"), state.get("stateId")) or signal.tag_name,
        mode="delta" if state.get("mode") == "delta" else "snapshot",
        cache_key=_first(str, state.get("cacheKey"), state.get("cache_key")),
        version=_count(state.get("version")),
        message=words,
    )


def _notification(signal: Signal, words: str, attributes: Mapping[str, Any]) -> NotificationPart:
    record = attributes.get("notification")
    if isinstance(record, Mapping):
        attributes = {**record, **attributes}
    return NotificationPart(
        id=signal.id or None,
        notification_id=_first(str, attributes.get("notificationId"), attributes.get("id")),
        message=words,
        source=_first(str, attributes.get("source")),
        kind=_first(str, attributes.get("kind")),
        priority=_first(str, attributes.get("priority")),
        status=_first(str, attributes.get("status")),
        attributes=signal.attributes,
        metadata=signal.metadata,
    )


def _notification_summary(
    signal: Signal, words: str, attributes: Mapping[str, Any]
) -> NotificationSummaryPart:
    inner = attributes.get("summary")
    if isinstance(inner, Mapping):
        attributes = {**inner, **attributes}
    ids = attributes.get("notificationIds")
    return NotificationSummaryPart(
        id=signal.id or None,
        message=words,
        pending=_count(attributes.get("pending")) or 0,
        by_source=_first(dict, attributes.get("bySource")) or {},
        by_priority=_first(dict, attributes.get("byPriority")) or {},
        notification_ids=[str(id) for id in ids] if isinstance(ids, list) else [],
    )


def _file(part: Mapping[str, Any]) -> ImagePart | FilePart | None:
    if part.get("type") not in ("file", "image"):
        return None
    data = _first(str, part.get("data"), part.get("image"))
    if data is None:
        return None
    unknown = "image/png" if part["type"] == "image" else "application/octet-stream"
    kind = _first(str, part.get("media_type"), part.get("mediaType"), part.get("mimeType")) or unknown
    if kind.startswith("image/"):
        return ImagePart(data=data, mime_type=kind)
    name = _first(str, part.get("name"), part.get("filename")) or ""
    return FilePart(data=data, media_type=kind, filename=name)


def _first(kind: type[Kind], *values: Any) -> Kind | None:
    return next((value for value in values if isinstance(value, kind)), None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and abs(number) < 2**63 else None


def _as_data(part: Any) -> Mapping[str, Any]:
    """A part as plain data, as in the log file; in a live run it may still be a struct."""
    if isinstance(part, msgspec.Struct):
        part = msgspec.to_builtins(part)
    return part if isinstance(part, dict) else {}
