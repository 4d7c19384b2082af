"""Asking another server, over the database, to carry out a command: it is left there, and its result waited for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

import msgspec

from harness import errors
from harness.errors import HarnessError, LogLocked, StoreError, UnknownSession, UsageError
from harness.log.stores.postgres.commands import PostgresCommands

_LOOKS_EVERY_S = 1.0
_KINDS: dict[str, type[HarnessError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, HarnessError)
}


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a command: all empty when it was carried out."""

    kind: str = ""
    message: str = ""
    hint: str = ""

    def check(self) -> None:
        """Raises the error that the other server found."""
        if self.kind:
            raise _KINDS.get(self.kind, UsageError)(self.message, hint=self.hint)


class Lost(NamedTuple):
    """Nobody will carry it out: who had the log has let go of it, or died."""

    seen_seq: int | None
    """One who died may have carried it out; the log tells it from here on."""


class Deadlines(NamedTuple):
    """By the loop's clock."""

    taken_s: float
    answered_s: float


class RemoteCommand:
    """One command for one log. Contract: lives in one event loop."""

    def __init__(self, mailbox: PostgresCommands, log_id: str, key: str, deadlines: Deadlines) -> None:
        self._mailbox = mailbox
        self._log_id = log_id
        self._key = key
        self._deadlines = deadlines
        self._loop = asyncio.get_running_loop()

    async def ask(self, command: bytes, seen_seq: int | None) -> Outcome | Lost:
        """Raises LogLocked when nobody took it in time, StoreError when nobody answered, UnknownSession."""
        woken = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(woken.set)

        stop = await asyncio.to_thread(self._mailbox.listen_for_result, self._key, wake)
        try:
            within_s = max(0.0, self._deadlines.taken_s - self._loop.time())
            await asyncio.to_thread(self._leave, command, within_s, seen_seq)
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), _LOOKS_EVERY_S)
                woken.clear()
                try:
                    found = await asyncio.to_thread(self._look, seen_seq, self._loop.time())
                except LogLocked:
                    raise
                except StoreError:
                    if self._loop.time() > self._deadlines.answered_s:
                        raise
                    continue  # the database may come back
                if found is not None:
                    return found
        finally:
            stop()

    def _leave(self, command: bytes, within_s: float, seen_seq: int | None) -> None:
        self._mailbox.leave(self._log_id, self._key, command, within_s=within_s, seen_seq=seen_seq)

    def _look(self, seen_seq: int | None, now_s: float) -> Outcome | Lost | None:
        mailbox, key = self._mailbox, self._key
        found = mailbox.look(key)
        if found is None:
            raise UnknownSession(f"session {self._log_id} was deleted meanwhile")
        if found.has_result:
            result = mailbox.fetch(key)
            return None if result is None else msgspec.json.decode(result, type=Outcome)
        if found.taken_by and not found.is_in_hand:
            taken_seq = mailbox.take_back(key, found.taken_by)
            known = [seq for seq in (seen_seq, taken_seq) if seq is not None]
            return None if taken_seq is None else Lost(min(known))
        if found.taken_by:
            self._check_answered(found.taken_by, now_s)
        elif not found.is_held:
            return Lost(seen_seq) if mailbox.withdraw(key) else None
        elif now_s > self._deadlines.taken_s:
            self._give_up()
        else:
            mailbox.remind()
        return None

    def _give_up(self) -> None:
        if self._mailbox.withdraw(self._key):
            raise LogLocked(
                f"session {self._log_id} is held by another process, which does not take commands: nothing was done",
                hint="wait until it has ended, or stop it",
            )

    def _check_answered(self, taken_by: str, now_s: float) -> None:
        if now_s > self._deadlines.answered_s:
            raise StoreError(
                f"process {taken_by} took the command, and has not said what came of it",
                hint="look at the conversation before you ask it again",
            )
