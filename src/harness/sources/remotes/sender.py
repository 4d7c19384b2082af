"""What is said to a run in a sandbox runner: one thing after the other, each until the runner has answered."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, NamedTuple

from harness.log.ids import new_run_id
from harness.sources.remotes.runner_client import BROKEN, RunnerClient

_PATIENCE_S = 60.0
"""How long one thing is tried."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class Saying(NamedTuple):
    action: str
    body: dict[str, Any]


class CommandSender:
    """Contract: `put` may be called from any thread, and does not wait. What is sent again has the same key, by which
    the runner knows it.
    """

    def __init__(self, client: RunnerClient, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._changed = threading.Condition()
        self._waiting: deque[Saying] = deque()
        self._refused: list[Saying] = []
        self._is_busy = False
        self._is_closed = False

    def put(self, action: str, **body: Any) -> None:
        key = new_run_id(time.time_ns() // 1_000_000)
        with self._changed:
            self._waiting.append(Saying(action, {**body, "key": key}))
            if not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._send_all, name=f"tell-{self._run_id}", daemon=True).start()

    def drain(self, within_s: float) -> list[Saying]:
        """Wait until all was said; what the run did not take, because it had ended or could not."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_busy, within_s)
            refused, self._refused = [*self._refused, *self._waiting], []
            self._waiting.clear()
            return refused

    def close(self) -> None:
        """The run has ended here: nothing is tried again but to stop it there."""
        self._is_closed = True

    def _send_all(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._is_busy = False
                    self._changed.notify_all()
                    return
                saying = self._waiting.popleft()
            if not self._send(saying):
                with self._changed:
                    self._refused.append(saying)

    def _send(self, saying: Saying) -> bool:
        """Whether it was taken."""
        until_s, pause_s = time.monotonic() + _PATIENCE_S, _FIRST_PAUSE_S
        while True:
            try:
                return self._client.tell(self._run_id, saying.action, saying.body)
            except BROKEN:
                is_over = self._is_closed and saying.action != "cancel"
                if is_over or time.monotonic() > until_s:
                    return False
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
