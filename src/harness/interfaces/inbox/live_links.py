"""Sessions of other processes that take commands: `harness chat` and `harness run`, over their sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from harness.errors import UsageError
from harness.interfaces.cli.chat.channel import ChannelClient
from harness.interfaces.commands import Command
from harness.interfaces.server.backend import ConversationStatus

_TRIED_AGAIN_S = 3.0


class LiveLinks:
    """Contract: thread-safe; `on_change` is called from other threads with the id of a session whose status is
    another one. `status` never waits.
    """

    def __init__(self, on_change: Callable[[str], object]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._links: dict[str, ChannelClient] = {}
        self._tried_s: dict[str, float] = {}
        self._is_closed = False

    def status(self, log_id: str) -> ConversationStatus | None:
        """None: it takes no commands, or that is not known yet."""
        with self._lock:
            link = self._links.get(log_id)
            if link is not None and link.is_open:
                return replace(link.status, is_ours=False, is_elsewhere=False, can_branch=False)
            if link is not None:
                self._links.pop(log_id).close()
            now_s = time.monotonic()
            if self._is_closed or now_s - self._tried_s.get(log_id, -_TRIED_AGAIN_S) < _TRIED_AGAIN_S:
                return None
            self._tried_s[log_id] = now_s
        threading.Thread(target=self._connect, args=(log_id,), name="harness-link", daemon=True).start()
        return None

    def reaches(self, log_id: str) -> bool:
        """Whether it takes commands. Waits until that is known."""
        return self._link(log_id) is not None

    def send(self, log_id: str, command: Command) -> None:
        """Waits for the answer. Raises UsageError for what cannot be done."""
        link = self._link(log_id)
        if link is None:
            raise UsageError(
                "it is run by another program, which takes no commands from here",
                hint="answer it there",
            )
        link.send(command)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            links, self._links = list(self._links.values()), {}
        for link in links:
            link.close()

    def _link(self, log_id: str) -> ChannelClient | None:
        with self._lock:
            link = self._links.get(log_id)
        return link if link is not None and link.is_open else self._connect(log_id)

    def _connect(self, log_id: str) -> ChannelClient | None:
        try:
            link = ChannelClient(log_id, partial(self._on_change, log_id))
        except OSError:
            return None
        with self._lock:
            known = self._links.get(log_id)
            is_needed = not self._is_closed and (known is None or not known.is_open)
            if is_needed:
                if known is not None:
                    known.close()
                self._links[log_id] = link
                self._tried_s.pop(log_id, None)
        if not is_needed:
            link.close()
            return known
        return link
