"""The connections to a server: few and short ones for clients that are not logged in, at no cost for the others.

Rules
1. A client that is not logged in is a stranger. The number of strangers is limited; one more, and the one
   that has been there longest is cut off: an honest request is answered long before that.
2. A stranger that has not sent its request after some seconds is cut off, and so is one that stays longer
   than it takes to load the page.
3. All connections together use only a part of the files that this process may have open. The rest is for
   agents.
"""

from __future__ import annotations

import asyncio
import resource
from contextlib import suppress

_MOST_FILES = 8192
"""Not more: agents inherit the limit, and some programs try every number below it."""
_STRANGERS_OF = 8
_STRANGERS = (16, 256)
_TRUSTED_OF = 3
_UNASKED_S = 10.0
_STRANGER_S = 60.0
_LOOK_EVERY_S = 1.0

Client = tuple[str, int]


class _Connection:
    __slots__ = ("has_asked", "since_s", "transport")

    def __init__(self, transport: asyncio.Transport, since_s: float) -> None:
        self.transport = transport
        self.since_s = since_s
        self.has_asked = False


class Connections:
    """Contract: used in one event loop."""

    def __init__(
        self,
        most_files: int | None = None,
        *,
        unasked_s: float = _UNASKED_S,
        stranger_s: float = _STRANGER_S,
    ) -> None:
        files = raise_open_files() if most_files is None else most_files
        fewest, most = _STRANGERS
        self.most_strangers = max(fewest, min(most, files // _STRANGERS_OF))
        self.most_trusted = max(fewest, files // _TRUSTED_OF)
        self._unasked_s = unasked_s
        self._stranger_s = stranger_s
        self._strangers: dict[Client, _Connection] = {}
        """The oldest first."""
        self._trusted: set[Client] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    @property
    def trusted(self) -> int:
        return len(self._trusted)

    def opened(self, client: Client | None, transport: asyncio.Transport) -> None:
        if client is None:
            return
        loop = asyncio.get_running_loop()
        self._strangers[client] = _Connection(transport, loop.time())
        if len(self._strangers) > self.most_strangers:
            self.drop_oldest()
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_EVERY_S, self._look)

    def closed(self, client: Client | None) -> None:
        if client is not None:
            self._strangers.pop(client, None)
            self._trusted.discard(client)

    def asked(self, client: Client | None) -> None:
        """The client's request is complete."""
        stranger = self._strangers.get(client) if client is not None else None
        if stranger is not None:
            stranger.has_asked = True

    def trust(self, client: Client | None) -> bool:
        """The client is logged in; False: there are too many already."""
        if client is None or client in self._trusted:
            return True
        if len(self._trusted) >= self.most_trusted:
            return False
        if self._strangers.pop(client, None) is not None:
            self._trusted.add(client)
        return True

    def drop_oldest(self) -> bool:
        """Cut off the stranger that has been there longest, preferably one without a request."""
        silent = (client for client, connection in self._strangers.items() if not connection.has_asked)
        client = next(silent, None) or next(iter(self._strangers), None)
        if client is None:
            return False
        self._strangers.pop(client).transport.abort()
        return True

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for client, connection in list(self._strangers.items()):
            if now_s - connection.since_s >= (self._stranger_s if connection.has_asked else self._unasked_s):
                self._strangers.pop(client).transport.abort()
        self._timer = loop.call_later(_LOOK_EVERY_S, self._look) if self._strangers else None


def raise_open_files() -> int:
    """Raise the limit on open files as far as allowed; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most_files = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most_files:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, hard))
            return most_files
    return _MOST_FILES if soft == resource.RLIM_INFINITY else soft
