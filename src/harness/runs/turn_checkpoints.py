"""Which turns are recorded for `harness undo`, and by what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.config import load
from harness.contracts.request import REMOTE_AGENT
from harness.errors import HarnessError
from harness.log.hub import Hub
from harness.runs.launch import Launch

if TYPE_CHECKING:
    from harness.undo.recorder import TurnRecorder


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
