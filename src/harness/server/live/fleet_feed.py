"""The fleets of this server as they change: read again when their logs grow, encoded once for all clients.

A client has a version: it gets the changes since the one before, or everything. So one that is slow costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Protocol

from harness.errors import HarnessError, StoreError
from harness.fleet.watching import FleetSummary, FleetView, FleetWatch, KnownFleets
from harness.formatting.json_text import encode
from harness.server.live.frames import Packet

_BETWEEN_S = 0.25
"""Between two readings of something that changes all the time; more where reading takes long."""
_SHARE = 4
_LOOKS_EVERY_S = 1.5
"""For what no log shows: that a process has ended, or that there is a new fleet."""


class _Reading(Protocol):
    """Something that is shown and changes."""

    def read(self) -> Any:
        """In a thread. What it is now."""
        ...

    def message(self, now: Any) -> dict[str, Any]: ...

    def changes(self, before: Any, now: Any) -> dict[str, Any]:
        """The message for a client that has what was before."""
        ...

    def close(self) -> None: ...


class _ListReading:
    def __init__(self, fleets: KnownFleets) -> None:
        self._fleets = fleets

    def read(self) -> list[FleetSummary]:
        return self._fleets.summaries()

    def message(self, now: list[FleetSummary]) -> dict[str, Any]:
        return {"type": "fleets", "fleets": now}

    def changes(self, before: list[FleetSummary], now: list[FleetSummary]) -> dict[str, Any]:
        del before
        return self.message(now)

    def close(self) -> None:
        self._fleets.close()


class _FleetReading:
    def __init__(self, fleets: KnownFleets, name: str, wake: Callable[[], object]) -> None:
        self._fleets = fleets
        self._name = name
        self._wake = wake
        self._watch: FleetWatch | None = None
        self._identity: object = None
        self._followed: frozenset[str] | None = None
        self._stop_following: Callable[[], None] = lambda: None

    def read(self) -> FleetView | str:
        """A text: why it cannot be read."""
        identity = self._fleets.identity(self._name)
        try:
            if self._watch is None or identity != self._identity:
                self.close()
                self._watch, self._identity = self._fleets.open(self._name), identity
            view = self._watch.view()
        except HarnessError as error:
            self.close()
            return error.words
        if self._followed != self._watch.followed:
            self._followed = self._watch.followed
            self._stop_following()
            self._stop_following = self._watch.follow(self._wake)
        return view

    def message(self, now: FleetView | str) -> dict[str, Any]:
        about: dict[str, Any] = {"type": "fleet", "fleet": self._name}
        return about | ({"problem": now} if isinstance(now, str) else {"view": now})

    def changes(self, before: FleetView | str, now: FleetView | str) -> dict[str, Any]:
        if isinstance(before, str) or isinstance(now, str) or before.tasks != now.tasks:
            return self.message(now)
        cases = [new for old, new in zip(before.cases, now.cases, strict=True) if old != new]
        changed: dict[str, Any] = {"summary": now.summary, "cases": cases}
        changed |= {"report": now.report} if now.report != before.report else {}
        return {"type": "fleet", "fleet": self._name, "changed": changed}

    def close(self) -> None:
        self._stop_following()
        self._stop_following, self._followed = lambda: None, None
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()


class _Shown:
    """What is read for one or more clients, as versions. Contract: lives in one event loop."""

    def __init__(self, open_reading: Callable[[Callable[[], object]], _Reading]) -> None:
        self.clients = 0
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._reading = open_reading(self._wake)
        self._version = 0
        self._value: Any = None
        self._whole: Packet | None = None
        self._changes: Packet | None = None
        self._changed = asyncio.Condition()
        self._task = self._loop.create_task(self._work())

    async def next(self, version: int) -> tuple[int, Packet]:
        """What a client gets that has seen this version; 0: nothing yet."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._version != version)
            if version == self._version - 1 and self._changes is not None:
                return self._version, self._changes
            if self._whole is None:
                self._whole = Packet(encode(self._reading.message(self._value)))
            return self._version, self._whole

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await asyncio.to_thread(self._reading.close)

    def _wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._woken.set)

    async def _work(self) -> None:
        while True:
            self._woken.clear()
            began_s = time.monotonic()
            value = await asyncio.shield(asyncio.to_thread(self._read))
            if not self._version or value != self._value:
                await self._publish(value)
            await asyncio.sleep(max(_BETWEEN_S, _SHARE * (time.monotonic() - began_s)))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), _LOOKS_EVERY_S)

    def _read(self) -> Any:
        try:
            return self._reading.read()
        except StoreError:  # the list itself: the database is away
            return self._value if self._version else []

    async def _publish(self, value: Any) -> None:
        async with self._changed:
            before, self._value = self._value, value
            self._changes = None
            if self._version:
                self._changes = Packet(encode(self._reading.changes(before, value)))
            self._whole = None
            self._version += 1
            self._changed.notify_all()


class FleetFeed:
    """What clients look at. Contract: lives in one event loop; `close` last."""

    def __init__(self, fleets: KnownFleets) -> None:
        self._fleets = fleets
        self._shown_fleets: dict[str, _Shown] = {}

    async def follow(self, name: str) -> AsyncGenerator[Packet]:
        """A fleet, or with an empty name the list of all, from now on."""
        shown_fleet = self._shown_fleets.get(name)
        if shown_fleet is None:
            shown_fleet = self._shown_fleets[name] = _Shown(lambda wake: self._reading(name, wake))
        shown_fleet.clients += 1
        try:
            version = 0
            while True:
                version, packet = await shown_fleet.next(version)
                yield packet
        finally:
            shown_fleet.clients -= 1
            if not shown_fleet.clients and self._shown_fleets.get(name) is shown_fleet:
                del self._shown_fleets[name]
                await shown_fleet.close()

    async def close(self) -> None:
        for shown_fleet in self._shown_fleets.values():
            await shown_fleet.close()
        self._shown_fleets.clear()

    def _reading(self, name: str, wake: Callable[[], object]) -> _Reading:
        return _FleetReading(self._fleets, name, wake) if name else _ListReading(self._fleets)
