"""One session as one client sees it: its log, followed and told as updates; its questions, asked and withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from harness.clients.acp.wire import INTERNAL_ERROR, RpcError
from harness.clients.conversations.backend import Backend
from harness.clients.conversations.log_tail import LogTail
from harness.errors import HarnessError
from harness.events import Error, Event, Message, Relay, Result
from harness.folds.standards.acp import FAILURES, AcpFold, AcpOptions, stop_reason
from harness.log.store import Store

_MOST_OWN = 16
_LAST_LOOK_S = 1.0
_EACH_LOOK_S = 1.0


class WatchListener(NamedTuple):
    """The client's side of it."""

    update: Callable[[dict[str, Any]], None]
    ask: Callable[[Relay], None]
    withdraw: Callable[[str], None]
    room: Callable[[], Awaitable[None]]
    """Waits until the client has read most of what it was told."""


class PromptTurn:
    """A prompt that is being answered."""

    def __init__(self) -> None:
        self.done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it stopped, or RpcError."""
        self.run_id = ""
        self.trouble = ""
        """What the run said of its trouble."""

    def end(self, result: Result) -> None:
        if self.done.done():
            return
        if result.outcome in FAILURES:
            words = result.text or self.trouble or f"the run ended as {result.outcome}"
            self.done.set_exception(RpcError(INTERNAL_ERROR, words[:2000], {"outcome": result.outcome}))
        else:
            self.done.set_result(stop_reason(result))

    def stop(self) -> None:
        if not self.done.done():
            self.done.set_result("cancelled")

    def fail(self, words: str) -> None:
        if not self.done.done():
            self.done.set_exception(RpcError(INTERNAL_ERROR, words))


class SessionWatch:
    """Contract: lives in one event loop. `start` begins, `close` ends; what it was told stays told."""

    def __init__(
        self, store: Store, backend: Backend, log_id: str, options: AcpOptions, listener: WatchListener
    ) -> None:
        self.log_id = log_id
        self._store, self._backend, self._listener = store, backend, listener
        self._fold = AcpFold(options)
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._tail: LogTail | None = None
        self._task: asyncio.Task[None] | None = None
        self._own_prompts: list[str] = []
        """Prompts of this client, which it shows by itself."""
        self._asked_ids: set[str] = set()
        self.turn: PromptTurn | None = None
        self.is_stopping = False
        """Whether the client wants the turn to be stopped."""

    @property
    def open_questions(self) -> dict[str, Relay]:
        return dict(self._fold.open_questions)

    def row(self, relay: Relay) -> str:
        """The row that a question is asked at."""
        return self._fold.row(relay.run_id, relay.call_id) if relay.call_id else f"ask-{relay.id}"

    async def replay(self, batches: Iterable[Sequence[Event]], *, is_told: bool) -> None:
        """What was before, of a log that is not followed: a session in the history of an agent."""
        for batch in batches:
            await self._take_past(batch, is_told=is_told)

    async def start(self, *, is_told: bool) -> None:
        """Read what is there, and follow the log. Raises HarnessError."""
        self._tail = LogTail(self._store, self.log_id, self._backend.hub, self._wake)
        while events := self._tail.poll():
            await self._take_past(events, is_told=is_told)
        self._task = self._loop.create_task(self._follow())

    async def _take_past(self, events: Sequence[Event], *, is_told: bool) -> None:
        for event in events:
            updates = self._fold.feed(event)
            if is_told:
                self._tell(updates)
                await self._listener.room()

    def ask_open_questions(self) -> None:
        for relay in self.open_questions.values():
            self._ask(relay)

    def prompted(self, text: str) -> PromptTurn:
        """The client has sent this: it is not told again, and its end is awaited."""
        self._own_prompts = [*self._own_prompts[-_MOST_OWN:], text.strip()]
        self.turn, self.is_stopping = PromptTurn(), False
        return self.turn

    def refresh(self) -> None:
        """The conversation was loaded, unloaded, or has another status."""
        if self._tail is not None:
            with suppress(HarnessError):
                self._tail.refresh()
        self._woken.set()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._tail is not None:
            self._tail.close()
        if self.turn is not None:
            self.turn.fail("the session was closed")
            self.turn = None

    def _wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._woken.set)

    async def _follow(self) -> None:
        assert self._tail is not None, "it was started"
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                while events := self._tail.poll():
                    for event in events:
                        self._take(event)
                        await self._listener.room()
                    await asyncio.sleep(0)
                self._check_turn()
            except HarnessError as error:
                if self.turn is not None:
                    self.turn.fail(error.words)

    def _take(self, event: Event) -> None:
        updates = self._fold.feed(event)
        if isinstance(event, Message) and event.role == "user" and self._is_own(event):
            updates = [update for update in updates if update["sessionUpdate"] != "user_message_chunk"]
        self._tell(updates)
        turn = self.turn
        if turn is not None and not turn.run_id and self._fold.is_top(event):
            turn.run_id = event.run_id
            self._loop.call_later(_EACH_LOOK_S, self._look, turn)
        if turn is not None and isinstance(event, Error) and turn.run_id in ("", event.run_id):
            turn.trouble = event.message
        is_open = self._fold.open_questions
        if isinstance(event, Relay) and event.id in is_open:
            self._ask(event)
        for relay_id in [update for update in self._asked_ids if update not in is_open]:
            self._asked_ids.discard(relay_id)
            self._listener.withdraw(relay_id)
        if isinstance(event, Result) and turn is not None and event.run_id == turn.run_id:
            turn.end(event)
            self.turn = None

    def _is_own(self, event: Message) -> bool:
        text = event.text.strip()
        if text not in self._own_prompts:
            return False
        self._own_prompts.remove(text)
        return True

    def _look(self, turn: PromptTurn) -> None:
        """Now and then: a process that is killed in silence changes no file, so nobody is woken by its end."""
        if self.turn is turn:
            self._check_turn()
            self._loop.call_later(_EACH_LOOK_S, self._look, turn)

    def _check_turn(self) -> None:
        """A prompt whose run never began, or whose writer died, is answered too."""
        if self.turn is not None and not self._is_at_work:
            self._loop.call_later(_LAST_LOOK_S, self._give_up, self.turn)

    def _give_up(self, turn: PromptTurn) -> None:
        if self.turn is not turn or self._is_at_work:
            return
        self.turn = None
        if self.is_stopping:
            turn.stop()
        else:
            turn.fail(turn.trouble or "the run has ended without a result")

    @property
    def _is_at_work(self) -> bool:
        try:
            status = self._backend.status(self.log_id)
        except HarnessError:  # it was deleted
            return False
        return status.is_running or status.is_waiting or not status.can_submit

    def _ask(self, relay: Relay) -> None:
        self._asked_ids.add(relay.id)
        self._listener.ask(relay)

    def _tell(self, updates: Iterable[dict[str, Any]]) -> None:
        for update in updates:
            self._listener.update(update)


def options_of(version: Literal[1, 2], capabilities: dict[str, Any]) -> AcpOptions:
    """What this client has announced that it knows."""
    session = capabilities.get("session")
    session = session if isinstance(session, dict) else {}
    return AcpOptions(
        version=version,
        notices=version == 2 or session.get("notices") is not None,
        compaction=session.get("compaction") is not None,
    )
