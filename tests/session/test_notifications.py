"""Notifications: merged, ruled on, delivered when they are due, and settled by the model itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from harness.contracts.model import UserTurn
from harness.contracts.tool import ToolContext, ToolFailure
from harness.conversation.turns import turn_of
from harness.errors import UsageError
from harness.events import Event, NotificationChanged, Signal
from harness.session.builtin.notification_inbox import NotificationInboxTool
from harness.session.notifications import (
    Circumstances,
    Dispatched,
    InboxDelivery,
    Notification,
    NotificationInbox,
    NotificationInput,
    Policy,
    Priority,
    Ruling,
    dispatch,
    notification_signal,
    notify,
    summary_signal,
    usual_ruling,
)


class Thread:
    """What a session is to its inbox, and the way to its model."""

    def __init__(self, id: str = "thread", *, activity: Any = "idle") -> None:
        self.id = id
        self.agent = "agent"
        self.state = activity
        self.log: list[Event] = []
        self.clock_ms = 1000
        self.emitted: list[tuple[Signal, str]] = []
        self.breaks = ""
        self.inbox = NotificationInbox(self)
        self.post = InboxDelivery(self.inbox, self)

    def thread_id(self) -> str:
        return self.id

    def resource_id(self) -> str:
        return "resource"

    def agent_id(self) -> str:
        return self.agent

    def notifications(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            event.record["id"]: event.record for event in self.log if isinstance(event, NotificationChanged)
        }

    def append(self, event: Event) -> None:
        self.log.append(event)

    def now_ms(self) -> int:
        self.clock_ms += 1
        return self.clock_ms

    def new_id(self) -> str:
        return f"{self.id}-{len(self.log)}"

    def activity(self) -> Any:
        return self.state

    async def deliver(self, signal: Signal, *, if_active: str, if_idle: str) -> None:
        if self.breaks:
            raise UsageError(self.breaks)
        self.emitted.append((signal, if_active if self.state == "active" else if_idle))

    async def show(self, signal: Signal) -> None:
        self.emitted.append((signal, "shown"))

    def send(self, policy: Policy | None = None, **given: Any) -> Notification:
        return asyncio.run(notify(self.post, {**NEWS, **given}, policy))

    def round(self, after_ms: int = 0, **more: Any) -> Dispatched:
        self.clock_ms += after_ms
        return asyncio.run(dispatch([self.post], self.now_ms(), **more))

    @property
    def tags(self) -> list[str]:
        return [signal.tag_name for signal, _ in self.emitted]


NEWS = {"source": "github", "kind": "ci", "summary": "CI failed"}


@pytest.mark.parametrize("key", ["dedupeKey", "coalesceKey"])
def test_one_like_it_that_waits_is_merged(key: str) -> None:
    thread = Thread()
    held = Policy(default="persist")
    first = thread.send(held, **{key: "main"}, attributes={"a": 1}, payload={"n": 1})
    second = thread.send(
        held, **{key: "main"}, attributes={"b": 2}, summary="CI failed: 3 tests", priority="high"
    )
    assert second.id == first.id
    assert (second.coalesced_count, second.summary, second.priority) == (2, "CI failed: 3 tests", "high")
    assert second.attributes == {"a": 1, "b": 2}
    assert second.payload == {"n": 1}
    assert len(thread.inbox.all()) == 1


@pytest.mark.parametrize(
    "other", [{"kind": "issue"}, {"source": "slack"}, {"dedupeKey": "other"}, {"dedupeKey": ""}]
)
def test_others_are_separate(other: dict[str, str]) -> None:
    thread = Thread()
    held = Policy(default="persist")
    thread.send(held, dedupeKey="main")
    thread.send(held, **{"dedupeKey": "main", **other})
    assert len(thread.inbox.all()) == 2


def test_another_agent_or_one_that_was_reported_is_not_merged() -> None:
    thread = Thread()
    thread.send(Policy(default="persist"), dedupeKey="main")
    thread.agent = "other"
    thread.send(Policy(default="persist"), dedupeKey="main")
    assert len(thread.inbox.all()) == 2
    emitted = Thread()
    assert emitted.send(dedupeKey="main").status == "delivered"
    emitted.send(dedupeKey="main")
    assert len(emitted.inbox.all()) == 2


@pytest.mark.parametrize(
    ("priority", "activity", "action", "summary", "full"),
    [
        ("urgent", "idle", "deliver", False, False),
        ("urgent", "active", "deliver", False, False),
        ("high", "idle", "deliver", False, False),
        ("high", "active", "summarize", True, True),
        ("medium", "idle", "deliver", False, False),
        ("medium", "active", "summarize", True, False),
        ("low", "idle", "summarize", True, False),
        ("low", "active", "summarize", True, False),
    ],
)
def test_what_happens_as_usual(
    priority: Priority, activity: Any, action: str, summary: bool, full: bool
) -> None:
    record = Thread().inbox.add(NotificationInput(source="s", kind="k", summary="x", priority=priority))
    ruling = usual_ruling(Circumstances(record=record, activity=activity, now_ms=5))
    assert ruling.action == action
    assert (ruling.summary_at == 5, ruling.deliver_at == 5) == (summary, full)


def test_a_policy_is_asked_in_its_order() -> None:
    async def late(circumstances: Circumstances) -> Ruling | None:
        return Ruling(action="persist") if circumstances.record.kind == "own" else None

    policy = Policy(
        decide=late,
        sources={"github": "discard"},
        priorities={"low": "queue"},
        default=Ruling(action="defer"),
    )

    def ruled(**given: Any) -> str:
        record = Thread().inbox.add(
            NotificationInput(**{"source": "s", "kind": "k", "summary": "x", **given})
        )
        circumstances = Circumstances(record=record, activity="idle", now_ms=1)
        return asyncio.run(policy.ruling(circumstances)).action

    assert ruled(kind="own", source="github") == "persist"
    assert ruled(source="github", priority="low") == "discard"
    assert ruled(priority="low") == "queue"
    assert ruled() == "defer"


def test_an_idle_thread_is_woken_and_the_record_is_delivered() -> None:
    thread = Thread()
    record = thread.send()
    assert record.status == "delivered"
    assert record.delivered_at is not None
    assert record.delivery_reason == "idle-medium"
    ((signal, how),) = thread.emitted
    assert (how, signal.id) == ("wake", record.delivered_signal_id)


def test_what_is_discarded_or_held_is_reported_to_no_one() -> None:
    thread = Thread()
    assert thread.send(Policy(default="discard")).status == "discarded"
    assert thread.send(Policy(default="persist")).status == "pending"
    assert not thread.round().signals
    assert not thread.emitted


def test_what_is_queued_waits_for_the_end_of_the_run() -> None:
    thread = Thread(activity="active")
    thread.send(Policy(default="queue"))
    assert thread.emitted[0][1] == "queue"


def test_what_is_deferred_is_reported_when_it_is_due() -> None:
    thread = Thread()
    record = thread.send(Policy(default=Ruling(action="defer", deliver_at=60_000)))
    assert (record.status, record.deliver_at) == ("pending", 60_000)
    assert not thread.round().delivered
    (delivered,) = thread.round(after_ms=60_000).delivered
    assert (delivered.id, delivered.status) == (record.id, "delivered")
    assert not thread.round().delivered


def test_low_priorities_are_summed_up_and_never_wake() -> None:
    thread = Thread()
    thread.send(priority="low", source="slack")
    thread.send(priority="low")
    thread.send(priority="low", kind="issue")
    assert not thread.emitted
    round = thread.round()
    ((signal, how),) = thread.emitted
    assert how == "persist"
    assert signal.tag_name == "notification-summary"
    assert signal.contents == "github: 2, slack: 1"
    assert [record.status for record in round.delivered] == ["pending"] * 3
    assert not thread.round().signals


def test_a_high_priority_is_summed_up_at_once_and_reported_in_full_when_the_run_is_over() -> None:
    thread = Thread(activity="active")
    record = thread.send(priority="high")
    assert thread.tags == ["notification-summary"]
    assert (record.status, record.summary_at) == ("pending", None)
    assert not thread.round().signals, "the run is still going on"
    thread.state = "idle"
    (delivered,) = thread.round().delivered
    assert delivered.status == "delivered"
    assert thread.tags == ["notification-summary", "notification"]


def test_a_medium_priority_during_a_run_waits_for_the_next_round() -> None:
    thread = Thread(activity="active")
    thread.send()
    thread.send(kind="issue")
    assert not thread.emitted
    thread.round()
    assert [(signal.contents, how) for signal, how in thread.emitted] == [("github: 2", "deliver")]


def test_a_delivery_that_fails_leaves_it_pending_and_is_tried_again() -> None:
    thread = Thread()
    thread.breaks = "no model"
    record = thread.send()
    assert (record.status, record.delivery_attempts, record.last_delivery_error) == ("pending", 1, "no model")
    round = thread.round()
    assert [error for _, error in round.failed] == ["no model"]
    assert thread.inbox.all()[0].delivery_attempts == 2
    thread.breaks = ""
    (delivered,) = thread.round().delivered
    assert delivered.status == "delivered"


def test_a_summary_that_fails_leaves_all_of_it_pending() -> None:
    thread = Thread()
    thread.send(priority="low")
    thread.send(priority="low", kind="issue")
    thread.breaks = "no thread"
    assert len(thread.round().failed) == 2
    assert [(record.status, record.delivery_attempts) for record in thread.inbox.all()] == [
        ("pending", 1)
    ] * 2
    thread.breaks = ""
    assert len(thread.round().delivered) == 2


def test_the_most_urgent_is_reported_first_and_of_those_the_oldest() -> None:
    thread = Thread()
    later = Policy(default=Ruling(action="defer", deliver_at=5000))
    for number, priority in enumerate(["low", "urgent", "medium", "urgent"]):
        thread.send(later, priority=priority, summary=str(number))
    thread.send(Policy(default=Ruling(action="summarize", summary_at=5000)), priority="high", summary="sum")
    thread.round(after_ms=10_000)
    assert [signal.contents for signal, _ in thread.emitted] == ["1", "3", "github: 1", "2", "0"]


def test_a_round_takes_so_many_and_keeps_threads_apart() -> None:
    one, other = Thread("one"), Thread("other")
    later = Policy(default=Ruling(action="defer", deliver_at=2000))
    for thread in (one, other):
        for number in range(3):
            thread.send(later, summary=str(number))
    first = asyncio.run(dispatch([one.post, other.post], 9999, limit=4))
    assert len(first.delivered) == 4
    second = asyncio.run(dispatch([one.post, other.post], 9999))
    assert len(second.delivered) == 2
    assert {signal.contents for signal, _ in one.emitted} == {signal.contents for signal, _ in other.emitted}


def test_what_the_model_sees() -> None:
    thread = Thread()
    record = thread.inbox.add(NotificationInput(**NEWS, attributes={"branch": "main"}))
    signal = notification_signal(record, id="s")
    assert turn_of(signal) == UserTurn(
        f'<notification branch="main" id="{record.id}" type="ci" source="github" kind="ci" priority="medium" '
        'status="pending">CI failed</notification>'
    )
    assert signal.metadata is not None
    assert signal.metadata["notification"]["recordId"] == record.id
    summary = summary_signal([record], id="s")
    assert turn_of(summary) == UserTurn(
        '<notification-summary pending="1" priority="medium">github: 1</notification-summary>'
    )
    assert summary.metadata is not None
    assert summary.metadata["notificationSummary"] == {
        "pending": 1,
        "bySource": {"github": 1},
        "byPriority": {"medium": 1},
        "notificationIds": [record.id],
    }


def test_what_is_no_notification_is_refused() -> None:
    with pytest.raises(UsageError, match="not a notification"):
        asyncio.run(notify(Thread().post, {"source": "x"}))


def use(thread: Thread, action: str, **arguments: Any) -> Any:
    tool = NotificationInboxTool(thread.inbox, thread.show)
    return asyncio.run(tool.run({"action": action, **arguments}, ToolContext(cwd="/"))).result


def test_the_model_lists_and_searches_its_inbox() -> None:
    thread = Thread()
    held = Policy(default="persist")
    thread.send(held, id="a", priority="low")
    thread.send(held, id="b", source="slack", summary="Jane wrote")
    assert [one["id"] for one in use(thread, "list")["notifications"]] == ["b", "a"]
    assert [one["id"] for one in use(thread, "list", priority="low")["notifications"]] == ["a"]
    assert [one["id"] for one in use(thread, "list", limit=1)["notifications"]] == ["b"]
    assert use(thread, "list", status="seen")["notifications"] == []
    assert [one["id"] for one in use(thread, "search", query="JANE")["notifications"]] == ["b"]
    with pytest.raises(ToolFailure, match="search requires query"):
        use(thread, "search")


def test_what_is_read_is_reported_once_and_seen() -> None:
    thread = Thread()
    thread.send(Policy(default="persist"), id="a")
    thread.send(id="b")
    assert [how for _, how in thread.emitted] == ["wake"]
    answer = use(thread, "read")
    assert (answer["delivered"], answer["markedSeen"], answer["alreadyRead"]) == (1, 1, 0)
    assert [how for _, how in thread.emitted] == ["wake", "shown"]
    assert {record.status for record in thread.inbox.all()} == {"seen"}
    again = use(thread, "read", id="a")
    assert (again["delivered"], again["alreadyRead"]) == (0, 1)
    assert not thread.round(after_ms=99_999).signals
    with pytest.raises(ToolFailure, match="Notification zzz was not found for thread thread"):
        use(thread, "read", id="zzz")


@pytest.mark.parametrize(
    ("action", "status"), [("markSeen", "seen"), ("dismiss", "dismissed"), ("archive", "archived")]
)
def test_the_model_puts_notifications_away(action: str, status: str) -> None:
    thread = Thread()
    thread.send(Policy(default="persist"), id="a")
    assert use(thread, action, id="a")["notification"]["status"] == status
    assert f"{status}At" in thread.notifications()["a"]
    with pytest.raises(ToolFailure, match="requires id"):
        use(thread, action)
    with pytest.raises(ToolFailure, match="not found"):
        use(thread, action, id="zzz")
