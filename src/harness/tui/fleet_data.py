"""The fleets that the screen shows: those of this machine, or those of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import msgspec

from harness.clients.server_address import ServerCalls
from harness.errors import UsageError
from harness.fleet.compare import Comparison, compare_variants
from harness.fleet.watching import FleetSummary, FleetView, FleetWatch, KnownFleets


class FleetSource(Protocol):
    """Contract: every method may take its time, is called by one thread at a time, and raises HarnessError."""

    def all(self) -> Sequence[FleetSummary]:
        """The last changed first; one that cannot be read is `broken`."""
        ...

    def view(self, name: str) -> FleetView: ...

    def compare(self, name: str, a: str, b: str) -> Comparison:
        """Two of its variants."""
        ...

    def stop(self, name: str, *, now: bool) -> None:
        """Start no more cases; with `now`, stop those that run."""
        ...

    def close(self) -> None: ...


class LocalFleets:
    """A `FleetSource` of the data directory, or of a database."""

    def __init__(self, database: str = "") -> None:
        self._fleets = KnownFleets(database)
        self._watch: FleetWatch | None = None
        """Of the fleet that was looked at last: what was read of it is not read again."""
        self._identity: object = None

    def all(self) -> Sequence[FleetSummary]:
        return self._fleets.summaries()

    def view(self, name: str) -> FleetView:
        return self._opened(name).view()

    def compare(self, name: str, a: str, b: str) -> Comparison:
        return compare_variants(self._opened(name).fleet, a, b)

    def stop(self, name: str, *, now: bool) -> None:
        watch = self._opened(name)
        if not watch.summary().is_attended:
            raise UsageError(f"the fleet {name} is not being run")
        watch.fleet.records.request_stop("now" if now else "after")

    def close(self) -> None:
        self._release()
        self._fleets.close()

    def _opened(self, name: str) -> FleetWatch:
        identity = name, self._fleets.identity(name)
        if self._watch is None or identity != self._identity:
            self._release()
            self._watch, self._identity = self._fleets.open(name), identity
        return self._watch

    def _release(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()


class RemoteFleets:
    """A `FleetSource` of a `harness serve`."""

    def __init__(self, calls: ServerCalls) -> None:
        self._calls = calls

    def all(self) -> Sequence[FleetSummary]:
        return msgspec.convert(self._calls.get("/api/fleets")["fleets"], list[FleetSummary])

    def view(self, name: str) -> FleetView:
        return msgspec.convert(self._calls.get(_place(name)), FleetView, str_keys=True)

    def compare(self, name: str, a: str, b: str) -> Comparison:
        comparison: dict[str, Any] = self._calls.get(f"{_place(name)}/compare?{urlencode({'a': a, 'b': b})}")
        of = comparison["comparison"]
        for end, unknown in (("low", float("-inf")), ("high", float("inf"))):  # JSON has no word for them
            of[end] = unknown if of[end] is None else of[end]
        return msgspec.convert(of, Comparison)

    def stop(self, name: str, *, now: bool) -> None:
        self._calls.post(f"{_place(name)}/stop", {"now": now})

    def close(self) -> None:
        """Nothing stays open between two calls."""


def _place(name: str) -> str:
    return f"/api/fleets/{quote(name, safe='')}"
