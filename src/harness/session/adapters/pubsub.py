"""Messages between the parts of one process: subscribers receive what is published under their topic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_logger = logging.getLogger("harness.session")


class LocalPubSub:
    """Implements `PubSub`; listeners are called in the publishing thread, one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, list[Callable[[bytes], object]]] = {}

    def publish(self, topic: str, message: bytes) -> None:
        for listener in self._listeners.get(topic, ()):
            try:
                listener(message)
            except Exception:
                _logger.exception("a subscriber of %s failed", topic)

    def subscribe(self, topic: str, listener: Callable[[bytes], object]) -> Callable[[], None]:
        with self._lock:
            self._listeners[topic] = [*self._listeners.get(topic, ()), listener]

        def stop() -> None:
            with self._lock:
                listeners_left = [other for other in self._listeners.get(topic, ()) if other is not listener]
                self._listeners[topic] = listeners_left

        return stop
