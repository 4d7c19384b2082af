"""One conversation and its watchers: its log is folded once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from harness.clients.conversations.backend import ConversationStatus
from harness.clients.conversations.log_tail import FindHub, LogTail
from harness.errors import HarnessError, UnknownSession
from harness.events import Event
from harness.folds.page_state.fold import StateFold
from harness.folds.page_state.object_stream import ObjectChange
from harness.folds.page_state.shapes import state_message
from harness.log.store import Store
from harness.server.live.frames import Frames, Packet
from harness.session.bus import Bus
from harness.session.open_thread import complete

TICK_S = 1 / 30
_LOOK_EVERY_S = 1.0
"""How often to check whether a log that another process writes is still being written."""
_AT_ONCE = 5_000
"""Events that are folded before other work gets the event loop."""

PacketListener = Callable[[Packet], bool]
"""Takes a frame at once; False when it cannot: then the client catches up by itself."""
FindStatus = Callable[[str], ConversationStatus]
FindBus = Callable[[str], Bus | None]


class SessionChannel:
    """Contract: lives in one event loop; `open` before anything else, `close` last."""

    def __init__(
        self,
        store: Store,
        log_id: str,
        find_hub: FindHub,
        find_status: FindStatus,
        *,
        find_bus: FindBus = lambda _log_id: None,
        tick_s: float = TICK_S,
    ) -> None:
        self.log_id = log_id
        self.watchers = 0
        self.is_deleted = asyncio.Event()
        """Set when the log was deleted."""
        self.left_s = 0.0
        """When the last watcher left, by the loop's clock."""
        self._store = store
        self._find_hub = find_hub
        self._find_status = find_status
        self._tick_s = tick_s
        self._loop = asyncio.get_running_loop()
        self._fold = StateFold(log_id)
        self._frames = Frames(self._fold.encoded, 0)
        self._tail: LogTail | None = None
        self._find_bus = find_bus
        self._bus: Bus | None = None
        """Which reads the log for this channel as well; without one, `_tail` does."""
        self._pushed: list[ObjectChange] = []
        """What the bus has read since the last frame."""
        self._listeners: set[PacketListener] = set()
        self._published = asyncio.Event()
        self._published_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._is_woken = False
        self._missed = 0
        """How many checks in a row have not found the log."""
        self._is_completed = False
        """Whether completing the log of a run that died was tried."""
        self._elsewhere: ConversationStatus | None = None
        """Its status while another server has it loaded."""

    async def open(self) -> None:
        """Read what is there. Raises UnknownSession and StoreError."""
        self._fold, tail = await asyncio.to_thread(self._recovered)
        self._tail = tail
        self._frames = Frames(self._fold.encoded, self._fold.seq)
        self._look()
        self._schedule()  # what came meanwhile has not been scheduled

    async def reopen(self) -> None:
        """The log was replaced: every client gets a new snapshot. Raises as `open` does."""
        self._stop_tail()
        fold, tail = await asyncio.to_thread(self._recovered)
        self._fold, self._tail = fold, tail
        self._status_changes()  # all of it is in the snapshot
        # A position further on than any client's: all of them are too far behind.
        self._frames = Frames(fold.encoded, fold.seq, self._frames.head + 1)
        self._deliver(self._frames.snapshot()[1])
        self._schedule()

    def end(self) -> None:
        """The log was deleted."""
        self.is_deleted.set()
        self._published.set()
        self.close()

    def close(self) -> None:
        for timer in (self._timer, self._look_timer):
            if timer is not None:
                timer.cancel()
        self._stop_tail()

    def _stop_tail(self) -> None:
        self._leave_bus()
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    async def next(self, position: int | None) -> tuple[int, Packet]:
        """The position after the next packet of a client at `position`, and the packet. None: a new client.

        Raises UnknownSession once the log was deleted.
        """
        self._publish([])  # a snapshot has what was read: it must not be sent again
        if position is None:
            return self._frames.snapshot()
        while position == self._frames.head:
            if self.is_deleted.is_set():
                raise UnknownSession("the session was deleted")
            await self._published.wait()
        try:
            return self._frames.head, self._frames.since(position)
        except LookupError:
            self._publish([])
            return self._frames.snapshot()

    def subscribe(self, listener: PacketListener, position: int) -> bool:
        """Give this client every frame from now on; False when it is not at the head."""
        if position != self._frames.head:
            return False
        self._listeners.add(listener)
        return True

    def unsubscribe(self, listener: PacketListener) -> None:
        self._listeners.discard(listener)

    def current(self) -> str:
        """The message with the whole state as it is now."""
        operations, _is_more = self._read_on()
        self._publish(operations)
        return state_message(self._fold.encoded(), self._fold.seq).decode()

    @property
    def value(self) -> dict[str, Any]:
        """The state."""
        return self._fold.value

    @property
    def snapshots_made(self) -> int:
        return self._frames.snapshots_made

    def refresh(self) -> None:
        """The writer of the log, or the capabilities, have changed."""
        if self._tail is not None:
            try:
                self._tail.refresh()
                if self._bus is not None and self._bus is not self._find_bus(self.log_id):
                    self._leave_bus()
            except HarnessError:
                return  # it was deleted
            self._note_status()
            self._wake()

    def _recovered(self) -> tuple[StateFold, LogTail]:
        if self._find_hub(self.log_id) is None:
            complete(self._store, self.log_id)
        return self._read_all()

    def _read_all(self) -> tuple[StateFold, LogTail]:
        metadata = self._store.metadata(self.log_id)
        fold = StateFold(self.log_id, metadata.name)
        tail = LogTail(self._store, self.log_id, self._find_hub, self._wake)
        try:
            while events := tail.poll():
                for event in events:
                    fold.feed(event)
        except BaseException:
            tail.close()
            raise
        return fold, tail

    def _wake(self) -> None:
        """From any thread."""
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._schedule)
            except RuntimeError:  # the loop is closed: no client is connected
                return

    def _schedule(self) -> None:
        if self._timer is None and self._tail is not None:
            delay_s = max(0.0, self._published_s + self._tick_s - self._loop.time())
            self._timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._is_woken = False
        operations, is_more = self._read_on()
        self._publish([*operations, *self._note_elsewhere()])
        if is_more:
            self._schedule()

    def _read_on(self) -> tuple[list[ObjectChange], bool]:
        """Fold new events; returns the operations, and whether there is more to read."""
        if self._bus is not None:
            self._bus.deliver()
        operations, self._pushed = self._pushed, []
        if self._bus is not None:
            return operations, False
        feed = self._fold.feed
        most_seq = self._fold.seq + _AT_ONCE
        while self._tail is not None and self._fold.seq < most_seq:
            try:
                events = self._tail.poll()
            except HarnessError:
                return operations, False  # the log or its disk is not there: what was read of it stays
            if not events:
                self._join_bus()
                return operations, False
            for event in events:
                operations += feed(event)
        return operations, self._tail is not None

    def _join_bus(self) -> None:
        """Let the session that writes the log read it for this channel too."""
        bus, hub = self._find_bus(self.log_id), self._tail.hub if self._tail is not None else None
        if bus is None or hub is None or bus.loop not in (None, self._loop):
            return
        runs = bus.join(hub, self._fold.seq, self._take, self._leave_bus)
        if runs is not None:
            self._bus = bus
            self._fold.share(runs)

    def _take(self, event: Event) -> None:
        self._pushed += self._fold.feed(event)
        self._schedule()

    def _leave_bus(self) -> None:
        if self._bus is None:
            return
        self._bus.leave(self._take)
        self._bus = None
        self._fold.share(None)
        if self._tail is not None:
            with suppress(HarnessError):  # it was deleted
                self._tail.seek(self._fold.seq)

    def _publish(self, operations: list[ObjectChange]) -> None:
        if self._pushed:
            operations = [*self._pushed, *operations]
            self._pushed = []
        if operations:
            self._published_s = self._loop.time()
            head = self._frames.head
            self._frames.add(operations, self._fold.seq)
            self._deliver(self._frames.since(head))

    def _deliver(self, packet: Packet) -> None:
        """To all listeners: it brings them from the previous head to the current one."""
        for listener in [listener for listener in self._listeners if not listener(packet)]:
            self._listeners.discard(listener)
        published, self._published = self._published, asyncio.Event()
        published.set()

    def _note_status(self) -> None:
        self._publish(self._status_changes())

    def _status_changes(self) -> list[ObjectChange]:
        try:
            status = self._find_status(self.log_id)
            self._missed = 0
        except UnknownSession:
            self._missed += 1
            return []  # what was read of it stays
        except HarnessError:
            return []
        is_held = status.is_running
        if not status.is_ours and self._tail is not None:
            is_held = self._tail.is_live()
        operations: list[ObjectChange] = []
        if is_held:
            self._is_completed = False
        elif self._find_hub(self.log_id) is None:
            operations += self._note_end()
        self._elsewhere = status if status.is_elsewhere else None
        if self._elsewhere is not None:
            return operations + self._note_elsewhere()
        operations += self._fold.note("isLive", is_held)
        operations += self._fold.note("grants", list(status.grants))
        return operations + self._fold.note("capabilities", status.capabilities)

    def _note_elsewhere(self) -> list[ObjectChange]:
        """Of a conversation that another server has: only its log shows whether it runs."""
        if self._elsewhere is None:
            return []
        is_running = self._fold.is_going_on
        status = replace(
            self._elsewhere,
            can_steer=self._elsewhere.can_steer and is_running,
            can_cancel=self._elsewhere.can_cancel and self._fold.value["status"] == "running",
            can_branch=self._elsewhere.can_branch and not is_running,
        )
        return [
            *self._fold.note("isLive", is_running),
            *self._fold.note("capabilities", status.capabilities),
        ]

    def _note_end(self) -> list[ObjectChange]:
        """The log has no writer: a run without an end has died."""
        operations: list[ObjectChange] = []
        is_more = True
        while is_more:  # what was written last may not have been read yet
            events_read, is_more = self._read_on()
            operations += events_read
        if self._fold.is_going_on and not self._is_completed:
            self._is_completed = True
            completing = self._loop.run_in_executor(None, complete, self._store, self.log_id)
            completing.add_done_callback(lambda _task: self._wake())
        elif self._fold.is_going_on:
            operations += self._fold.abandon()
        return operations

    def _look(self) -> None:
        """Poll, since there is no notification when another process stops writing."""
        self._look_timer = self._loop.call_later(_LOOK_EVERY_S, self._look)
        self._note_status()
        if self._missed > 1:  # once may be the moment in which the log is being replaced
            self.end()
