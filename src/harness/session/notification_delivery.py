"""Delivers notifications to the model: at once when one arrives, or later when it is due.

Rules
1. A notification that was sent in full is `delivered`; one that was only summarised stays `pending`.
2. One that cannot be delivered stays `pending` too; the error and one more attempt are recorded.
3. A summary of only low priorities never starts a run.
4. One of high priority that was summarised during a run is sent in full after the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from harness.events import Signal
from harness.session.notifications import (
    URGENCY,
    Activity,
    Circumstances,
    Notification,
    NotificationInbox,
    NotificationInput,
    Policy,
    given,
    notification_signal,
    ordered,
    summary_signal,
)

BATCH = 100
EVERY_MS = 60_000
"""How often due notifications are looked for."""


class SignalTarget(Protocol):
    """Delivers signals to the model of one thread."""

    def activity(self) -> Activity:
        """Whether a run is going on."""
        ...

    def deliver(
        self, signal: Signal, *, if_active: Literal["deliver", "queue"], if_idle: Literal["wake", "persist"]
    ) -> Awaitable[object]:
        """Raises an exception if the signal cannot be accepted. `queue`: deliver it after the current run."""
        ...


class InboxDelivery(NamedTuple):
    """The inbox of a thread, and how signals reach its model."""

    inbox: NotificationInbox
    door: SignalTarget


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
    found = [(record, post) for post in posts for record in post.inbox.due(now_ms)]
    found.sort(key=lambda one: (one[0].due_ms, one[0].updated_at))
    groups: dict[tuple[str, str, str], tuple[InboxDelivery, list[Notification]]] = {}
    for record, post in found[:limit]:
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
    was_active = post.door.activity() == "active"
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
    except Exception as error:
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
    except Exception as error:
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
