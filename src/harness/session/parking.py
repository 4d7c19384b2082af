"""Parked conversations: a run that a full window of its provider has ended is continued once, when that opens again.

                 the run ends at a window              due, and nobody is asked anything
    ┌───────┐ ─────────────────────────▶ ┌────────┐ ──────────────────────────────▶ ┌─────────┐
    │  any  │                            │ parked │                                 │ resumed │ ─▶ a run
    └───────┘ ◀───────────────────────── └────────┘                                 └─────────┘
                a person's message, a stop

Rules
1. Only where it was asked for, and only by the process that has the log of the conversation: one at a time can.
2. `Unparked` is in the log before the agent is asked. Where nothing follows it, the process died in between; the
   conversation then waits for a person, and is never continued twice.
3. So many windows in a row, and none that opens later than `longest_s`. A person's message begins the count anew.
4. A window that is full again at once is waited for 5, 15 and 45 minutes more, then a person decides.
5. Never a long sleep: the clock may be set, and a laptop sleeps. Time by both clocks counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from harness.errors import UsageError
from harness.events import Event, Parked, Unparked
from harness.folds.limits import LimitFacts

CONTINUATION = "Continue where you stopped. Your last turn ended because a usage limit was reached; nothing of it was undone."
_POLL_S = 30.0
_AGAIN_MS = 120_000
"""A window that is full so soon after the conversation was continued is still the same one."""
_LATER_MS = (5 * 60_000, 15 * 60_000, 45 * 60_000)
_LEAST_DELAY_MS, _SPREAD_MS = 5_000, 55_000
"""After the window opens: conversations of one account do not all start at once."""
_BOOT_SLACK_S = 600.0
_NO_WAIT_MS = 1_000


class ParkingRules(msgspec.Struct, frozen=True, kw_only=True):
    """What happens when a run ends because a window of the provider is full."""

    is_on: bool = False
    """Continue by itself when the window opens; else a person does it."""
    most_windows: int = 2
    """So many in a row without a word of a person."""
    longest_s: float = 6 * 3600.0
    """A window that opens later is left to a person."""
    quiet: tuple[int, int] | None = None
    """Minutes of the local day, from and to: nothing is continued between them."""


class Parking:
    """Contract: lives in the event loop of its session. Everything that outlives the process is in the log."""

    def __init__(
        self,
        *,
        facts: Callable[[], LimitFacts],
        is_free: Callable[[], bool],
        append: Callable[[Event], object],
        send: Callable[[str, str], Awaitable[object]],
        clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        """`is_free`: neither a run nor a question is open. `send`: a prompt and its id; returns when the run ends."""
        self.rules: ParkingRules = ParkingRules()
        self._facts = facts
        self._is_free = is_free
        self._append = append
        self._send = send
        self._clock_ms = clock_ms
        self._waiting: asyncio.Task[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether this process will continue the conversation."""
        return self._waiting is not None

    def after_run(self, new_id: str) -> None:
        """Park the conversation if the run has ended at a window that opens again in time."""
        facts = self._facts()
        if not self.rules.is_on or facts.limit is None or facts.parked is not None:
            return
        parked = next_parking(facts, self.rules, self._clock_ms(), new_id)
        if parked is not None:
            self._append(parked)
            self.watch()

    def watch(self) -> None:
        """Wait for the window of a parked conversation, here."""
        if self.rules.is_on and self._waiting is None and self._facts().parked is not None:
            self._waiting = asyncio.get_running_loop().create_task(self._wait(), name="parking")
            self._waiting.add_done_callback(self._forget)

    def leave(self) -> None:
        """Wait no more in this process; the conversation stays parked."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting is not asyncio.current_task():
            waiting.cancel()

    def give_up(self, reason: Literal["message", "cancelled"]) -> bool:
        """A person has sent a message, or stopped it; True if it was parked."""
        parked = self._facts().parked
        if parked is None:
            return False
        self._append(Unparked(id=parked.id, reason=reason))
        self.leave()
        return True

    def make_way(self, opening: object) -> None:
        """A run begins with this message or signal; None: one continues."""
        if opening is not None:
            self.give_up("message")

    async def continue_now(self) -> None:
        """Raises UsageError where nothing is parked."""
        parked = self._facts().parked
        if parked is None:
            raise UsageError(
                "it waits for no window of its provider", hint="send a message to continue the conversation"
            )
        self._append(Unparked(id=parked.id, reason="resumed"))
        self.leave()
        await self._send(CONTINUATION, parked.id)

    async def _wait(self) -> None:
        boot_s, began_ms = _boot_s(), self._clock_ms()
        while (parked := self._facts().parked) is not None:
            left_ms = parked.resumes_at_ms - self._clock_ms()
            by_boot_s = (parked.resumes_at_ms - began_ms) / 1000 + _BOOT_SLACK_S
            is_due = left_ms <= 0 or _boot_s() - boot_s >= by_boot_s
            if is_due and self._is_free():
                await self.continue_now()
                return
            await asyncio.sleep(min(_POLL_S, max(left_ms, _NO_WAIT_MS) / 1000))

    def _forget(self, task: asyncio.Task[None]) -> None:
        if self._waiting is task:
            self._waiting = None


def next_parking(facts: LimitFacts, rules: ParkingRules, now_ms: int, new_id: str) -> Parked | None:
    """None: a person decides."""
    window, before = facts.limit, facts.last_parked
    if window is None or window.status == "exhausted" or window.resets_at_ms is None:
        return None
    number, again = 1, 0
    if before is not None:
        is_same = before.window.name == window.name and facts.ended_ms - facts.began_ms < _AGAIN_MS
        again = before.again + 1 if is_same else 0
        number = before.number if is_same else before.number + 1
    if number > rules.most_windows or again > len(_LATER_MS):
        return None
    at_ms = max(window.resets_at_ms, now_ms) + _LEAST_DELAY_MS + hash_of(new_id) % _SPREAD_MS
    if again:
        at_ms = max(at_ms, now_ms + _LATER_MS[again - 1])
    at_ms = after_quiet(at_ms, rules.quiet)
    if at_ms - now_ms > rules.longest_s * 1000:
        return None
    return Parked(
        id=new_id, window=window, resumes_at_ms=at_ms, number=number, most=rules.most_windows, again=again
    )


def after_quiet(at_ms: int, quiet: tuple[int, int] | None) -> int:
    """The moment itself, or the end of the quiet time that it lies in."""
    if quiet is None or quiet[0] == quiet[1]:
        return at_ms
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    minute, (start, end) = at.hour * 60 + at.minute, quiet
    is_quiet = start <= minute < end if start < end else minute >= start or minute < end
    if not is_quiet:
        return at_ms
    until = at.replace(hour=end // 60, minute=end % 60, second=0, microsecond=0)
    until = until if until > at else until + timedelta(days=1)
    return int(until.timestamp() * 1000)


def hash_of(text: str) -> int:
    """The same in every process."""
    return (
        sum((place + 1) * byte for place, byte in enumerate(text.encode("utf-8", "replace"))) * 2_654_435_761
    )


def _boot_s() -> float:
    """Time since the machine started, also while it slept, where the system says that."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
