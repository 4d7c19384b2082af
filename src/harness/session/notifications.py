"""Notifications: records in a thread's inbox, and when and how the model sees them.

A record is stored in the thread's log (`NotificationChanged`: the record as it is now). A new notification
is merged with a pending one of the same key. A policy decides whether the model sees it at once, later, in a
summary, or not at all. `dispatch` delivers what is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.errors import UsageError
from harness.events import Event, NotificationChanged, Signal
from harness.session.signals import create

Priority: TypeAlias = Literal["low", "medium", "high", "urgent"]
NotificationStatus: TypeAlias = Literal["pending", "delivered", "seen", "dismissed", "archived", "discarded"]
_Action: TypeAlias = Literal["deliver", "queue", "defer", "summarize", "persist", "discard"]
_Activity: TypeAlias = Literal["active", "idle"]

URGENCY: dict[Priority, int] = {"urgent": 0, "high": 1, "medium": 2, "low": 3}


class Notification(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One record. Times are milliseconds since the epoch."""

    id: str
    thread_id: str
    source: str
    kind: str
    priority: Priority
    status: NotificationStatus
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
        statuses: Sequence[NotificationStatus] = (),
        priority: Priority | None = None,
        source: str = "",
        search: str = "",
        limit: int | None = None,
    ) -> list[Notification]:
        """Most recently changed first."""
        search_text = search.lower()
        matches = [
            record
            for record in self.all()
            if (not statuses or record.status in statuses)
            and (priority is None or record.priority == priority)
            and (not source or record.source == source)
            and (
                not search_text
                or any(search_text in text.lower() for text in (record.summary, record.kind, record.source))
            )
        ]
        matches.sort(key=lambda record: -record.updated_at)
        return matches[:limit]

    def due(self, now_ms: int) -> list[Notification]:
        """The records that are due by now, the longest due first."""
        due_records = [
            (record.due_ms, record.updated_at, record) for record in self.all() if record.due_ms is not None
        ]
        return [
            record for due_ms, _, record in sorted(due_records, key=lambda row: row[:2]) if due_ms <= now_ms
        ]

    def add(self, value: NotificationInput) -> Notification:
        """Store it: merged into a pending record with the same key, or as a new one."""
        now_ms = self.host.now_ms()
        like = self._like(value)
        if like is not None:
            return self._keep(
                replace(
                    like,
                    summary=value.summary,
                    payload=like.payload if value.payload is None else value.payload,
                    priority=value.priority or like.priority,
                    attributes=_merged(like.attributes, value.attributes),
                    metadata=_merged(like.metadata, value.metadata),
                    coalesced_count=like.coalesced_count + 1,
                    updated_at=now_ms,
                )
            )
        return self._keep(
            Notification(
                id=value.id or self.host.new_id(),
                thread_id=self.host.thread_id(),
                source=value.source,
                kind=value.kind,
                priority=value.priority or "medium",
                status="pending",
                summary=value.summary,
                created_at=now_ms,
                updated_at=now_ms,
                coalesced_count=1,
                delivery_attempts=0,
                payload=value.payload,
                resource_id=self.host.resource_id(),
                agent_id=self.host.agent_id(),
                source_id=value.source_id,
                dedupe_key=value.dedupe_key,
                coalesce_key=value.coalesce_key,
                attributes=value.attributes,
                metadata=value.metadata,
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

    def _like(self, value: NotificationInput) -> Notification | None:
        if not value.dedupe_key and not value.coalesce_key:
            return None
        place = (value.source, value.kind, self.host.agent_id(), self.host.resource_id())
        for record in self.all():
            if record.status != "pending":
                continue
            if (record.source, record.kind, record.agent_id, record.resource_id) != place:
                continue
            if (value.dedupe_key and record.dedupe_key == value.dedupe_key) or (
                value.coalesce_key and record.coalesce_key == value.coalesce_key
            ):
                return record
        return None


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a notification."""

    action: _Action
    deliver_at: int | None = None
    summary_at: int | None = None
    reason: str = ""


_Rule: TypeAlias = _Action | Ruling


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy decides by: the notification, whether a run is active, and the time."""

    record: Notification
    activity: _Activity
    now_ms: int


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Asked in this order: `decide`, the source, the priority, `default`, then `usual_ruling`."""

    decide: Callable[[Circumstances], _Rule | Awaitable[_Rule | None] | None] | None = None
    sources: Mapping[str, _Rule] = msgspec.field(default_factory=dict)
    priorities: Mapping[Priority, _Rule] = msgspec.field(default_factory=dict)
    default: _Rule | None = None

    async def ruling(self, circumstances: Circumstances) -> Ruling:
        """What to do with a notification now."""
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


# Delivers notifications to the model: at once when one arrives, or later when it is due.
#
# Rules
# 1. A notification that was sent in full is `delivered`; one that was only summarised stays `pending`.
# 2. One that cannot be delivered stays `pending` too; the error and one more attempt are recorded.
# 3. A summary of only low priorities never starts a run.
# 4. One of high priority that was summarised during a run is sent in full after the run.


BATCH = 100
EVERY_MS = 60_000
"""How often due notifications are looked for."""


class SignalTarget(Protocol):
    """Delivers signals to the model of one thread."""

    def activity(self) -> _Activity:
        """Whether a run is active."""
        ...

    def deliver(
        self, signal: Signal, *, if_active: Literal["deliver", "queue"], if_idle: Literal["wake", "persist"]
    ) -> Awaitable[object]:
        """Raises an exception if the signal cannot be accepted. `queue`: deliver it after the current run."""
        ...


class InboxDelivery(NamedTuple):
    """The inbox of a thread, and how signals reach its model."""

    inbox: NotificationInbox
    target: SignalTarget


class Dispatched(msgspec.Struct, kw_only=True):
    """The result of a round of deliveries."""

    delivered: list[Notification] = msgspec.field(default_factory=list)
    failed: list[tuple[Notification, str]] = msgspec.field(default_factory=list)
    signals: list[Signal] = msgspec.field(default_factory=list)


async def notify(
    post: InboxDelivery, value: NotificationInput | Mapping[str, Any], policy: Policy | None = None
) -> Notification:
    """Store a notification, and do what the policy says. Returns the record as it is afterwards."""
    inbox, target = post
    record = inbox.add(given(value))
    now_ms, activity = inbox.host.now_ms(), target.activity()
    circumstances = Circumstances(record=record, activity=activity, now_ms=now_ms)
    ruling = await (policy or Policy()).ruling(circumstances)
    reason = {"delivery_reason": ruling.reason} if ruling.reason else {}
    if ruling.action == "discard":
        return inbox.update(record.id, status="discarded", **reason)
    if ruling.action == "persist":
        return inbox.update(record.id, **reason) if reason else record
    if ruling.action in ("deliver", "queue"):
        record = inbox.update(record.id, **reason) if reason else record
        await _deliver_one(post, record, Dispatched(), is_queued=ruling.action == "queue")
    elif ruling.action == "defer":
        deliver_at = now_ms if ruling.deliver_at is None else ruling.deliver_at
        inbox.update(record.id, deliver_at=deliver_at, **reason)
    else:
        summary_at = now_ms if ruling.summary_at is None else ruling.summary_at
        record = inbox.update(record.id, summary_at=summary_at, deliver_at=ruling.deliver_at, **reason)
        if summary_at <= now_ms and URGENCY[record.priority] <= URGENCY["high"]:
            await _deliver_summary(post, [record], Dispatched())
    return inbox.get(record.id) or record


async def dispatch(posts: Iterable[InboxDelivery], now_ms: int, limit: int = BATCH) -> Dispatched:
    """Deliver everything that is due, at most `limit` notifications, thread by thread."""
    due_records = [(record, post) for post in posts for record in post.inbox.due(now_ms)]
    due_records.sort(key=lambda pair: (pair[0].due_ms, pair[0].updated_at))
    groups: dict[tuple[str, str, str], tuple[InboxDelivery, list[Notification]]] = {}
    for record, post in due_records[:limit]:
        key = (record.agent_id, record.resource_id, record.thread_id)
        groups.setdefault(key, (post, []))[1].append(record)
    round = Dispatched()
    for post, records in groups.values():
        await _deliver_group(post, records, now_ms, round)
    return round


async def _deliver_group(
    post: InboxDelivery, records: Sequence[Notification], now_ms: int, round: Dispatched
) -> None:
    """Most urgent first. Those due for a summary are sent together, in the place of the first of them."""
    summed = ordered(record for record in records if _is_summary_due(record, now_ms))
    alone = [record for record in records if not _is_summary_due(record, now_ms)]
    was_active = post.target.activity() == "active"
    for record in ordered([*alone, *summed[:1]]):
        if record in summed:
            await _deliver_summary(post, summed, round)
        elif not (was_active and record.priority == "high" and record.summary_signal_id):
            await _deliver_one(post, record, round)


async def _deliver_one(
    post: InboxDelivery, record: Notification, round: Dispatched, *, is_queued: bool = False
) -> None:
    inbox, target = post
    current = inbox.get(record.id)
    if current is None or current.status != "pending" or current.delivered_signal_id:
        return  # it was read or delivered in the meantime
    now_ms = inbox.host.now_ms()
    delivered = replace(current, status="delivered", delivered_at=now_ms)
    signal = notification_signal(delivered, id=inbox.host.new_id())
    try:
        await target.deliver(signal, if_active="queue" if is_queued else "deliver", if_idle="wake")
    except Exception as error:  # noqa: BLE001 # it is noted, and tried again
        _note_failure(inbox, [current], error, round)
        return
    after = inbox.get(record.id) or current
    changes = {"delivered_signal_id": signal.id, "last_delivery_attempt_at": now_ms, "deliver_at": None}
    if after.status == "pending":
        changes["status"] = "delivered"
    round.delivered.append(inbox.update(record.id, **changes))
    round.signals.append(signal)


async def _deliver_summary(post: InboxDelivery, records: Sequence[Notification], round: Dispatched) -> None:
    inbox, target = post
    signal = summary_signal(records, id=inbox.host.new_id())
    is_quiet = all(record.priority == "low" for record in records)
    try:
        await target.deliver(signal, if_active="deliver", if_idle="persist" if is_quiet else "wake")
    except Exception as error:  # noqa: BLE001 # as in `_deliver_one`
        _note_failure(inbox, records, error, round)
        return
    now_ms = inbox.host.now_ms()
    round.signals.append(signal)
    round.delivered += [
        inbox.update(record.id, summary_at=None, summary_signal_id=signal.id, last_delivery_attempt_at=now_ms)
        for record in records
    ]


def _note_failure(
    inbox: NotificationInbox, records: Sequence[Notification], error: Exception, round: Dispatched
) -> None:
    text = str(error) or type(error).__name__
    for record in records:
        failed = inbox.update(
            record.id,
            delivery_attempts=record.delivery_attempts + 1,
            last_delivery_attempt_at=inbox.host.now_ms(),
            last_delivery_error=text,
            # Immediate deliveries are retried in the next round.
            deliver_at=inbox.host.now_ms() if record.due_ms is None else record.deliver_at,
        )
        round.failed.append((failed, text))


def _is_summary_due(record: Notification, now_ms: int) -> bool:
    return record.summary_at is not None and record.summary_at <= now_ms
