"""Walls that stand: what is protected is looked up before a program starts, and what it left is looked at after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory

from harness.contracts.tool import ToolFailure
from harness.errors import UsageError
from harness.process.invocation import Invocation
from harness.sandbox.protected_paths import Survey, settings_in, survey
from harness.sandbox.rungs import Rung
from harness.sandbox.wall import Wall
from harness.workspace.git_directories import switch_off_new


class BuiltWall:
    """One wall, for programs that are started behind it one after the other."""

    def __init__(self, rung: Rung, wall: Wall) -> None:
        """Raises UsageError when something cannot be protected."""
        self._rung = rung
        self._wall = wall
        self._before = self._survey()
        self._temporary = TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True)

    def around(self, invocation: Invocation) -> Invocation:
        """What to start instead. Raises UsageError when something cannot be protected."""
        return self._rung.build(invocation, self._wall, self._survey(), self._temporary.name)

    def take_down(self) -> list[str]:
        """After everything behind it has ended. Returns what had to be switched off, as text."""
        self._temporary.cleanup()
        return switch_off_new(self._before.roots, self._before.found) if self._wall.confines else []

    def _survey(self) -> Survey:
        look = survey if self._wall.confines else settings_in
        return look(self._wall.workspaces, self._wall.protected)


def wall_around(invocation: Invocation, wall: Wall) -> tuple[Invocation, BuiltWall]:
    """For `Child`: what to start instead, and the wall itself. Raises UsageError where none can be built."""
    from harness.sandbox.ladder import find_sandbox

    built = BuiltWall(
        find_sandbox(hides=wall.settings == "blank" or bool(wall.blank) or not wall.confines), wall
    )
    try:
        return built.around(invocation), built
    except BaseException:
        built.take_down()
        raise


@asynccontextmanager
async def confined(
    rung: Rung, invocation: Invocation, wall: Wall
) -> AsyncIterator[tuple[Invocation, list[str]]]:
    """A command of a tool: what to start instead, and a list that says after the block what had to be switched off.

    Raises ToolFailure when something cannot be protected.
    """
    refused: list[str] = []
    try:
        built = await asyncio.to_thread(BuiltWall, rung, wall)
        walled = built.around(invocation)
    except UsageError as error:
        raise ToolFailure(error.words) from None
    try:
        yield walled, refused
    except BaseException:
        built.take_down()  # at once: the caller may not wait any more
        raise
    refused += await asyncio.to_thread(built.take_down)


@asynccontextmanager
async def confining(
    rung: Rung, workspaces: Sequence[str], on_refused: Callable[[str], object]
) -> AsyncIterator[Callable[[Invocation], Invocation]]:
    """The same for programs that are started again and again: what confines each of them.

    It raises UsageError when something cannot be protected. After the block `on_refused` is called with what had to be
    switched off.
    """
    built = await asyncio.to_thread(BuiltWall, rung, Wall(workspaces=tuple(workspaces)))
    try:
        yield built.around
    finally:
        for text in built.take_down():
            on_refused(text)
