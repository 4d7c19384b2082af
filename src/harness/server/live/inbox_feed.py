"""The rows of all sessions for the clients of `/ws/inbox`: changes are collected, and encoded once for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

from harness.clients.commands import Command
from harness.clients.inbox.committed import CommittedChanges
from harness.clients.inbox.rows import InboxRows, RowStatus
from harness.clients.inbox.store_watch import StoreWatch
from harness.clients.inbox.today import Today, today_in
from harness.clients.sessions.histories import RecordedSessions
from harness.clients.sessions.named_logs import name_sessions
from harness.config import Settings
from harness.errors import HarnessError
from harness.folds.inbox.row import InboxRow, RowCan
from harness.formatting.json_text import encode
from harness.log.hub import Hub
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.server.live.channels import Channels
from harness.server.live.frames import Packet
from harness.server.machine.histories import Histories
from harness.server.machine.machine_store import MachineStore
from harness.session.open_thread import complete
from harness.usage.budget_settings import own_value, period_start_ms
from harness.usage.prices import load as load_prices

LISTED = 200
"""How many rows a client gets at first."""
_TICK_S = 0.08
_BETWEEN_S = 0.25
"""Between two messages about one row, unless its state has changed."""
_LOOK_EVERY_S = 1.0
_TODAY_EVERY_S = 10.0
_OTHERS_EVERY_S = 2.0
_COMMITS_EVERY_S = 3.0
_PARKED_EVERY_S = 30.0
_OTHERS_SHARE = 20
"""Looking for sessions that agents have stored takes at most one part in so many of the time."""

Taker = Callable[[Packet], object]


class InboxFeed:
    """Contract: lives in one event loop; `open` first, `close` last."""

    def __init__(self, channels: Channels, settings: Settings) -> None:
        self._channels = channels
        self._backend = channels.backend
        self._store = channels.store
        self._settings = settings
        self.rows = InboxRows(
            channels.store,
            load_prices(settings),
            status=self._status,
            find_hub=channels.backend.hub,
            can_continue=True,
        )
        self.is_loaded = asyncio.Event()
        self._loading = asyncio.Lock()
        """So that rows are shown in the order in which they were read."""
        self.today = Today()
        self.takers: set[Taker] = set()
        self.listeners: list[Callable[[InboxRow | None, InboxRow], None]] = []
        """Called with the row before and now."""
        self._loop = asyncio.get_running_loop()
        self._dirty: set[str] = set()
        self._pending: set[str] = set()
        """Rows that have changed and were not sent."""
        self._sent_rows: dict[str, tuple[float, InboxRow]] = {}
        self._answered: list[dict[str, str]] = []
        self._has_new_today = False
        self._today_until_s = float("-inf")
        self._today_of: tuple[int | None, int, float | None] | None = None
        """Version of the store, beginning of the day, and limit, that `today` was made from."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_woken = False
        self._is_closed = False
        self._hubs: dict[str, tuple[Hub, Callable[[], None]]] = {}
        self._completed: set[str] = set()
        self._preparing: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: StoreWatch | None = None
        channels.backend.listen(self._on_backend)
        channels.backend.listen_to_replacements(self._on_backend)
        channels.answer_listeners.append(self._on_answer)

    def open(self) -> None:
        self._watch = StoreWatch(self._store, self._notified)
        for work in (
            self._load(),
            self._look(),
            self._refresh_today_now_and_then(),
            self._follow_commits(),
            self._wake_parked(),
        ):
            self._do(work)
        if isinstance(self._store, MachineStore):
            self._do(self._follow_histories(self._store.histories))

    def close(self) -> None:
        self._is_closed = True
        if self._watch is not None:
            self._watch.close()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for _hub, stop in self._hubs.values():
            stop()
        self.rows.close()

    def snapshot(self, limit: int = LISTED) -> dict[str, Any]:
        """What a client gets first."""
        page = self.rows.page(limit)
        return {"rows": page.rows, "total": page.total, "counts": page.counts, "today": self.today}

    def mark_seen(self, log_id: str) -> None:
        if self.rows.mark_seen(log_id):
            self._note_changed([log_id])

    def mark_reviewed(self, log_id: str) -> None:
        if self.rows.mark_reviewed(log_id):
            self._note_changed([log_id])

    async def _load(self) -> None:
        async with self._loading:
            with suppress(HarnessError):  # requests report it
                self.rows.show(await asyncio.to_thread(self.rows.read))
        self.is_loaded.set()
        self._sent_rows = {log_id: (0.0, row) for log_id, row in self.rows.rows.items()}
        for log_id, row in self.rows.rows.items():
            if row.state == "lost":
                self._complete(log_id)
        self._schedule()

    def _status(self, metadata: Metadata) -> RowStatus:
        log_id = metadata.session_id
        status = self._backend.status(log_id)
        is_live = status.is_running
        if not status.is_ours:
            is_live = self._store.is_live(log_id)
        can = RowCan(
            submit=status.can_submit,
            steer=status.can_steer,
            answer=status.can_answer,
            cancel=status.can_cancel,
        )
        return RowStatus(is_live, can, is_working=status.is_ours and status.is_running)

    # What changes.

    def _notified(self, log_ids: set[str] | None) -> None:
        """From the thread of the watch."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._note, log_ids)

    def _note(self, log_ids: set[str] | None) -> None:
        if log_ids is None:
            self._do(self._load())
            return
        own = {log_id for log_id in log_ids if log_id in self._hubs}  # their hub notifies
        self._dirty |= log_ids - own
        self._schedule()

    def _on_backend(self, log_id: str) -> None:
        if self._is_closed:
            return
        hub, known_hub = self._backend.hub(log_id), self._hubs.get(log_id)
        if known_hub is not None and known_hub[0] is not hub:
            known_hub[1]()
            del self._hubs[log_id]
        if hub is not None and log_id not in self._hubs:
            self._hubs[log_id] = hub, hub.add_waker(lambda: self._wake(log_id))
        self._dirty.add(log_id)
        self._schedule()

    def _wake(self, log_id: str) -> None:
        """From the thread that writes the log."""
        self._dirty.add(log_id)
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._schedule)

    def _on_answer(self, log_id: str, command: Command, client: str) -> None:
        action = {"Approve": "approve", "Deny": "deny"}.get(type(command).__name__, "answer")
        relay_id = str(getattr(command, "relay_id", ""))
        self._answered.append({"session": log_id, "relayId": relay_id, "by": client, "action": action})
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self.is_loaded.is_set() and not self._is_closed:
            self._timer = self._loop.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer, self._is_woken = None, False
        dirty, self._dirty = self._dirty, set()
        new = {id for id in dirty if not self.rows.is_followed(id) and self._backend.hub(id) is None}
        for log_id in new - self._preparing:
            self._preparing.add(log_id)
            self._do(self._prepare(log_id))
        changed = self.rows.update(dirty - new)
        self._dirty |= self.rows.take_late()
        self._note_changed(changed)
        if self._dirty:
            self._schedule()

    async def _prepare(self, log_id: str) -> None:
        try:
            await asyncio.to_thread(self.rows.prepare, log_id)
        finally:
            self._preparing.discard(log_id)
        self._note_changed(self.rows.update([log_id]))
        self._dirty |= self.rows.take_late()
        self._schedule()

    def _note_changed(self, log_ids: Iterable[str]) -> None:
        self._pending.update(log_ids)
        self._send()

    def _send(self) -> None:
        now_s = self._loop.time()
        ready = {log_id for log_id in self._pending if self._is_due(log_id, now_s)}
        self._pending -= ready
        if self._pending:
            self._schedule()
        changed = [row for log_id in ready if (row := self.rows.rows.get(log_id)) is not None]
        removed = [log_id for log_id in ready if log_id not in self.rows.rows]
        for row in changed:
            before = self._sent_rows.get(row.id)
            self._sent_rows[row.id] = now_s, row
            for listener in self.listeners if not row.history else ():
                listener(None if before is None else before[1], row)
        for log_id in removed:
            self._sent_rows.pop(log_id, None)
        if changed or removed or self._answered or self._has_new_today:
            self._broadcast(changed, removed)

    def _is_due(self, log_id: str, now_s: float) -> bool:
        row, last_sent = self.rows.rows.get(log_id), self._sent_rows.get(log_id)
        if row is None or last_sent is None:
            return True
        is_other = row.state != last_sent[1].state or len(row.asks) != len(last_sent[1].asks)
        return is_other or now_s - last_sent[0] >= _BETWEEN_S

    def _broadcast(self, changed: list[InboxRow], removed: list[str]) -> None:
        answered, self._answered = self._answered, []
        has_new_today, self._has_new_today = self._has_new_today, False
        if not self.takers:
            return
        message: dict[str, Any] = {"type": "rows", "changed": changed, "removed": removed}
        message |= {"counts": self.rows.counts, "total": len(self.rows.rows)}
        message |= {"today": self.today} if has_new_today else {}
        message |= {"answered": answered} if answered else {}
        packet = Packet(encode(message))
        for take in list(self.takers):
            take(packet)

    # What is not notified, and is looked for.

    async def _wake_parked(self) -> None:
        """Load each conversation whose window should be open again and that nobody has: it then continues by itself."""
        seen_parts: set[tuple[str, int]] = set()
        await self.is_loaded.wait()
        while True:
            for row in list(self.rows.rows.values()):
                at_ms = row.limit.continues_at_ms if row.limit is not None else None
                is_due = row.state == "parked" and at_ms is not None and at_ms <= time.time() * 1000
                if at_ms is not None and is_due and not row.is_live and (row.id, at_ms) not in seen_parts:
                    seen_parts.add((row.id, at_ms))
                    with suppress(HarnessError):
                        await self._backend.load(row.id)
            await asyncio.sleep(_PARKED_EVERY_S)

    async def _look(self) -> None:
        """Whether processes that write logs elsewhere still live."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            rows = self.rows.rows
            elsewhere = [row.id for row in list(rows.values()) if row.is_live and row.id not in self._hubs]
            self._note_changed([log_id for log_id in elsewhere if self.rows.refresh_status(log_id)])
            self._note_changed(self.rows.release_idle())
            for log_id in elsewhere:
                if log_id in rows and rows[log_id].state == "lost":
                    self._complete(log_id)

    def _complete(self, log_id: str) -> None:
        """Its process died: end its runs in the log, unless they wait for an answer."""
        if log_id not in self._completed:
            self._completed.add(log_id)
            self._do(asyncio.to_thread(complete, self._store, log_id))

    async def _follow_commits(self) -> None:
        """What was committed outside of Harness needs no review any more."""
        committed = CommittedChanges(self.rows.changed_paths)
        await self.is_loaded.wait()
        while True:
            if self.takers:
                for log_id in await asyncio.to_thread(committed.found, list(self.rows.rows.values())):
                    self.mark_reviewed(log_id)
            await asyncio.sleep(_COMMITS_EVERY_S)

    async def _refresh_today_now_and_then(self) -> None:
        while True:
            if self.takers:
                await self.refresh_today()
            await asyncio.sleep(_TODAY_EVERY_S)

    async def _follow_histories(self, histories: Histories) -> None:
        """The sessions that agents have stored themselves, while there is a client; the newest are sent."""
        await self.is_loaded.wait()
        is_more = True
        while True:
            started_s = self._loop.time()
            if self.takers or is_more:
                with suppress(HarnessError):
                    is_more = await asyncio.to_thread(histories.refresh)
                    rows = await asyncio.to_thread(lambda: histories.rows(self._recorded_sessions()))
                    shown_ids = {*islice(rows, LISTED), *(name for name, row in rows.items() if row.is_live)}
                    changed = self.rows.show_others(rows)
                    self._note_changed(
                        [
                            name
                            for name in changed
                            if name in shown_ids or name in self._sent_rows or name not in rows
                        ]
                    )
            spent_s = self._loop.time() - started_s
            await asyncio.sleep(max(_TICK_S if is_more else _OTHERS_EVERY_S, spent_s * _OTHERS_SHARE))

    def _recorded_sessions(self) -> RecordedSessions:
        logs = list(self.rows.logs)
        if isinstance(self._store, FileStore):
            name_sessions(self._store, logs)
        return RecordedSessions.of(logs)

    def want_today(self) -> None:
        """A client has connected: compute the cost of today soon."""
        self._do(self.refresh_today())

    async def refresh_today(self) -> None:
        """Compute the cost of today, unless that was done a moment ago or nothing has changed."""
        if self._loop.time() < self._today_until_s:
            return
        self._today_until_s = self._loop.time() + _TODAY_EVERY_S
        with suppress(HarnessError):  # requests report it
            version = self._store.version()
            known_state = (version, period_start_ms("day"), own_value("budget.day_usd"))
            if version is not None and known_state == self._today_of:
                return
            self._today_of = known_state
            today = await asyncio.to_thread(self._today)
            if today != self.today:
                self.today, self._has_new_today = today, True
                self._send()

    def _today(self) -> Today:
        return today_in(self._store, load_prices(self._settings))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        if self._is_closed:
            work.close()
            return
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
