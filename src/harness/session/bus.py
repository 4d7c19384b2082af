"""Delivers the events of a thread's log to the listeners of a session, in order, each once.

The bus reads an event from the log, translates it into session events, folds these into the display state,
and only then calls the listeners. An exception in a listener is logged and ignored. Events that a listener
causes are delivered after the current ones.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from harness.events import Event, ToolEnd
from harness.folds.session.display import reduce
from harness.folds.session.events import DisplayStateChangedEvent, HarnessEvent, SessionEvent
from harness.folds.session.question_events import QUESTIONS, QuestionAnswers, bind
from harness.log.hub import Follower, Hub
from harness.log.run_tree import RunTree
from harness.session.public_side import public
from harness.session.thread_fold import ThreadFold

Listener: TypeAlias = Callable[[SessionEvent], Awaitable[None] | None]

_logger = logging.getLogger("harness.session")


@public("attach", "attach_fork", "detach", "display_changed", "emit", "fold", "loop", "notify")
class Bus:
    """Contract: used only in the thread of the event loop; the log may be written by any thread."""

    def __init__(
        self,
        on_event: Callable[[Event], None],
        on_folded: Callable[[], None] = lambda: None,
        *,
        quiet: Collection[type[Event]] = (),
        answers: QuestionAnswers | None = None,
    ) -> None:
        """`on_event`: called with every event of the log before it is translated, except the `quiet` ones;
        `on_folded`: called after an event about the runs is folded and before the listeners are called; `answers`: what
        the questions among the events are answered through.
        """
        self.fold: ThreadFold = ThreadFold()
        self._changed: DisplayStateChangedEvent | None = None
        self._quiet = frozenset(quiet)
        self._answers = answers
        self._on_event = on_event
        self._on_folded = on_folded
        self._listeners: list[Listener] = []
        self._readers: dict[Callable[[Event], None], Callable[[], None]] = {}
        """Other readers of the same log, each with a callback for when the bus stops reading it."""
        self._follower: Follower | None = None
        self._forks: dict[str, tuple[Follower, Callable[[], None]]] = {}
        """By call: the logs of forked sub-agents, each with a function that removes its waker."""
        self._stop_waking: list[Callable[[], None]] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop in which the log is followed; None while only the session itself writes to it."""
        self._is_delivering = False
        self._is_scheduled = False
        self._tasks: set[asyncio.Task[Any]] = set()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on; returns a function that ends that."""
        self.fold.show()
        self._listeners = [*self._listeners, listener]

        def unsubscribe() -> None:
            self._listeners = [other for other in self._listeners if other is not listener]
            if not self._listeners:
                self.fold.hide()

        return unsubscribe

    def attach(self, hub: Hub, cursor: int, fold: ThreadFold, *, wakes: bool = True) -> None:
        """Follow another log from `cursor` on; `fold` is the state before it.

        `wakes`: schedule a delivery when the log changes; not needed if only the session itself writes to it.
        """
        self.detach()
        self.fold = fold
        if self._listeners:
            fold.show()
        else:
            fold.hide()
        self._follower = hub.follower(cursor)
        if wakes:
            self._stop_waking.append(hub.add_waker(self._waker()))

    def join(
        self, hub: Hub, next_seq: int, read: Callable[[Event], None], on_left: Callable[[], None]
    ) -> RunTree | None:
        """Call `read` with every event of that log from now on, after it was fed to `fold`.

        So the log is read only once, and the caller may share the run tree that this returns. None when the
        bus reads another log, or is not at that event.
        """
        self.deliver()
        is_there = self._follower is not None and self._follower.hub is hub and not self._is_delivering
        if not is_there or self.fold.next_seq != next_seq:
            return None
        self._readers[read] = on_left
        return self.fold.tree

    def leave(self, read: Callable[[Event], None]) -> None:
        """End what `join` began."""
        self._readers.pop(read, None)

    def attach_fork(self, call_id: str, hub: Hub) -> None:
        """Follow the log of a forked sub-agent as well, from now on, until it ends."""
        self._forks[call_id] = (hub.follower(hub.next_seq), hub.add_waker(self._waker()))

    def detach(self) -> None:
        """Deliver what has not been delivered yet, then follow no log."""
        self.deliver()
        readers, self._readers = self._readers, {}
        for on_left in readers.values():
            on_left()
        for stop in self._stop_waking:
            stop()
        self._stop_waking.clear()
        for call_id in list(self._forks):
            self._leave_fork(call_id)
        if self._follower is not None:
            self._follower.close()
        self._follower = None

    def deliver(self) -> None:
        """Deliver everything that is in the log. A call during a delivery is left to that delivery."""
        self._is_scheduled = False
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._deliver_some():
                pass
        finally:
            self._is_delivering = False

    def emit(self, event: HarnessEvent) -> None:
        """Fold one event into the display state, emit it, then emit that the display state changed."""
        fold = self.fold
        if fold.is_shown:
            reduce(fold.shown_display, event)
        else:
            fold.change_display(partial(fold.reduce, event))
        self.notify(event)

    def notify(self, event: HarnessEvent) -> None:
        """Emit an event that the display state already includes: another thread is shown, or none."""
        if self._listeners:
            if self._answers is not None and isinstance(event, QUESTIONS):
                bind(event, self._answers)
            self._notify_listeners(event)
            self.display_changed()

    def display_changed(self) -> None:
        """Emit that the display state changed; also called when it changed without an event."""
        if not self._listeners:
            return
        changed, display = self._changed, self.fold.shown_display  # with a listener it is current
        if changed is None or changed.display_state is not display:
            changed = self._changed = DisplayStateChangedEvent(display_state=display)
        self._notify_listeners(changed)

    def _deliver_some(self) -> bool:
        follower = self._follower
        if follower is None:
            return False
        batch, quiet = follower.poll(), self._quiet
        for event in batch:
            if self._forks and isinstance(event, ToolEnd):
                self._deliver_fork(event.call_id)  # what the fork did comes before its end
            if type(event) not in quiet:
                self._notice(event)
            session_events = self.fold.feed(event)
            for read in self._readers:
                self._read(read, event)
            if self.fold.has_news:
                self._on_folded()
            for session_event in session_events:
                self.emit(session_event)
            if follower is not self._follower:
                return True  # a listener switched to another thread
        has_more = bool(batch)
        for call_id in list(self._forks):
            has_more |= self._deliver_fork(call_id)
        return has_more

    def _read(self, read: Callable[[Event], None], event: Event) -> None:
        try:
            read(event)
        except Exception:
            _logger.exception("a reader failed on %s", type(event).__name__)

    def _deliver_fork(self, call_id: str) -> bool:
        if call_id not in self._forks:
            return False
        fork, _ = self._forks[call_id]
        batch = fork.poll()
        for event in batch:
            if self.fold.is_shown:
                for session_event in self.fold.translation.feed_fork(call_id, event):
                    self.emit(session_event)
        if fork.is_ended:
            self._leave_fork(call_id)
        return bool(batch)

    def _leave_fork(self, call_id: str) -> None:
        fork, stop_waking = self._forks.pop(call_id)
        stop_waking()
        fork.close()

    def _notice(self, event: Event) -> None:
        try:
            self._on_event(event)
        except Exception:
            _logger.exception("what is to be done at %s failed", type(event).__name__)

    def _notify_listeners(self, event: HarnessEvent) -> None:
        for listener in self._listeners:
            try:
                answer = listener(event)  # type: ignore[arg-type] # every emitted event is a SessionEvent
                if answer is not None and inspect.isawaitable(answer):
                    self._await(answer)
            except Exception:
                _logger.exception("a listener failed on %s", event.type)

    def _await(self, answer: Awaitable[None]) -> None:
        async def wait() -> None:
            try:
                await answer
            except Exception:
                _logger.exception("a listener failed")

        task = asyncio.get_running_loop().create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _waker(self) -> Callable[[], None]:
        """The callback of a hub after each change, called in the thread that writes."""
        loop, home = asyncio.get_running_loop(), threading.get_ident()
        self.loop = loop

        def wake() -> None:
            if self._is_scheduled:
                return
            self._is_scheduled = True
            if threading.get_ident() == home:
                loop.call_soon(self.deliver)
            else:
                with suppress(RuntimeError):  # the loop is closed: no listener is left
                    loop.call_soon_threadsafe(self.deliver)

        return wake
