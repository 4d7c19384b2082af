"""Notifications: records in a thread's inbox, and when and how the model sees them.

A record is stored in the thread's log (`NotificationChanged`: the record as it is now). A new notification
is merged with a pending one of the same key. A policy decides whether the model sees it at once, later, in a
summary, or not at all. `notification_delivery` delivers what is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.errors import UsageError
from harness.events import Event, NotificationChanged, Signal
from harness.session.signals import create

Priority: TypeAlias = Literal["low", "medium", "high", "urgent"]
Status: TypeAlias = Literal["pending", "delivered", "seen", "dismissed", "archived", "discarded"]
Action: TypeAlias = Literal["deliver", "queue", "defer", "summarize", "persist", "discard"]
Activity: TypeAlias = Literal["active", "idle"]

URGENCY: dict[Priority, int] = {"urgent": 0, "high": 1, "medium": 2, "low": 3}


class Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One record. Times are milliseconds since the epoch."""

    id: str
    thread_id: str
    source: str
    kind: str
    priority: Priority
    status: Status
    summary: str
    created_at: int
    updated_at: int
    coalesced_count: int
    delivery_attempts: int
    payload: Any = None
    resource_id: str = ""
    agent_id: str = ""
    source_id: str = ""
    dedupe_key: str = ""
    coalesce_key: str = ""
    attributes: dict[str, Any] | None = None
    delivered_at: int | None = None
    seen_at: int | None = None
    dismissed_at: int | None = None
    archived_at: int | None = None
    discarded_at: int | None = None
    deliver_at: int | None = None
    summary_at: int | None = None
    delivery_reason: str = ""
    last_delivery_attempt_at: int | None = None
    last_delivery_error: str = ""
    delivered_signal_id: str = ""
    summary_signal_id: str = ""
    metadata: dict[str, Any] | None = None

    @property
    def due_ms(self) -> int | None:
        """When it is to be delivered or summarised; None: not by itself."""
        times = [at for at in (self.deliver_at, self.summary_at) if at is not None]
        return min(times) if times and self.status == "pending" else None


class NotificationInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A notification as the sender gives it."""

    source: str
    kind: str
    summary: str
    priority: Priority | None = None
    payload: Any = None
    source_id: str = ""
    dedupe_key: str = ""
    coalesce_key: str = ""
    attributes: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    id: str = ""


class InboxHost(Protocol):
    """What an inbox needs of a session.

    Contract: after `append(NotificationChanged(…))`, `notifications` contains it.
    """

    def thread_id(self) -> str: ...

    def resource_id(self) -> str: ...

    def agent_id(self) -> str: ...

    def notifications(self) -> Mapping[str, Mapping[str, Any]]:
        """All records of the thread, by id."""
        ...

    def append(self, event: Event) -> None: ...

    def now_ms(self) -> int: ...

    def new_id(self) -> str: ...


class NotificationInbox:
    """The records of one thread."""

    def __init__(self, host: InboxHost) -> None:
        self.host = host

    def all(self) -> list[Notification]:
        return [msgspec.convert(dict(record), Notification) for record in self.host.notifications().values()]

    def get(self, id: str) -> Notification | None:
        record = self.host.notifications().get(id)
        return None if record is None else msgspec.convert(dict(record), Notification)

    def find(
        self,
        *,
        statuses: Sequence[Status] = (),
        priority: Priority | None = None,
        source: str = "",
        search: str = "",
        limit: int | None = None,
    ) -> list[Notification]:
        """Most recently changed first."""
        wanted = search.lower()
        found = [
            record
            for record in self.all()
            if (not statuses or record.status in statuses)
            and (priority is None or record.priority == priority)
            and (not source or record.source == source)
            and (
                not wanted
                or any(wanted in text.lower() for text in (record.summary, record.kind, record.source))
            )
        ]
        found.sort(key=lambda record: -record.updated_at)
        return found[:limit]

    def due(self, now_ms: int) -> list[Notification]:
        """The records that are due by now, the longest due first."""
        found = [
            (record.due_ms, record.updated_at, record) for record in self.all() if record.due_ms is not None
        ]
        return [record for due_ms, _, record in sorted(found, key=lambda one: one[:2]) if due_ms <= now_ms]

    def add(self, given: NotificationInput) -> Notification:
        """Store it: merged into a pending record with the same key, or as a new one."""
        now_ms = self.host.now_ms()
        like = self._like(given)
        if like is not None:
            return self._keep(
                replace(
                    like,
                    summary=given.summary,
                    payload=like.payload if given.payload is None else given.payload,
                    priority=given.priority or like.priority,
                    attributes=_merged(like.attributes, given.attributes),
                    metadata=_merged(like.metadata, given.metadata),
                    coalesced_count=like.coalesced_count + 1,
                    updated_at=now_ms,
                )
            )
        return self._keep(
            Notification(
                id=given.id or self.host.new_id(),
                thread_id=self.host.thread_id(),
                source=given.source,
                kind=given.kind,
                priority=given.priority or "medium",
                status="pending",
                summary=given.summary,
                created_at=now_ms,
                updated_at=now_ms,
                coalesced_count=1,
                delivery_attempts=0,
                payload=given.payload,
                resource_id=self.host.resource_id(),
                agent_id=self.host.agent_id(),
                source_id=given.source_id,
                dedupe_key=given.dedupe_key,
                coalesce_key=given.coalesce_key,
                attributes=given.attributes,
                metadata=given.metadata,
            )
        )

    def update(self, id: str, **changes: Any) -> Notification:
        """Change fields of a record; a new status gets its timestamp. Raises UsageError for an unknown id."""
        record = self.get(id)
        if record is None:
            raise UsageError(f"Notification {id} was not found for thread {self.host.thread_id()}")
        now_ms = self.host.now_ms()
        status = changes.get("status")
        if status is not None and status != "pending":
            changes.setdefault(f"{status}_at", now_ms)
        return self._keep(replace(record, **changes, updated_at=now_ms))

    def _keep(self, record: Notification) -> Notification:
        self.host.append(NotificationChanged(record=msgspec.to_builtins(record)))
        return record

    def _like(self, given: NotificationInput) -> Notification | None:
        if not given.dedupe_key and not given.coalesce_key:
            return None
        place = (given.source, given.kind, self.host.agent_id(), self.host.resource_id())
        for record in self.all():
            if record.status != "pending":
                continue
            if (record.source, record.kind, record.agent_id, record.resource_id) != place:
                continue
            if (given.dedupe_key and record.dedupe_key == given.dedupe_key) or (
                given.coalesce_key and record.coalesce_key == given.coalesce_key
            ):
                return record
        return None


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a notification."""

    action: Action
    deliver_at: int | None = None
    summary_at: int | None = None
    reason: str = ""


Rule: TypeAlias = Action | Ruling


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    record: Notification
    activity: Activity
    now_ms: int


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Asked in this order: `decide`, the source, the priority, `default`, then `usual_ruling`."""

    decide: Callable[[Circumstances], Rule | Awaitable[Rule | None] | None] | None = None
    sources: Mapping[str, Rule] = msgspec.field(default_factory=dict)
    priorities: Mapping[Priority, Rule] = msgspec.field(default_factory=dict)
    default: Rule | None = None

    async def ruling(self, circumstances: Circumstances) -> Ruling:
        record = circumstances.record
        rule: Any = self.decide(circumstances) if self.decide is not None else None
        if isinstance(rule, Awaitable):
            rule = await rule
        rule = rule or self.sources.get(record.source) or self.priorities.get(record.priority) or self.default
        if rule is None:
            return usual_ruling(circumstances)
        return rule if isinstance(rule, Ruling) else Ruling(action=rule)


def usual_ruling(circumstances: Circumstances) -> Ruling:
    now_ms, priority = circumstances.now_ms, circumstances.record.priority
    is_active = circumstances.activity == "active"
    if priority == "urgent":
        return Ruling(action="deliver", reason="urgent")
    if priority == "low":
        reason = "active-batch-summary" if is_active else "idle-low-summary"
        return Ruling(action="summarize", summary_at=now_ms, reason=reason)
    if not is_active:
        return Ruling(action="deliver", reason=f"idle-{priority}")
    if priority == "high":
        reason = "active-high-summary-then-full"
        return Ruling(action="summarize", summary_at=now_ms, deliver_at=now_ms, reason=reason)
    return Ruling(action="summarize", summary_at=now_ms, reason="active-batch-summary")


def notification_signal(record: Notification, *, id: str) -> Signal:
    """The signal that shows the model one notification."""
    repeated = {"coalescedCount": record.coalesced_count} if record.coalesced_count > 1 else {}
    facts = {
        "source": record.source,
        "kind": record.kind,
        "priority": record.priority,
        "status": record.status,
        **repeated,
    }
    times = {"deliveredAt": record.delivered_at, "seenAt": record.seen_at}
    dated = {name: at for name, at in times.items() if at is not None}
    return create(
        "notification",
        record.summary,
        id=id,
        attributes={**(record.attributes or {}), "id": record.id, "type": record.kind, **facts},
        metadata={
            **(record.metadata or {}),
            "notification": {"signal": "notification", "recordId": record.id, **facts, **dated},
        },
    )


def summary_signal(records: Sequence[Notification], *, id: str) -> Signal:
    """The signal that summarises several for the model: how many, and from which sources."""
    by_source = dict(sorted(Counter(record.source for record in records).items()))
    by_priority = dict(Counter(record.priority for record in records))
    pending = sum(record.status == "pending" for record in records)
    ids = [record.id for record in records]
    highest = {"priority": min(by_priority, key=URGENCY.__getitem__)} if by_priority else {}
    summary = {
        "pending": pending,
        "bySource": by_source,
        "byPriority": by_priority,
        "notificationIds": ids,
    }
    groups = [{"source": source, "count": count} for source, count in by_source.items()]
    return create(
        "notification",
        ", ".join(f"{source}: {count}" for source, count in by_source.items()) or "No pending notifications",
        id=id,
        tag_name="notification-summary",
        attributes={"pending": pending, **highest},
        metadata={
            "notification": {
                "signal": "summary",
                "pending": pending,
                "groups": groups,
                "byPriority": by_priority,
                "notificationIds": ids,
                **highest,
            },
            "notificationSummary": summary,
            **summary,
        },
    )


def given(value: NotificationInput | Mapping[str, Any]) -> NotificationInput:
    """Raises UsageError for input that is not a notification."""
    if isinstance(value, NotificationInput):
        return value
    try:
        return msgspec.convert(dict(value), NotificationInput)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"not a notification: {error}", hint="source, kind and summary are needed"
        ) from error


def ordered(records: Iterable[Notification]) -> list[Notification]:
    """Most urgent first; among equals, oldest first."""
    return sorted(records, key=lambda record: (URGENCY[record.priority], record.created_at))


def _merged(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any] | None:
    return {**(old or {}), **new} if new else old
