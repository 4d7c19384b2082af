"""A client of `harness serve`, for programs; needs the extra `server`."""

from __future__ import annotations

from harness.clients.client.client import HarnessClient, PlainClient, to_thread

__all__ = ["HarnessClient", "PlainClient", "to_thread"]
