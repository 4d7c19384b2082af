"""Which turns are recorded for `harness undo`, and by what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harness.config import load
from harness.contracts.request import REMOTE_AGENT
from harness.errors import HarnessError
from harness.events.operation import Operation, only_looks
from harness.log.hub import Hub
from harness.runs.launch import Launch

if TYPE_CHECKING:
    from harness.undo.recorder import TurnRecorder

_PAUSE_S = 0.02


def recorder_of(launch: Launch, hub: Hub, run_id: str) -> TurnRecorder | None:
    """Not for a recording, what happens elsewhere, and copies of a folder, which have a diff of their own."""
    request = launch.request
    if request.recording or request.copy_of or launch.agent.name == REMOTE_AGENT:
        return None
    return recorder_in(request.cwd, hub, run_id)


def recorder_in(folder: str, hub: Hub, run_id: str) -> TurnRecorder | None:
    """None: turns in this folder are not recorded, which is no reason not to run them."""
    try:
        if not folder or not load(folder).value("undo.on"):
            return None
        # Only now: what is switched off should cost nothing.
        from harness.undo.recorder import TurnRecorder, why_not_recorded

        return None if why_not_recorded(folder) else TurnRecorder(folder, hub, run_id)
    except (HarnessError, OSError):
        return None


async def before_work(recorder: TurnRecorder, calls: Sequence[Sequence[Operation]]) -> None:
    """Calls that mean this are about to run: what they may change has to be seen before."""
    if all(map(only_looks, calls)):
        return
    from harness.undo.recorder import LONGEST_LOOK_S

    try:
        for _ in range(int(LONGEST_LOOK_S / _PAUSE_S)):
            if recorder.has_looked:
                break
            await asyncio.sleep(_PAUSE_S)
    finally:
        recorder.release()


class LateCheckpoints:
    """The checkpoints of a run in this process, which says before its calls what they may do: a run that changes no file
    costs nothing, and does not wait.

    Contract: `before` ahead of calls; `end` when the run has ended, however it did.
    """

    def __init__(self, make: Callable[[], TurnRecorder | None]) -> None:
        self._make = make
        self._recorder: TurnRecorder | None = None
        self._has_begun = False

    async def before(self, calls: Sequence[Sequence[Operation]]) -> None:
        """Calls that mean this are about to run."""
        if not self._has_begun and not all(map(only_looks, calls)):
            await self._begin(is_held=True)
        if self._recorder is not None:
            await before_work(self._recorder, calls)

    async def begin(self) -> None:
        """Take the first checkpoint now: something else than calls may change files."""
        await self._begin(is_held=False)

    async def _begin(self, *, is_held: bool) -> None:
        self._has_begun = True
        self._recorder = self._make()
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.begin, is_held=is_held)

    async def end(self) -> None:
        if self._recorder is not None:
            await asyncio.shield(asyncio.to_thread(self._recorder.end))
