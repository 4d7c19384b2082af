"""A screen of `harness tui` in a test: keys in, text out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from harness.clients.inbox import key_answers
from harness.tui import actions
from harness.tui.actions import InboxScreen
from harness.tui.app import InboxApp
from scripted_inbox import NOW_MS, ScriptedInbox

Script = Callable[["Seen"], Awaitable[None]]


class Seen:
    """What a test does with a screen, and sees of it."""

    def __init__(self, app: InboxApp, pilot: Pilot[Any], data: ScriptedInbox) -> None:
        self.app = app
        self.pilot = pilot
        self.data = data

    @property
    def screen(self) -> InboxScreen:
        found = self.app.screen_stack[1]
        assert isinstance(found, InboxScreen)
        return found

    @property
    def text(self) -> str:
        """All lines, without blanks at their ends."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips) + "\n"

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.settle()

    async def write(self, text: str) -> None:
        await self.pilot.press(*("space" if letter == " " else letter for letter in text))
        await self.settle()

    async def until(self, is_so: Callable[[], object]) -> None:
        """Fails with what is on the screen when it takes too long."""
        ends_s = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < ends_s, self.text
            await self.pilot.pause(0.01)

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    async def settle(self) -> None:
        """Until workers and timers have done what was due."""
        await self.pilot.pause()
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()


def drive(data: ScriptedInbox, script: Script, *, size: tuple[int, int] = (100, 30)) -> None:
    """Run a script on a screen of this size."""

    async def run() -> None:
        app = InboxApp(data, {})
        async with app.run_test(size=size) as pilot:
            seen = Seen(app, pilot, data)
            await seen.settle()
            await script(seen)

    asyncio.run(run())


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock on the wall stands still, and an ask can be answered at once."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(time, "time_ns", lambda: NOW_MS * 1_000_000)
    monkeypatch.setattr(key_answers, "SETTLED_S", 0.0)
    monkeypatch.setattr(key_answers, "RESTED_S", 0.0)
    monkeypatch.setattr(actions, "HELD_S", 1000.0)
