"""Checkpoints around one turn of an agent: before its prompt, around its calls, and at its end.

A turn never waits longer than `LONGEST_WAIT_S` for its first checkpoint; a walk that takes longer goes on beside the
agent. An agent of this process says when it is about to change something, and waits then (`LONGEST_LOOK_S`). Whatever goes wrong here, the turn runs: what is missing is recorded, and said by `harness undo`.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Sequence

from harness.config import load
from harness.errors import HarnessError
from harness.events import Event, ToolEnd, ToolStart
from harness.events.operation import only_looks
from harness.log.hub import Hub
from harness.undo.checkpoints import Moment, note_missing, take, why_off
from harness.undo.store import Checkpoint, Phase, UndoStore, folder_of
from harness.undo.upkeep import make_room, remove_unused, sweep

LONGEST_WAIT_S = 0.3
LONGEST_LOOK_S = 10.0
"""How long the first call that may change a file is held up: what was not seen before it cannot be taken back."""
_PAUSE_S = 0.02
"""Events come in bursts: a few wake-ups for all of them."""
_CALL_PAUSE_S = 1.0
_LONGEST_CALL_CHECKPOINT_MS = 100
"""Where one takes longer, there are none around calls."""
_logger = logging.getLogger("harness.undo")


def why_not_recorded(root: str) -> str:
    """Why turns in this folder are not recorded, as far as that is clear without looking into it; empty: they are."""
    real = os.path.realpath(root)
    home = os.path.realpath(os.path.expanduser("~"))
    if not os.path.isdir(real):
        return f"{root} is no folder"
    if f"{home}/".startswith(f"{real.rstrip('/')}/"):
        return f"{real} is the home folder, or above it"
    if not load(real).value("undo.on"):
        return "it is switched off (undo.on)"
    return ""


class TurnRecorder:
    """Contract: `begin` before the prompt is delivered, `end` when the turn has ended, however it did. Never raises."""

    def __init__(self, root: str, hub: Hub, run_id: str) -> None:
        self._root = root
        self._hub = hub
        self._run_id = run_id
        self._since_ns = time.time_ns()
        self._is_released = False
        self._is_ending = False
        self._has_begun = threading.Event()
        self._woken = threading.Event()
        self._last: Checkpoint | None = None
        self._last_s = 0.0
        self._thread = threading.Thread(target=self._work, name=f"undo-{run_id}", daemon=True)

    def begin(self, *, is_held: bool = False) -> None:
        """`is_held`: the agent changes nothing before `release`."""
        self._thread.start()
        self._has_begun.wait(LONGEST_WAIT_S)
        self._is_released = not is_held

    def release(self) -> None:
        """From now on the agent may change files."""
        self._is_released = True

    @property
    def has_looked(self) -> bool:
        """Whether the first checkpoint is there, or will never be."""
        return self._has_begun.is_set()

    def end(self) -> None:
        self._is_ending = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            store = UndoStore(self._root)
        except (OSError, sqlite3.Error, HarnessError) as error:
            _logger.warning(
                "no undo for this turn: %s cannot be written: %s", folder_of(self._root), _reason(error)
            )
            self._has_begun.set()
            return
        try:
            remove_unused(store.folder)
            if why_off(store):
                return
            most_bytes = make_room(store)
            self._take(store, "before", most_bytes)
            self._has_begun.set()
            if self._last is not None and self._last.state == "taken":
                self._follow_calls(store, most_bytes)
            self._take(store, "after", most_bytes)
            sweep(store)
        except (OSError, sqlite3.Error) as error:
            _logger.warning("the undo of this turn may be incomplete: %s: %s", store.folder, _reason(error))
        except Exception:  # a turn must never fail because of its undo
            _logger.exception("the undo of this turn broke")
        finally:
            self._has_begun.set()
            store.close()

    def _take(self, store: UndoStore, phase: Phase, most_bytes: int) -> None:
        since_ns = self._since_ns if phase == "before" else 0
        is_released = (lambda: self._is_released) if phase == "before" else (lambda: False)
        moment = Moment(self._hub.log_id, self._run_id, phase, since_ns, is_released)
        try:
            with store.writing():
                try:
                    self._last = take(store, moment, most_bytes=most_bytes)
                except (OSError, sqlite3.Error, HarnessError) as error:
                    self._last = note_missing(store, moment, error)
        except (OSError, sqlite3.Error, HarnessError) as error:
            _logger.warning("no checkpoint of %s: %s", self._root, _reason(error))
        self._last_s = time.monotonic()

    def _follow_calls(self, store: UndoStore, most_bytes: int) -> None:
        """Until the turn ends: a checkpoint where a call begins or ends, while they are cheap."""
        remove = self._hub.add_waker(self._woken.set)
        follower = self._hub.follower(self._hub.next_seq)
        try:
            while True:
                self._woken.wait()
                self._woken.clear()
                if self._is_ending:
                    return
                if _may_have_written(follower.poll()) and self._is_cheap():
                    self._take(store, "call", most_bytes)
                time.sleep(_PAUSE_S)
        finally:
            remove()
            follower.close()

    def _is_cheap(self) -> bool:
        is_quick = self._last is not None and self._last.took_ms <= _LONGEST_CALL_CHECKPOINT_MS
        return is_quick and time.monotonic() - self._last_s >= _CALL_PAUSE_S


def _reason(error: Exception) -> str:
    """Without the path of a temporary file, which says nothing."""
    return getattr(error, "strerror", None) or str(error)


def _may_have_written(events: Sequence[Event]) -> bool:
    for event in events:
        if isinstance(event, ToolEnd):
            return True
        if isinstance(event, ToolStart) and not only_looks(event.operations):
            return True
    return False
