"""The same client for programs without an event loop: it has one of its own, in a thread.

with PlainClient("http://127.0.0.1:4780", token=token, session=session_id) as client:
    client.send(Submit(prompt="fix the tests"))
    state = client.until(lambda state: state["status"] != "running")
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Self, TypeVar

from harness.interfaces.client.client import HarnessClient, State
from harness.interfaces.commands import Command

Given = TypeVar("Given")


class PlainClient:
    """Contract: may be used from any thread; `with`, or `open` and `close`."""

    def __init__(self, url: str, *, token: str, session: str = "") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="harness-client", daemon=True)
        self._client = HarnessClient(url, token=token, session=session)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def state(self) -> State:
        return self._client.state

    @property
    def errors(self) -> list[str]:
        """What the server refused, the latest last."""
        return list(self._client.errors)

    def open(self, timeout_s: float | None = 30.0) -> None:
        """Raises UsageError, UnknownSession, TimeoutError."""
        self._thread.start()
        try:
            self._do(self._client.open(), timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._thread.is_alive():
            self._do(self._client.close(), None)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def send(self, command: Command | Mapping[str, Any]) -> None:
        self._do(self._client.send(command), None)

    def until(self, is_so: Callable[[State], Any], timeout_s: float | None = None) -> State:
        """The first state that is as wanted. Raises TimeoutError."""
        return self._do(self._client.until(is_so), timeout_s)

    def states(self) -> Iterator[State]:
        """The state now, and after every change; what is too quick for the reader is passed over."""
        last: State | None = None
        while True:
            seen = last
            last = self.until(lambda state, seen=seen: state is not seen)  # type: ignore[misc]
            yield last

    def _do(self, work: Coroutine[Any, Any, Given], timeout_s: float | None) -> Given:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise
