"""What must not grow without end: notifications, snapshots, and the queue with its files."""

from __future__ import annotations

from typing import Any

import pytest

from harness.events import FollowUpsChanged, NotificationChanged
from harness.folds.page_state.fold import StateFold
from harness.log.stores.memory import MemoryStore
from harness.session.thread_fold import ThreadFold
from harness.session.user_message import UserMessage
from harness_kit import log_of, opened
from running_kit import in_loop


def notification(number: int) -> dict[str, Any]:
    return {"source": "ci", "kind": f"kind-{number}", "priority": "low", "summary": "x"}


@in_loop
async def test_notifications_that_were_reported_are_stored_up_to_a_number() -> None:
    async with opened(storage=MemoryStore()) as (harness, _):
        await harness.create_thread()
        inbox = harness.session.internals.hooks.signals.inbox
        waiting = await harness.send_notification_signal(notification(0))
        for number in range(1, 80):
            emitted = await harness.send_notification_signal(notification(number))
            inbox.update(emitted.id, status=("delivered", "seen", "dismissed", "archived")[number % 4])
        kept = inbox.all()
        assert len(kept) == 51
        assert (kept[0].id, kept[-1].kind) == (waiting.id, "kind-79")
        fold = ThreadFold()
        for event in log_of(harness):
            fold.take(event)
        assert fold.facts.notifications == harness.session.internals.bus.fold.facts.notifications
        assert any(isinstance(event, NotificationChanged) for event in log_of(harness))


@in_loop
async def test_snapshots_are_written_only_after_many_events_and_large_ones_after_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[int] = []
    save = MemoryStore.save_snapshot

    def count(store: MemoryStore, log_id: str, name: str, seq: int, data: bytes) -> None:
        if name == "session":
            written.append(len(data))
        save(store, log_id, name, seq, data)

    monkeypatch.setattr(MemoryStore, "save_snapshot", count)
    async with opened(storage=MemoryStore()) as (harness, _):
        await harness.create_thread()
        await harness.session.state.set({"much": "x" * 200_000})
        fold = harness.session.internals.bus.fold
        while fold.next_seq < 490:
            await harness.send_message(content="hi")
        assert not written
        while fold.next_seq < 800:
            await harness.send_message(content="hi")
        assert len(written) == 1
        thread_id, end = harness.session.thread.require_id(), harness.session.internals.bus.fold.next_seq
        await harness.session.thread.release()
        snapshot = harness.store.snapshot(thread_id, "session")
        assert snapshot is not None
        assert snapshot[0] == end


@in_loop
async def test_what_waits_in_the_queue_is_written_once_with_its_files() -> None:
    async with opened(storage=MemoryStore()) as (harness, record):
        await harness.create_thread()
        runs = harness.session.internals.runs
        for number in range(5):
            runs.queue(UserMessage(text=f"{number} " + "x" * 1000))
        changes = [event for event in log_of(harness) if isinstance(event, FollowUpsChanged)]
        assert [len(event.pending) for event in changes] == [1, 2, 3, 4, 5]
        assert changes[-1].pending[:4] == [0, 1, 2, 3]
        assert [one["count"] for one in record.named("follow_up_queued")] == [1, 2, 3, 4, 5]
        runs.dequeue()
        last = log_of(harness)[-1]
        assert isinstance(last, FollowUpsChanged)
        assert last.pending == [1, 2, 3, 4]
        assert [one["text"][0] for one in runs.queued] == ["1", "2", "3", "4"]
        replayed, shown = ThreadFold(), StateFold()
        for event in log_of(harness):
            replayed.take(event)
            shown.feed(event)
        assert replayed.facts.follow_ups == runs.queued
        assert [one["text"][0] for one in shown.value["followUps"]] == ["1", "2", "3", "4"]
        await runs.drain()
        assert [data["count"] for data in record.named("follow_up_queued")][-4:] == [3, 2, 1, 0]
